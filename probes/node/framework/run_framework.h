#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/node/process/experiment.h"
#include "probes/observations/deadline.h"
#include "probes/observations/framework.h"

namespace dlc {

struct FrameworkLaunch {
  std::string name;     ///< FrameworkProcess::name
  std::string python;   ///< a program, or a name to find in PATH
  std::string program;  ///< its text
  FrameworkJob job;
  std::vector<std::pair<std::string, std::string>> environment;  ///< beside what is there already
};

/// One rank's process of the framework, from its start until nothing of its process group is left.
/// When another rank says that it stopped, or is lost, this one is stopped too; when this one ends
/// without a result, the others are told.
FrameworkProcess RunFramework(const FrameworkLaunch& launch, Exchange& exchange, Deadline deadline,
                              const Progress& progress);

/// What a program that failed said last: the exception that its last traceback ends in
/// ("RuntimeError:
/// ..."), else its last line that is not empty. Without torch's "[rank0]: " in front.
std::string LastWords(const std::vector<std::string>& lines);

}  // namespace dlc

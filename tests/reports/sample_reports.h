#pragma once

#include <string>
#include <vector>

#include "reports/report.h"

namespace dlc {

/// Reports made by hand: they depend on no check that exists.
struct SampleReport {
  std::string name;  ///< of its golden files
  Report report;
};

Report AllPass();
/// Every verdict with every severity; a large group; several stages.
Report WorstFirst();
Report NothingJudged();
Report Interrupted();
/// Names and messages that try to break out of each format.
Report HostileNames();
std::vector<SampleReport> SampleReports();

Finding SamplePass(const std::string& rule, const Subject& subject);
Finding SampleFail(const std::string& rule, const Subject& subject);
Finding SampleUnknown(const std::string& rule, const Subject& subject);

/// As many findings as a cluster of 10,000 pods has: `count` in all, of every verdict.
Report LargeReport(int count);

}  // namespace dlc

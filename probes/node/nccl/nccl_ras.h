#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "probes/observations/deadline.h"
#include "probes/observations/nccl.h"
#include "probes/observations/observed.h"

namespace dlc {

inline constexpr std::size_t kMostRasBytes = 65'536;

/// What NCCL's RAS says of all ranks and communicators, as JSON and no more than kMostRasBytes of
/// it. Its thread is in the ranks' own processes, so they must still be there. Not looked at: a
/// version without JSON (before 2.28.7, src/ras/client_support.cc), or NCCL_RAS_ENABLE=0.
/// `settings`: of the process, for NCCL_RAS_ADDR. Takes until the deadline where a rank is silent.
Observed<std::string> AskNcclRas(int version_code, const std::vector<NcclSetting>& settings,
                                 Deadline deadline);

}  // namespace dlc

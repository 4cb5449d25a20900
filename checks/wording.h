#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/digest.h"

namespace dlc {

/// "a, b, c and 7 more". Findings name subjects, and a cluster may have thousands.
std::string NameSome(const std::vector<std::string>& names, std::size_t most = 5);
/// "1 pod", "3 pods".
std::string Count(std::size_t count, std::string_view noun);
/// "12.3" for 12.345 with one digit.
std::string Fixed(double value, int digits);
/// "sha256:0123456789ab": enough for a remark; assertions carry the whole digest.
std::string ShortDigest(const Digest& digest);

}  // namespace dlc

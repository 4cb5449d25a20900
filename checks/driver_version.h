#pragma once

#include <string_view>

namespace dlc {

/// "580.65.06": two or three numbers with dots between them.
bool IsDriverVersion(std::string_view text);
/// Number by number: "580.9" is older than "580.65.06". Precondition: both are versions.
bool IsOlderDriver(std::string_view a, std::string_view b);

}  // namespace dlc

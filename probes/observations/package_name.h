#pragma once

#include <string>
#include <string_view>

namespace dlc {

/// PEP 503: lower case, each run of - _ . becomes one -. "Flash_Attn" -> "flash-attn".
std::string NormalizePackageName(std::string_view name);

}  // namespace dlc

#pragma once

#include <string_view>

namespace dlc {

/// dlc_check_driver.py, which the build puts here: dlc-check stays one file.
extern const std::string_view kDriverText;

}  // namespace dlc

#pragma once

#include <string_view>

namespace dlc {

/// dlc_check_driver.py, which the build puts here, as what follows: dlc-check stays one file.
extern const std::string_view kDriverText;
/// dlc_check_trainer.py, and dlc_check_fit.py, which it starts.
extern const std::string_view kTrainerText;
extern const std::string_view kFitText;
/// train_framework.py, which dlc-probe has too.
extern const std::string_view kFrameworkText;

}  // namespace dlc

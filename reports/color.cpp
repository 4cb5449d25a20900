#include "reports/color.h"

namespace dlc {
namespace {

std::string_view ValueOf(const char* variable) {
  return variable == nullptr ? std::string_view() : std::string_view(variable);
}

}  // namespace

bool UseColor(std::string_view flag, bool is_terminal, const char* no_color, const char* term,
              const char* clicolor_force, const char* force_color) {
  if (flag == "always" || flag == "never") {
    return flag == "always";
  }
  if (!ValueOf(no_color).empty()) {
    return false;
  }
  if (const auto force = ValueOf(clicolor_force); !force.empty() && force != "0") {
    return true;
  }
  if (const auto force = ValueOf(force_color); !force.empty()) {
    return force != "0" && force != "false";
  }
  const std::string_view terminal = ValueOf(term);
  return is_terminal && !terminal.empty() && terminal != "dumb";
}

}  // namespace dlc

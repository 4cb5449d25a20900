#include "reports/progress.h"

#include <algorithm>

#include "reports/plain_text.h"
#include "reports/text_layout.h"

namespace dlc {

void Progress::Stage(std::string_view name) {
  stage_ = PlainText(name);
  step_.clear();
  Show();
}

void Progress::Step(std::string_view text) {
  std::string step = PlainText(text);
  if (step == step_) {
    return;
  }
  step_ = std::move(step);
  Show();
}

void Progress::Warn(std::string_view text) {
  const bool was_on_screen = on_screen_;
  Erase();
  stream_ << "dlc-check: warning: " << PlainText(text) << '\n';
  if (was_on_screen) {
    Show();
  }
  stream_.flush();
}

void Progress::Done() {
  Erase();
  stage_.clear();
  step_.clear();
  stream_.flush();
}

void Progress::Show() {
  if (options_.quiet) {
    return;
  }
  std::string line = stage_;
  if (!step_.empty()) {
    line += (line.empty() ? "" : ": ") + step_;
  }
  if (Live()) {
    // A line as wide as the terminal would wrap on some, and "\r" would then erase only its end.
    stream_ << "\r\x1b[K" << CutToWidth(line, std::max(1, options_.width - 1));
    on_screen_ = true;
  } else {
    stream_ << line << '\n';
  }
  stream_.flush();
}

void Progress::Erase() {
  if (on_screen_) {
    stream_ << "\r\x1b[K";
    on_screen_ = false;
  }
}

}  // namespace dlc

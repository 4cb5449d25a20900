#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace dlc {

struct ProgressOptions {
  bool is_terminal = false;  ///< of the stream, and one that knows "\r" and erase-line (not dumb)
  bool quiet = false;        ///< warnings only
  bool verbose = false;      ///< on a terminal too, every step stays as a line
  int width = 80;            ///< columns of the terminal; a live line never reaches the last one
};

/// Tells on stderr what is being looked at. On a terminal one live line that is overwritten and
/// erased; elsewhere one plain line per stage and step. Texts are neutralised. Not thread-safe.
class Progress {
 public:
  Progress(std::ostream& stream, ProgressOptions options) : stream_(stream), options_(options) {}
  /// Erases a live line that is still there.
  ~Progress() { Done(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Ends the stage before it. "image"
  void Stage(std::string_view name);
  /// "reading the manifest of registry.example/train:v1"; the same step twice is told once.
  void Step(std::string_view text);
  /// "dlc-check: warning: TEXT", a line of its own that stays, even when quiet.
  void Warn(std::string_view text);
  /// Nothing of ours is left on the current line: stdout may be written.
  void Done();

 private:
  bool Live() const { return options_.is_terminal && !options_.quiet && !options_.verbose; }
  void Show();
  void Erase();

  std::ostream& stream_;
  ProgressOptions options_;
  std::string stage_;
  std::string step_;
  bool on_screen_ = false;
};

}  // namespace dlc

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "probes/observations/nccl.h"

/// The shapes of single lines. Part of nccl_log.cpp, and private like it.
namespace dlc::nccl_log {

/// Moves over a line, left to right.
class LineCursor {
 public:
  explicit LineCursor(std::string_view text) : left_(text) {}

  /// Moves past `word` if it is what comes next.
  bool Take(std::string_view word);
  /// Moves past the next `word`, wherever it is.
  bool SkipPast(std::string_view word);
  /// A decimal number without sign.
  bool Number(int& out);
  /// What stands before `word`, or all; `word` is left.
  std::string_view Until(std::string_view word);
  /// What stands before any of the characters.
  std::string_view UntilAny(std::string_view characters);
  std::string_view Rest() const { return left_; }
  bool AtEnd() const { return left_.empty(); }

 private:
  std::string_view left_;
};

/// "<host>:<pid>:<tid> [<device>] NCCL INFO <message>", with a source line before NCCL in warnings.
struct Frame {
  enum class Kind : std::uint8_t { kNone, kInfo, kWarning };
  Kind kind = Kind::kNone;
  std::string process;  ///< "host:pid"
  std::string_view message;
};
Frame ReadFrame(std::string_view line);

/// Whether a second frame begins inside a message: two writers shared the line.
bool HoldsAnother(std::string_view message);

struct ConnectionLine {
  bool is_one = false;  ///< it tells how two ranks are connected
  std::optional<NcclConnections> read;
};
ConnectionLine ReadConnection(std::string_view message);

}  // namespace dlc::nccl_log

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// Takes the driver's frames out of a job's log, which is read whole each time and grows: lines
/// "@dlc-check NUMBER SHA256 BASE64", each a piece of a stream of JSON lines that the last of them
/// closes. A frame that is missing, comes twice, is cut or damaged is an Error, and so is a log
/// that got shorter; what is between frames is somebody else's.
class JobFrames {
 public:
  /// The JSON lines that became whole. Errors (kUnavailable) stay: nothing is read after one.
  Result<std::vector<std::string>> Read(std::string_view log);
  /// The driver closed the stream, and all of it was there.
  bool closed() const { return closed_; }
  /// The last of the lines that are no frames: what Ray or Python said.
  const std::string& others() const { return others_; }

 private:
  Result<void> TakeFrame(std::string_view line, std::vector<std::string>& lines);
  Result<void> Close(const std::string& line);
  Error Refuse(const std::string& why);

  std::size_t read_ = 0;  ///< bytes of the log
  std::size_t frames_ = 0;
  std::string digests_;  ///< of the frames, one after the other
  std::string rest_;     ///< of the stream: no whole line yet
  std::string others_;
  bool closed_ = false;
  Error broken_;  ///< with a message: of an earlier call
};

}  // namespace dlc

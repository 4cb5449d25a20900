#include "probes/control/ray_ranks/job_frames.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/http/base64.h"
#include "probes/control/process/run_process.h"
#include "probes/control/sha256/sha256.h"

namespace dlc {
namespace {

constexpr std::string_view kMark = "@dlc-check ";
constexpr std::string_view kEnd = R"({"event": "end")";
constexpr std::size_t kOthersBytes = 4096;

/// The text up to the next blank, which is taken off with it.
std::string_view Word(std::string_view& text) {
  const auto end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

}  // namespace

Error JobFrames::Refuse(const std::string& why) {
  broken_ = {ErrorCode::kUnavailable,
             "what the ranks saw did not arrive whole: " + why + " of the job's log", ""};
  return broken_;
}

Result<void> JobFrames::Close(const std::string& line) {
  const auto end = nlohmann::json::parse(line, nullptr, false);
  const bool whole = end.is_object() && end.value("frames", std::size_t{0}) == frames_ &&
                     end.value("sha256", "") == Sha256Of(digests_).hex && rest_.empty();
  if (!whole) {
    return Refuse("the closing sums differ from those of the " + std::to_string(frames_) +
                  " frames");
  }
  closed_ = true;
  return {};
}

Result<void> JobFrames::TakeFrame(std::string_view line, std::vector<std::string>& lines) {
  const std::string_view number = Word(line);
  const std::string_view digest = Word(line);
  const std::string expected = std::to_string(frames_);
  if (closed_ || number != expected) {
    return Refuse("frame " + OneLine(std::string(number), 20) + " stands where " +
                  (closed_ ? "the stream had been closed" : "frame " + expected + " belongs"));
  }
  const auto piece = Base64Decode(line);
  if (!piece || Sha256Of(*piece).hex != digest) {
    return Refuse("the digest of frame " + expected + " is another");
  }
  if (piece->starts_with(kEnd)) {
    return Close(*piece);
  }
  ++frames_;
  digests_ += digest;
  rest_ += *piece;
  std::size_t start = 0;
  for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', start)) {
    lines.push_back(rest_.substr(start, end - start));
    start = end + 1;
  }
  rest_.erase(0, start);
  return {};
}

Result<std::vector<std::string>> JobFrames::Read(std::string_view log) {
  if (!broken_.message.empty()) {
    return broken_;
  }
  if (log.size() < read_) {
    return Refuse("the end is gone");
  }
  log.remove_prefix(read_);
  std::vector<std::string> lines;
  for (auto end = log.find('\n'); end != std::string_view::npos; end = log.find('\n')) {
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(end + 1);
    read_ += end + 1;
    if (!line.starts_with(kMark)) {
      if (!line.empty()) {
        others_.append(line).append("\n");
      }
    } else if (auto taken = TakeFrame(line.substr(kMark.size()), lines); !taken) {
      return std::move(taken).error();
    }
  }
  if (others_.size() > kOthersBytes) {
    others_.erase(0, others_.size() - kOthersBytes);
  }
  return lines;
}

}  // namespace dlc

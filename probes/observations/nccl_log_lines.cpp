#include "probes/observations/nccl_log_lines.h"

#include <algorithm>
#include <charconv>

namespace dlc::nccl_log {
namespace {

constexpr std::string_view kDecimal = "0123456789";
constexpr std::string_view kInfo = " NCCL INFO ";
constexpr std::string_view kWarn = " NCCL WARN ";

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDecimal) == std::string_view::npos;
}

/// "host:pid" of "... host:pid:tid"; empty when it is not that.
std::string ProcessIn(std::string_view text) {
  const std::size_t blank = text.find_last_of(" \t>|");
  const std::string_view word = blank == std::string_view::npos ? text : text.substr(blank + 1);
  const std::size_t thread = word.rfind(':');
  if (thread == std::string_view::npos || thread == 0) {
    return "";
  }
  const std::size_t pid = word.rfind(':', thread - 1);
  if (pid == std::string_view::npos || pid == 0 || !IsNumber(word.substr(thread + 1)) ||
      !IsNumber(word.substr(pid + 1, thread - pid - 1))) {
    return "";
  }
  // mpirun -tag-output: "[1,30]<stdout>:worker-3:27:569"
  std::string_view host = word.substr(0, thread);
  if (host.starts_with(':')) {
    host.remove_prefix(1);
  }
  return std::string(host);
}

/// The process of a head "... host:pid:tid [dev]"; what follows the bracket is a warning's source.
std::string ProcessOfHead(std::string_view head) {
  for (std::size_t open = head.find(" ["); open != std::string_view::npos;
       open = head.find(" [", open + 1)) {
    const std::size_t close = head.find(']', open);
    if (close == std::string_view::npos) {
      return "";
    }
    const std::string_view device = head.substr(open + 2, close - open - 2);
    if (IsNumber(device) || device == "-1") {
      if (std::string process = ProcessIn(head.substr(0, open)); !process.empty()) {
        return process;
      }
    }
  }
  return "";
}

/// "1[3]" or, in NCCL before 2.18, "1[101c0]".
bool TakeRank(LineCursor& at) {
  int rank = 0;
  if (!at.Number(rank) || !at.Take("[")) {
    return false;
  }
  const std::string_view device = at.Until("]");
  return !device.empty() &&
         device.find_first_not_of("0123456789abcdef") == std::string_view::npos && at.Take("]");
}

/// "Libfabric/3(2)/GDRDMA(PCI)/Shared" to its end.
std::optional<NcclConnections> ReadNetwork(std::string_view transport, LineCursor at) {
  NcclConnections one;
  one.transport = transport;
  one.network = at.Until("/");
  if (one.network.empty() || one.network.size() > 64 || !at.Take("/") || !at.Number(one.device)) {
    return std::nullopt;
  }
  if (at.Take("(")) {
    int proxy = 0;
    one.through_proxy = true;
    if (!at.Number(proxy) || !at.Take(")")) {
      return std::nullopt;
    }
  }
  if (at.Take("/GDRDMA")) {
    one.gpu_direct = true;
    one.forced_pci = at.Take("(PCI)");
  }
  one.shared = at.Take("/Shared");
  return at.AtEnd() ? std::optional<NcclConnections>(one) : std::nullopt;
}

/// What follows "via P2P/" or "via SHM/". The words are few, the numbers in them do not matter.
std::optional<NcclConnections> ReadLocal(std::string_view transport, std::string_view detail) {
  constexpr std::string_view kKnown[] = {"direct pointer", "CUMEM",   "MNNVL", "IPC",
                                         "indirect/",      "direct/", "CE/"};
  const bool known = std::any_of(std::begin(kKnown), std::end(kKnown),
                                 [&](std::string_view word) { return detail.starts_with(word); });
  if (!known || detail.size() > 64) {
    return std::nullopt;
  }
  NcclConnections one;
  one.transport = transport;
  one.detail = detail.starts_with("indirect/") ? "indirect" : detail;
  return one;
}

std::optional<NcclConnections> ReadCollnet(LineCursor at) {
  auto one = at.SkipPast("via COLLNET/") ? ReadNetwork("COLLNET", at) : std::nullopt;
  if (one) {
    one->others = 1;
  }
  return one;
}

/// "1[0] -> 0[0] [send] via NET/..." to its end.
std::optional<NcclConnections> ReadPeers(LineCursor at) {
  if (!TakeRank(at) || !at.Take(" -> ") || !TakeRank(at)) {
    return std::nullopt;
  }
  const bool send = at.Take(" [send]");
  const bool receive = !send && at.Take(" [receive]");
  std::optional<NcclConnections> one;
  if (at.Take(" via NET/")) {
    one = send || receive ? ReadNetwork("NET", at) : std::nullopt;
  } else if (at.Take(" via P2P/")) {
    one = ReadLocal("P2P", at.Rest());
  } else if (at.Take(" via SHM/")) {
    one = ReadLocal("SHM", at.Rest());
  }
  if (one) {
    (send ? one->sends : receive ? one->receives : one->others) = 1;
  }
  return one;
}

}  // namespace

bool LineCursor::Take(std::string_view word) {
  if (!left_.starts_with(word)) {
    return false;
  }
  left_.remove_prefix(word.size());
  return true;
}

bool LineCursor::SkipPast(std::string_view word) {
  const std::size_t at = left_.find(word);
  if (at == std::string_view::npos) {
    return false;
  }
  left_.remove_prefix(at + word.size());
  return true;
}

bool LineCursor::Number(int& out) {
  if (left_.empty() || kDecimal.find(left_.front()) == std::string_view::npos) {
    return false;
  }
  const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), out);
  if (error != std::errc()) {
    return false;
  }
  left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
  return true;
}

std::string_view LineCursor::Until(std::string_view word) {
  const std::string_view found = left_.substr(0, left_.find(word));
  left_.remove_prefix(found.size());
  return found;
}

std::string_view LineCursor::UntilAny(std::string_view characters) {
  const std::string_view found = left_.substr(0, left_.find_first_of(characters));
  left_.remove_prefix(found.size());
  return found;
}

Frame ReadFrame(std::string_view line) {
  const std::size_t info = line.find(kInfo);
  const std::size_t warn = line.find(kWarn);
  const std::size_t at = std::min(info, warn);
  if (at == std::string_view::npos) {
    return {};
  }
  Frame frame;
  frame.process = ProcessOfHead(line.substr(0, at));
  if (frame.process.empty() || frame.process.size() > 256) {
    return {};
  }
  frame.kind = at == info ? Frame::Kind::kInfo : Frame::Kind::kWarning;
  frame.message = line.substr(at + kInfo.size());
  return frame;
}

bool HoldsAnother(std::string_view message) {
  return message.find(kInfo) != std::string_view::npos ||
         message.find(kWarn) != std::string_view::npos;
}

ConnectionLine ReadConnection(std::string_view message) {
  LineCursor at(message);
  const bool collnet = at.Take("CollNet ");
  if (!collnet && !at.Take("Channel ")) {
    // A piece of one is evidence that something is missing.
    return {message.find(" via NET/") != std::string_view::npos, std::nullopt};
  }
  const std::string_view ring = at.Rest();
  if (ring.find(" :") != std::string_view::npos &&
      ring.find_first_not_of("0123456789/ :") == std::string_view::npos) {
    return {};  // "Channel 00/32 :    0   1": the order of a ring
  }
  int number = 0;
  if (!at.Number(number) || (at.Take("/") && !at.Number(number)) || !at.Take(" : ")) {
    return {true, std::nullopt};
  }
  return {true, collnet ? ReadCollnet(at) : ReadPeers(at)};
}

}  // namespace dlc::nccl_log

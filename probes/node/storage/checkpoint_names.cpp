#include "probes/node/storage/checkpoint_names.h"

#include <algorithm>
#include <charconv>

namespace dlc {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes the name apart from the left; whatever does not fit makes it no match.
class NameScan {
 public:
  explicit NameScan(std::string_view text) : text_(text) {}

  bool Take(std::string_view literal) {
    const bool there = text_.starts_with(literal);
    text_.remove_prefix(there ? literal.size() : 0);
    return there;
  }
  bool TakeNumber(int& value) {
    const auto [end, status] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (status != std::errc() || value < 0 || text_.front() == '-') {
      return false;
    }
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return true;
  }
  bool Ended() const { return text_.empty(); }

 private:
  std::string_view text_;
};

/// "__<rank>_<n>.distcp", ".metadata", "__<rank>.metadata".
std::optional<CheckpointName> DcpName(std::string_view name) {
  CheckpointName found{"dcp", "", 0, 0, name == ".metadata", false};
  if (found.metadata) {
    return found;
  }
  NameScan scan(name);
  if (!scan.Take("__") || !scan.TakeNumber(found.rank)) {
    return std::nullopt;
  }
  if (scan.Take(".metadata") && scan.Ended()) {
    found.rank_metadata = true;
    return found;
  }
  int file = 0;
  if (scan.Take("_") && scan.TakeNumber(file) && scan.Take(".distcp") && scan.Ended()) {
    return found;
  }
  return std::nullopt;
}

/// "rank-00000-of-00004.safetensors".
std::optional<CheckpointName> OwnName(std::string_view name) {
  CheckpointName found{"dlc-check", "", 0, 0, false, false};
  NameScan scan(name);
  const bool fits = scan.Take("rank-") && scan.TakeNumber(found.rank) && scan.Take("-of-") &&
                    scan.TakeNumber(found.stated_ranks) && scan.Take(".safetensors") &&
                    scan.Ended();
  return fits ? std::optional(found) : std::nullopt;
}

/// "mp_rank_00_model_states.pt", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt".
std::optional<CheckpointName> DeepSpeedName(std::string_view name) {
  CheckpointName found{"deepspeed", "", 0, 0, false, false};
  NameScan scan(name);
  int model_parallel = 0;
  if (scan.Take("mp_rank_") && scan.TakeNumber(found.rank) && scan.Take("_model_states.pt") &&
      scan.Ended()) {
    found.part = "model_states by mp_rank";
    return found;
  }
  scan = NameScan(name);
  if (!scan.Take("bf16_")) {
    scan.Take("fp16_");
  }
  if (!scan.Take("zero_pp_rank_") || !scan.TakeNumber(found.rank) || !scan.Take("_mp_rank_") ||
      !scan.TakeNumber(model_parallel) || !scan.Take("_")) {
    return std::nullopt;
  }
  found.part = scan.Take("optim") ? "optim_states" : scan.Take("model") ? "model_states" : "";
  if (found.part.empty() || !scan.Take("_states.pt") || !scan.Ended()) {
    return std::nullopt;
  }
  found.part += model_parallel == 0 ? "" : " of mp_rank " + std::to_string(model_parallel);
  return found;
}

/// "model_world_size_8_rank_0.pt".
std::optional<CheckpointName> WorldSizeName(std::string_view name) {
  constexpr std::string_view kMark = "_world_size_";
  CheckpointName found{"world-size-rank", "", 0, 0, false, false};
  const std::size_t at = name.find(kMark);
  if (at == 0 || at == std::string_view::npos) {
    return std::nullopt;
  }
  NameScan scan(name.substr(at + kMark.size()));
  if (!scan.TakeNumber(found.stated_ranks) || !scan.Take("_rank_") ||
      !scan.TakeNumber(found.rank) || !scan.Take(".pt") || !scan.Ended()) {
    return std::nullopt;
  }
  found.part = name.substr(0, at);
  return found;
}

}  // namespace

std::optional<CheckpointName> ParseCheckpointName(std::string_view name) {
  for (const auto parse : {DcpName, OwnName, DeepSpeedName, WorldSizeName}) {
    if (auto found = parse(name)) {
      return found;
    }
  }
  return std::nullopt;
}

bool IsUnfinishedName(std::string_view name) {
  return name.ends_with(".tmp") || name.find(".tmp.") != std::string_view::npos;
}

std::string RayDirectoryVersion(std::string_view name) {
  constexpr std::string_view kStart = "checkpoint_";
  constexpr std::string_view kTime = "0000-00-00_00-00-00";
  if (!name.starts_with(kStart) || name.size() == kStart.size()) {
    return "";
  }
  name.remove_prefix(kStart.size());
  if (std::all_of(name.begin(), name.end(), IsDigit)) {
    return "v1";
  }
  if (name.size() < kTime.size()) {
    return "";
  }
  const std::string_view fraction = name.substr(kTime.size());
  const bool fits =
      std::equal(kTime.begin(), kTime.end(), name.begin(),
                 [](char want, char have) { return want == '0' ? IsDigit(have) : want == have; }) &&
      (fraction.empty() || (fraction.size() > 1 && fraction.front() == '.' &&
                            std::all_of(fraction.begin() + 1, fraction.end(), IsDigit)));
  return fits ? "v2" : "";
}

}  // namespace dlc

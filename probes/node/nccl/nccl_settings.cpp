#include "probes/node/nccl/nccl_settings.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace dlc {
namespace {

constexpr const char* kOurs = "dlc-probe";

/// Names that begin so; each is the experiment's own, for the reason beside it.
constexpr std::array<std::pair<std::string_view, const char*>, 4> kOwned = {{
    {"NCCL_DEBUG", "the log is how the experiment sees the transport"},
    {"NCCL_HOSTID", "it must differ from rank to rank: use hostIdPerRank"},
    {"NCCL_COMM_ID", "the ranks find each other through the run's rendezvous"},
    {"NCCL_CONF_FILE", "name its settings one by one, so that they are recorded"},
}};

Error Refused(std::size_t index, const std::string& what, const std::string& hint) {
  return {ErrorCode::kInvalidInput, "$.settings[" + std::to_string(index) + "]: " + what, hint};
}

bool IsName(std::string_view name) {
  const auto good = [](unsigned char c) {
    return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
  };
  return std::all_of(name.begin(), name.end(), good) &&
         std::any_of(kNcclPrefixes.begin(), kNcclPrefixes.end(), [&](std::string_view prefix) {
           return name.starts_with(prefix) && name.size() > prefix.size();
         });
}

bool IsValue(std::string_view value) {
  return std::none_of(value.begin(), value.end(),
                      [](unsigned char c) { return std::iscntrl(c) != 0; });
}

const NcclSetting* Find(const std::vector<NcclSetting>& settings, std::string_view name) {
  const auto it = std::find_if(settings.begin(), settings.end(),
                               [&](const NcclSetting& one) { return one.name == name; });
  return it == settings.end() ? nullptr : &*it;
}

Result<NcclSetting> ParseOne(std::size_t index, const std::string& line) {
  const std::size_t equals = line.find('=');
  const std::string name = line.substr(0, equals);
  if (equals == std::string::npos || !IsName(name)) {
    return Refused(index, "'" + line + "' sets no variable of NCCL, its plugin or libfabric",
                   "NCCL_NAME=VALUE, FI_NAME=VALUE or OFI_NCCL_NAME=VALUE");
  }
  for (const auto& [owned, why] : kOwned) {
    if (name.starts_with(owned)) {
      return Refused(index, name + " is the experiment's own", why);
    }
  }
  if (!IsValue(line.substr(equals + 1))) {
    return Refused(index, "the value of " + name + " holds a control character", "");
  }
  return NcclSetting{name, line.substr(equals + 1), kOurs};
}

}  // namespace

Result<std::vector<NcclSetting>> ParseNcclSettings(const std::vector<std::string>& lines) {
  constexpr std::size_t kMostLines = 64;
  if (lines.size() > kMostLines) {
    return Refused(kMostLines, "these are more than " + std::to_string(kMostLines), "");
  }
  std::vector<NcclSetting> settings;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto one = ParseOne(i, lines[i]);
    if (!one) {
      return std::move(one).error();
    }
    if (Find(settings, one->name) != nullptr) {
      return Refused(i, one->name + " is set twice", "");
    }
    settings.push_back(std::move(one).value());
  }
  return settings;
}

NcclSetting NcclHostIdOf(int rank) {
  return {"NCCL_HOSTID", "dlc-check-" + std::to_string(rank), kOurs};
}

void SetNcclSettings(const std::vector<NcclSetting>& ours) {
  for (const NcclSetting& setting : ours) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the one thread there is
    setenv(setting.name.c_str(), setting.value.c_str(), 1);
  }
}

void NameOurSettings(const std::vector<NcclSetting>& ours, std::vector<NcclSetting>& settings) {
  for (NcclSetting& setting : settings) {
    if (Find(ours, setting.name) != nullptr) {
      setting.source = kOurs;
    }
  }
}

std::vector<NcclSetting> ReplacedSettings(const std::vector<NcclSetting>& jobs,
                                          const std::vector<NcclSetting>& ours) {
  std::vector<NcclSetting> replaced;
  for (const NcclSetting& setting : jobs) {
    const NcclSetting* own = Find(ours, setting.name);
    if (own != nullptr && own->value != setting.value) {
      replaced.push_back(setting);
    }
  }
  return replaced;
}

}  // namespace dlc

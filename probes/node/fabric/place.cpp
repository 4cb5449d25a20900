#include "probes/node/fabric/place.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

namespace dlc {
namespace {

void PackField(std::string& to, std::string_view field) {
  const auto length = static_cast<std::uint32_t>(field.size());
  std::array<char, sizeof(length)> bytes{};
  std::memcpy(bytes.data(), &length, sizeof(length));
  to.append(bytes.data(), bytes.size()).append(field);
}

/// False when `from` ends too early.
bool UnpackField(std::string_view& from, std::string& to) {
  std::uint32_t length = 0;
  if (from.size() < sizeof(length)) {
    return false;
  }
  std::memcpy(&length, from.data(), sizeof(length));
  from.remove_prefix(sizeof(length));
  if (from.size() < length) {
    return false;
  }
  to = from.substr(0, length);
  from.remove_prefix(length);
  return true;
}

int Number(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string FabricIntroduction::Pack() const {
  std::string packed;
  const FabricProvider& provider = place.provider;
  for (const std::string& field :
       {std::to_string(static_cast<int>(error.code)), error.message, error.hint, dialect, address,
        place.host, place.boot_id, place.network_namespace, std::to_string(place.usable_cpus),
        provider.name, provider.domain, provider.fabric, provider.version, provider.address,
        provider.protocol}) {
    PackField(packed, field);
  }
  for (const std::string& mode : provider.mr_mode) {
    PackField(packed, mode);
  }
  return packed;
}

Result<FabricIntroduction> FabricIntroduction::Unpack(std::string_view packed) {
  FabricIntroduction to;
  FabricProvider& provider = to.place.provider;
  std::string code;
  std::string cpus;
  for (std::string* field :
       {&code, &to.error.message, &to.error.hint, &to.dialect, &to.address, &to.place.host,
        &to.place.boot_id, &to.place.network_namespace, &cpus, &provider.name, &provider.domain,
        &provider.fabric, &provider.version, &provider.address, &provider.protocol}) {
    if (!UnpackField(packed, *field)) {
      return Error{ErrorCode::kInvalidInput, "a rank's introduction is cut short",
                   "all ranks must run the same version"};
    }
  }
  const int number = Number(code);
  to.error.code = number >= 0 && number <= static_cast<int>(ErrorCode::kInternal)
                      ? static_cast<ErrorCode>(number)
                      : ErrorCode::kInternal;
  to.place.usable_cpus = Number(cpus);
  for (std::string mode; UnpackField(packed, mode);) {
    provider.mr_mode.push_back(mode);
  }
  return to;
}

FabricRank ObservePlace() {
  FabricRank place;
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) {
    place.host = host.data();
  }
  std::ifstream boot_id("/proc/sys/kernel/random/boot_id");
  std::getline(boot_id, place.boot_id);
  std::array<char, 64> link{};
  if (const ssize_t length = readlink("/proc/self/ns/net", link.data(), link.size()); length > 0) {
    place.network_namespace.assign(link.data(), static_cast<std::size_t>(length));
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    place.usable_cpus = CPU_COUNT(&cpus);
  }
  return place;
}

int CountMachines(const std::vector<FabricRank>& ranks) {
  std::set<std::string> boot_ids;
  int unknown = 0;
  for (const FabricRank& rank : ranks) {
    if (rank.boot_id.empty()) {
      ++unknown;
    } else {
      boot_ids.insert(rank.boot_id);
    }
  }
  return static_cast<int>(boot_ids.size()) + unknown;
}

bool IsOversubscribed(const std::vector<FabricRank>& ranks) {
  std::map<std::string, int> on_machine;
  for (const FabricRank& rank : ranks) {
    ++on_machine[rank.boot_id];
  }
  return std::any_of(ranks.begin(), ranks.end(), [&](const FabricRank& rank) {
    return !rank.boot_id.empty() && on_machine[rank.boot_id] > rank.usable_cpus;
  });
}

Result<void> CheckIntroductions(const std::vector<FabricIntroduction>& introductions) {
  for (std::size_t i = 0; i < introductions.size(); ++i) {
    const FabricIntroduction& it = introductions[i];
    const std::string rank = "rank " + std::to_string(i);
    if (!it.error.message.empty()) {
      return Error{it.error.code, rank + " cannot join the fabric: " + it.error.message,
                   it.error.hint};
    }
    if (it.dialect != introductions.front().dialect) {
      return Error{ErrorCode::kUnsupported,
                   rank + " speaks " + it.dialect + ", rank 0 " + introductions.front().dialect,
                   "name one provider for all ranks, and an address that each can reach"};
    }
  }
  return {};
}

}  // namespace dlc

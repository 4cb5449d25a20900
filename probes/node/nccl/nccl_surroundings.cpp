#include "probes/node/nccl/nccl_surroundings.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <utility>

#include "probes/node/nccl/nccl_settings.h"
#include "probes/node/sha256/sha256.h"
#include "probes/observations/nccl_log.h"

namespace dlc {
namespace {

constexpr std::size_t kMostSettings = 256;
constexpr std::array<std::string_view, 7> kLibraries = {
    "libnccl", "libfabric", "libefa", "libibverbs", "libcuda.so", "libgdrapi", "libaws-ofi"};

bool StartsWithAny(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t from = text.find_first_not_of(kBlank);
  return from == std::string_view::npos
             ? std::string_view()
             : text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

/// Into `known` unless the name is there already: the first source wins.
void AddSetting(std::string_view line, const std::string& source, std::set<std::string>& known,
                std::vector<NcclSetting>& settings) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos || settings.size() >= kMostSettings) {
    return;
  }
  const std::string name(Trimmed(line.substr(0, equals)));
  if (known.insert(name).second) {
    settings.push_back({name, std::string(line.substr(equals + 1)), source});
  }
}

}  // namespace

Result<NcclLogCapture> NcclLogCapture::ForChild() {
  // Without MFD_CLOEXEC nothing would keep it out of programs that a plugin starts; NCCL opens it
  // by its name under /proc, which works all the same.
  UniqueFd file(memfd_create("nccl-log", MFD_CLOEXEC));
  if (!file) {
    return Error{ErrorCode::kUnavailable, "cannot make a file in memory for the log of NCCL", ""};
  }
  return NcclLogCapture(std::move(file));
}

Result<NcclLogCapture> NcclLogCapture::Start() {
  auto capture = ForChild();
  if (capture) {
    SetNcclSettings(capture->Settings());
  }
  return capture;
}

std::vector<NcclSetting> NcclLogCapture::Settings() const {
  return {{"NCCL_DEBUG", "INFO", "dlc-probe"},
          {"NCCL_DEBUG_SUBSYS", "INIT,NET,ENV", "dlc-probe"},
          {"NCCL_DEBUG_FILE", "/proc/self/fd/" + std::to_string(file_.get()), "dlc-probe"}};
}

NcclLogCapture::Seen NcclLogCapture::Read() const {
  NcclLogReader reader;
  Sha256 hash;
  std::array<char, 65'536> chunk{};
  off_t at = 0;
  ssize_t count = 0;
  while ((count = pread(file_.get(), chunk.data(), chunk.size(), at)) > 0) {
    const std::string_view piece(chunk.data(), static_cast<std::size_t>(count));
    reader.Feed(piece);
    hash.Add(piece);
    at += count;
  }
  if (count < 0 || at == 0) {
    return {Error{ErrorCode::kUnavailable,
                  count < 0 ? "cannot read the log of NCCL" : "NCCL wrote no log", ""},
            {}};
  }
  return {reader.Finish(), hash.FinishDigest()};
}

Result<void> NcclLogCapture::Keep(const std::string& path) const {
  const UniqueFd to(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  struct stat whole {};
  int error = to && fstat(file_.get(), &whole) == 0 ? 0 : errno;
  off_t at = 0;
  while (error == 0 && at < whole.st_size) {
    const ssize_t sent =
        sendfile(to.get(), file_.get(), &at, static_cast<std::size_t>(whole.st_size - at));
    error = sent < 0 ? errno : sent == 0 ? EIO : 0;
  }
  if (error != 0) {
    return Error{ErrorCode::kUnavailable,
                 "cannot keep the log of NCCL in " + path + ": " + std::strerror(error), ""};
  }
  return {};
}

std::vector<NcclSetting> NcclSettings(const char* const* environment,
                                      const std::vector<std::string>& files) {
  std::vector<NcclSetting> settings;
  std::set<std::string> known;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    if (StartsWithAny(entry, kNcclPrefixes)) {
      AddSetting(entry, "environment", known, settings);
    }
  }
  for (const std::string& path : files) {
    std::ifstream file(path);
    std::size_t lines = 0;
    for (std::string line; lines < kMostSettings && std::getline(file, line); ++lines) {
      const std::string_view entry = Trimmed(line);
      if (!entry.starts_with('#')) {
        AddSetting(entry, path, known, settings);
      }
    }
  }
  std::sort(settings.begin(), settings.end(),
            [](const NcclSetting& a, const NcclSetting& b) { return a.name < b.name; });
  return settings;
}

std::vector<std::string> NcclConfigurationFiles() {
  std::vector<std::string> files;
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing sets them meanwhile
  const char* named = getenv("NCCL_CONF_FILE");
  const char* home = getenv("HOME");
  // NOLINTEND(concurrency-mt-unsafe)
  if (named != nullptr) {
    files.emplace_back(named);
  } else if (home != nullptr) {
    files.push_back(std::string(home) + "/.nccl.conf");
  }
  files.emplace_back("/etc/nccl.conf");
  return files;
}

std::vector<std::string> MappedNcclLibraries(const std::string& maps) {
  std::ifstream file(maps);
  std::set<std::string> found;
  for (std::string line; std::getline(file, line);) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) {
      continue;
    }
    const std::string path = line.substr(slash);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (StartsWithAny(name, kLibraries)) {
      found.insert(path);
    }
  }
  return {found.begin(), found.end()};
}

FabricRank NcclPlace(const std::string& host, const std::string& boot_id) {
  FabricRank place;
  place.host = host;
  place.boot_id = boot_id;
  std::array<char, 64> link{};
  const ssize_t length = readlink("/proc/self/ns/net", link.data(), link.size());
  place.network_namespace.assign(link.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
    place.usable_cpus = CPU_COUNT(&cpus);
  }
  return place;
}

}  // namespace dlc

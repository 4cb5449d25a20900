#include "probes/node/storage/mountinfo.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace dlc {
namespace {

/// Blank, tab, newline and backslash come as \040, \011, \012 and \134.
std::string Unescaped(std::string_view field) {
  std::string text;
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size() && octal(field[i + 1]) && octal(field[i + 2]) &&
        octal(field[i + 3])) {
      text += static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 +
                                (field[i + 3] - '0'));
      i += 3;
    } else {
      text += field[i];
    }
  }
  return text;
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (!line.empty()) {
    const std::size_t end = line.find(' ');
    // An empty source is an empty field: "- tmpfs  rw".
    fields.push_back(line.substr(0, end));
    line = end == std::string_view::npos ? std::string_view() : line.substr(end + 1);
  }
  return fields;
}

bool HasOption(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    const std::size_t comma = options.find(',');
    if (options.substr(0, comma) == wanted) {
      return true;
    }
    options = comma == std::string_view::npos ? std::string_view() : options.substr(comma + 1);
  }
  return false;
}

bool ParseLine(std::string_view line, MountFacts& mount) {
  // id, parent, device, root, mount point, options, optional fields ..., "-", type, source, options
  constexpr std::size_t kBeforeOptional = 6;
  const auto fields = Fields(line);
  std::size_t dash = kBeforeOptional;
  while (dash < fields.size() && fields[dash] != "-") {
    ++dash;
  }
  if (dash + 2 >= fields.size()) {
    return false;
  }
  mount.device = fields[2];
  mount.root = Unescaped(fields[3]);
  mount.mount_point = Unescaped(fields[4]);
  mount.filesystem = Unescaped(fields[dash + 1]);
  mount.source = Unescaped(fields[dash + 2]);
  const std::string_view super = dash + 3 < fields.size() ? fields[dash + 3] : "";
  mount.options = std::string(fields[5]) + (super.empty() ? "" : "," + std::string(super));
  mount.read_only = HasOption(fields[5], "ro") || HasOption(super, "ro");
  return true;
}

Error Failed(const std::string& what, int failure) {
  return {failure == ENOENT                       ? ErrorCode::kNotFound
          : failure == EACCES || failure == EPERM ? ErrorCode::kPermissionDenied
                                                  : ErrorCode::kUnavailable,
          what + ": " + strerrorname_np(failure) + " (" + strerrordesc_np(failure) + ")", ""};
}

}  // namespace

Result<std::vector<MountFacts>> ParseMountInfo(std::string_view text) {
  std::vector<MountFacts> mounts;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) {
      continue;
    }
    MountFacts mount;
    if (!ParseLine(line, mount)) {
      return Error{ErrorCode::kUnsupported, "no mountinfo line: '" + std::string(line) + "'", ""};
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

const MountFacts* MountOf(const std::vector<MountFacts>& mounts, std::string_view path) {
  const MountFacts* best = nullptr;
  for (const MountFacts& mount : mounts) {
    const std::string& point = mount.mount_point;
    const bool above =
        point == "/" || path == point ||
        (path.starts_with(point) && path.size() > point.size() && path[point.size()] == '/');
    if (above && (best == nullptr || point.size() >= best->mount_point.size())) {
      best = &mount;
    }
  }
  return best;
}

Result<MountFacts> ObserveMount(const std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) {
    return Failed("cannot resolve " + path, errno);
  }
  std::ifstream file("/proc/self/mountinfo");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto mounts = ParseMountInfo(text);
  if (!mounts) {
    return mounts.error();
  }
  const MountFacts* mount = MountOf(*mounts, resolved);
  if (mount == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 std::string("/proc/self/mountinfo names no mount for ") + resolved, ""};
  }
  return *mount;
}

Result<SpaceFacts> ObserveSpace(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) {
    return Failed("cannot ask " + path + " for its free space", errno);
  }
  const auto bytes = [&](fsblkcnt_t blocks) {
    return static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(info.f_frsize);
  };
  return SpaceFacts{bytes(info.f_blocks), bytes(info.f_bavail),
                    static_cast<std::int64_t>(info.f_files),
                    static_cast<std::int64_t>(info.f_favail)};
}

}  // namespace dlc

// A file system for tests: shows the directory --backing at MOUNTPOINT and plants one fault. Two
// mounts of one backing directory are two nodes' mounts of one file system. Nothing is cached in
// the kernel between an open and the next, and no fault depends on a clock. Says "ready" when it is
// mounted and, after SIGTERM, how often the fault struck.
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::array kFaults = {
    std::pair{"none", "as the backing directory is"},
    std::pair{"enospc", "ENOSPC once --after bytes were written"},
    std::pair{"edquot", "EDQUOT once --after bytes were written"},
    std::pair{"close-enospc", "ENOSPC from close alone, as NFS may tell it"},
    std::pair{"fsync-eio", "EIO from fsync of a file"},
    std::pair{"fsync-directory-eio", "EIO from fsync of a directory"},
    std::pair{"read-eio", "EIO from read"},
    std::pair{"short-write", "a write takes --after bytes and says so"},
    std::pair{"stale-open", "ESTALE from open"},
    std::pair{"stale-read", "ESTALE from read"},
    std::pair{"delayed-names", "what another mount made is seen at the look after --after others"},
    std::pair{"corrupt-read", "byte --byte of a file reads with another lowest bit"},
    std::pair{"corrupt-write", "byte --byte of a file is stored with another lowest bit"},
    std::pair{"truncated", "a file ends after --after bytes for who reads it"},
    std::pair{"lost-rename", "rename says that it worked and did nothing"},
    std::pair{"no-rename", "ENOSYS from rename, as mounted object stores"},
    std::pair{"no-overwrite", "EPERM for a new file or name in the place of one"},
    std::pair{"no-delete", "EPERM from unlink"},
    std::pair{"read-only", "EROFS from all that would change something"},
    std::pair{"no-direct", "EINVAL from open with O_DIRECT"},
    std::pair{"squashed", "all files belong to uid 65534"},
    std::pair{"stopped", "EIO from everything after --after calls"},
};

struct Settings {
  std::string backing;
  std::string mountpoint;
  std::string fault = "none";
  std::string match = "*";  ///< of the path below the mount point; '*' matches slashes too
  std::int64_t after = 0;
  std::int64_t byte = 0;
  std::int64_t times = 0;  ///< the fault strikes so often; 0: always
};

/// The one mount of this process; libfuse calls from one thread.
class Mount {
 public:
  explicit Mount(Settings settings) : settings_(std::move(settings)) {}

  const Settings& settings() const { return settings_; }
  std::int64_t struck() const { return struck_; }
  std::string Real(const char* path) const { return settings_.backing + path; }

  bool Concerns(std::string_view fault, const char* path) const {
    return settings_.fault == fault && fnmatch(settings_.match.c_str(), path, 0) == 0;
  }
  /// Whether the fault is this one and strikes now.
  bool Strikes(std::string_view fault, const char* path) {
    const bool strikes =
        Concerns(fault, path) && (settings_.times == 0 || struck_ < settings_.times);
    struck_ += strikes ? 1 : 0;
    return strikes;
  }
  /// Counts a call: once the file system has stopped it does not come back.
  bool Stopped(const char* path) {
    calls_ += Concerns("stopped", path) ? 1 : 0;
    const bool stopped = settings_.fault == "stopped" && calls_ > settings_.after;
    struck_ += stopped ? 1 : 0;
    return stopped;
  }
  /// How many of `size` bytes may still be written.
  std::size_t Room(const char* path, std::size_t size) {
    if (!Concerns("enospc", path) && !Concerns("edquot", path)) {
      return size;
    }
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(0, settings_.after - used_));
    struck_ += size > left ? 1 : 0;
    used_ += static_cast<std::int64_t>(std::min(size, left));
    return std::min(size, left);
  }
  void Own(const char* path) { own_.insert(path); }
  bool Hides(const char* path) {
    if (own_.count(path) != 0 || !Concerns("delayed-names", path)) {
      return false;
    }
    struct stat info {};
    if (lstat(Real(path).c_str(), &info) != 0 || ++looks_[path] > settings_.after) {
      return false;
    }
    ++struck_;
    return true;
  }
  bool Shows(const std::string& path) const {
    const auto looks = looks_.find(path);
    return own_.count(path) != 0 || !Concerns("delayed-names", path.c_str()) ||
           (looks != looks_.end() && looks->second > settings_.after);
  }

 private:
  Settings settings_;
  std::int64_t struck_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t used_ = 0;
  std::set<std::string> own_;         ///< made through this mount
  std::map<std::string, int> looks_;  ///< by a name that another mount made
};

Mount& Here() {
  return *static_cast<Mount*>(fuse_get_context()->private_data);
}

int OrError(bool done) {
  return done ? 0 : -errno;
}

void* Init(fuse_conn_info* /*connection*/, fuse_config* config) {
  config->entry_timeout = 0;
  config->attr_timeout = 0;
  config->negative_timeout = 0;
  config->use_ino = 1;
  config->hard_remove = 1;  // no .fuse_hidden files in the backing directory
  std::puts("ready");
  std::fflush(stdout);
  return fuse_get_context()->private_data;
}

int GetAttributes(const char* path, struct stat* info, fuse_file_info* file) {
  Mount& here = Here();
  if (here.Stopped(path)) {
    return -EIO;
  }
  if (here.Hides(path)) {
    return -ENOENT;
  }
  const int failed = file != nullptr ? fstat(static_cast<int>(file->fh), info)
                                     : lstat(here.Real(path).c_str(), info);
  if (failed != 0) {
    return -errno;
  }
  if (S_ISREG(info->st_mode) && here.Concerns("truncated", path)) {
    info->st_size = std::min<off_t>(info->st_size, here.settings().after);
  }
  if (here.Strikes("squashed", path)) {
    info->st_uid = 65'534;
  }
  return 0;
}

int ReadDirectory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t /*offset*/,
                  fuse_file_info* /*file*/, fuse_readdir_flags /*flags*/) {
  Mount& here = Here();
  if (here.Stopped(path)) {
    return -EIO;
  }
  DIR* listing = opendir(here.Real(path).c_str());
  if (listing == nullptr) {
    return -errno;
  }
  const std::string folder = std::string_view(path) == "/" ? "/" : std::string(path) + "/";
  while (const dirent* entry = readdir(listing)) {
    if (here.Shows(folder + entry->d_name)) {
      fill(buffer, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
    }
  }
  closedir(listing);
  return 0;
}

/// What changes something fails so; 0: it may go on.
int Refusal(const char* path) {
  Mount& here = Here();
  return here.Stopped(path) ? -EIO : here.Strikes("read-only", path) ? -EROFS : 0;
}

template <class Change>
int Changed(const char* path, Change change) {
  const int refusal = Refusal(path);
  return refusal != 0 ? refusal : OrError(change(Here().Real(path).c_str()) == 0);
}

int MakeDirectory(const char* path, mode_t mode) {
  const int failure = Changed(path, [&](const char* real) { return mkdir(real, mode); });
  if (failure == 0) {
    Here().Own(path);
  }
  return failure;
}

int Unlink(const char* path) {
  if (Here().Strikes("no-delete", path)) {
    return -EPERM;
  }
  return Changed(path, [](const char* real) { return unlink(real); });
}

int RemoveDirectory(const char* path) {
  return Changed(path, [](const char* real) { return rmdir(real); });
}

int Rename(const char* from, const char* to, unsigned flags) {
  Mount& here = Here();
  if (const int refusal = Refusal(to); refusal != 0) {
    return refusal;
  }
  if (flags != 0) {
    return -EINVAL;
  }
  if (here.Strikes("no-rename", to)) {
    return -ENOSYS;
  }
  if (access(here.Real(to).c_str(), F_OK) == 0 && here.Strikes("no-overwrite", to)) {
    return -EPERM;
  }
  if (here.Strikes("lost-rename", to)) {
    return 0;
  }
  here.Own(to);
  return OrError(rename(here.Real(from).c_str(), here.Real(to).c_str()) == 0);
}

int Truncate(const char* path, off_t size, fuse_file_info* /*file*/) {
  return Changed(path, [&](const char* real) { return truncate(real, size); });
}

int ChangeMode(const char* path, mode_t mode, fuse_file_info* /*file*/) {
  return Changed(path, [&](const char* real) { return chmod(real, mode); });
}

int ChangeOwner(const char* path, uid_t uid, gid_t gid, fuse_file_info* /*file*/) {
  return Changed(path, [&](const char* real) { return lchown(real, uid, gid); });
}

int ChangeTimes(const char* path, const timespec times[2], fuse_file_info* /*file*/) {
  return Changed(path, [&](const char* real) {
    return utimensat(AT_FDCWD, real, times, AT_SYMLINK_NOFOLLOW);
  });
}

int OpenBacking(const char* path, int flags, mode_t mode, fuse_file_info* file) {
  Mount& here = Here();
  if ((flags & O_DIRECT) != 0 && here.Strikes("no-direct", path)) {
    return -EINVAL;
  }
  // The buffers are libfuse's and not aligned.
  const int fd = open(here.Real(path).c_str(), (flags & ~O_DIRECT) | O_CLOEXEC, mode);
  file->fh = static_cast<std::uint64_t>(fd);
  return OrError(fd >= 0);
}

int Open(const char* path, fuse_file_info* file) {
  Mount& here = Here();
  const bool changes = (file->flags & O_ACCMODE) != O_RDONLY || (file->flags & O_TRUNC) != 0;
  if (const int refusal = changes ? Refusal(path) : here.Stopped(path) ? -EIO : 0; refusal != 0) {
    return refusal;
  }
  if (here.Strikes("stale-open", path)) {
    return -ESTALE;
  }
  if (changes && here.Strikes("no-overwrite", path)) {
    return -EPERM;
  }
  return OpenBacking(path, file->flags & ~(O_CREAT | O_EXCL), 0, file);
}

int Create(const char* path, mode_t mode, fuse_file_info* file) {
  if (const int refusal = Refusal(path); refusal != 0) {
    return refusal;
  }
  Here().Own(path);
  return OpenBacking(path, file->flags | O_CREAT, mode, file);
}

int Read(const char* path, char* buffer, size_t size, off_t offset, fuse_file_info* file) {
  Mount& here = Here();
  if (here.Stopped(path) || here.Strikes("read-eio", path)) {
    return -EIO;
  }
  if (here.Strikes("stale-read", path)) {
    return -ESTALE;
  }
  const off_t end = here.settings().after;
  if (here.Concerns("truncated", path) && offset + static_cast<off_t>(size) > end) {
    size = offset < end ? static_cast<std::size_t>(end - offset) : 0;
    here.Strikes("truncated", path);
  }
  const ssize_t count = pread(static_cast<int>(file->fh), buffer, size, offset);
  const off_t bad = here.settings().byte;
  if (bad >= offset && bad < offset + count && here.Strikes("corrupt-read", path)) {
    buffer[bad - offset] ^= 1;
  }
  return count < 0 ? -errno : static_cast<int>(count);
}

int Write(const char* path, const char* bytes, size_t size, off_t offset, fuse_file_info* file) {
  Mount& here = Here();
  if (const int refusal = Refusal(path); refusal != 0) {
    return refusal;
  }
  size_t room = here.Room(path, size);
  if (room == 0 && size > 0) {
    return here.settings().fault == "edquot" ? -EDQUOT : -ENOSPC;
  }
  if (static_cast<std::int64_t>(size) > here.settings().after &&
      here.Strikes("short-write", path)) {
    room = static_cast<size_t>(here.settings().after);
  }
  std::string content(bytes, room);
  const off_t bad = here.settings().byte;
  if (bad >= offset && bad < offset + static_cast<off_t>(room) &&
      here.Strikes("corrupt-write", path)) {
    content[static_cast<std::size_t>(bad - offset)] ^= 1;
  }
  const ssize_t count = pwrite(static_cast<int>(file->fh), content.data(), room, offset);
  return count < 0 ? -errno : static_cast<int>(count);
}

int Flush(const char* path, fuse_file_info* file) {
  const int flags = fcntl(static_cast<int>(file->fh), F_GETFL);  // file->flags are not told here
  const bool written = (flags & O_ACCMODE) != O_RDONLY;
  return written && path != nullptr && Here().Strikes("close-enospc", path) ? -ENOSPC : 0;
}

int Release(const char* /*path*/, fuse_file_info* file) {
  return OrError(close(static_cast<int>(file->fh)) == 0);
}

/// Not to the backing directory's disk: what is tested is who asks for it, and what they make of
/// the answer.
int Sync(const char* path, int /*data_only*/, fuse_file_info* /*file*/) {
  Mount& here = Here();
  return here.Stopped(path) || here.Strikes("fsync-eio", path) ? -EIO : 0;
}

int SyncDirectory(const char* path, int /*data_only*/, fuse_file_info* /*file*/) {
  Mount& here = Here();
  return here.Stopped(path) || here.Strikes("fsync-directory-eio", path) ? -EIO : 0;
}

int FileSystem(const char* path, struct statvfs* info) {
  Mount& here = Here();
  return here.Stopped(path) ? -EIO : OrError(statvfs(here.Real(path).c_str(), info) == 0);
}

fuse_operations Operations() {
  fuse_operations all{};
  all.init = Init;
  all.getattr = GetAttributes;
  all.readdir = ReadDirectory;
  all.mkdir = MakeDirectory;
  all.unlink = Unlink;
  all.rmdir = RemoveDirectory;
  all.rename = Rename;
  all.truncate = Truncate;
  all.chmod = ChangeMode;
  all.chown = ChangeOwner;
  all.utimens = ChangeTimes;
  all.open = Open;
  all.create = Create;
  all.read = Read;
  all.write = Write;
  all.flush = Flush;
  all.release = Release;
  all.fsync = Sync;
  all.fsyncdir = SyncDirectory;
  all.statfs = FileSystem;
  return all;
}

/// Follows the signal handlers of libfuse: SIGTERM ends the loop, and then it is unmounted.
int Serve(Mount& mount) {
  const std::string options = "fsname=" + mount.settings().backing + ",subtype=faulty,allow_other";
  std::vector<std::string> texts = {"faulty_fs", "-o", options};
  std::vector<char*> words;
  words.reserve(texts.size());
  for (std::string& text : texts) {
    words.push_back(text.data());
  }
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  const fuse_operations operations = Operations();
  fuse* fs = fuse_new(&arguments, &operations, sizeof operations, &mount);
  if (fs == nullptr || fuse_mount(fs, mount.settings().mountpoint.c_str()) != 0) {
    return 1;
  }
  int failure = fuse_set_signal_handlers(fuse_get_session(fs));
  if (failure == 0) {
    // Ended by a signal, it gives the signal's number.
    failure = fuse_loop(fs) < 0 ? 1 : 0;
  }
  fuse_unmount(fs);
  fuse_destroy(fs);
  std::printf("struck %lld times\n", static_cast<long long>(mount.struck()));
  return failure == 0 ? 0 : 1;
}

int Usage() {
  std::fputs(
      "usage: faulty_fs --backing DIR [--fault KIND] [--match PATTERN] [--after N] [--byte N]\n"
      "                 [--times N] MOUNTPOINT\n"
      "       faulty_fs --list\n",
      stderr);
  return 2;
}

bool Take(const std::string& flag, const std::string& value, Settings& settings) {
  const std::map<std::string, std::string*> texts = {
      {"--backing", &settings.backing}, {"--fault", &settings.fault}, {"--match", &settings.match}};
  const std::map<std::string, std::int64_t*> numbers = {
      {"--after", &settings.after}, {"--byte", &settings.byte}, {"--times", &settings.times}};
  if (const auto text = texts.find(flag); text != texts.end()) {
    *text->second = value;
    return true;
  }
  const auto number = numbers.find(flag);
  if (number == numbers.end()) {
    return false;
  }
  char* end = nullptr;
  *number->second = std::strtoll(value.c_str(), &end, 10);
  return !value.empty() && *end == '\0' && *number->second >= 0;
}

int Main(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "--list") {
    for (const auto& [name, meaning] : kFaults) {
      std::printf("%s: %s\n", name, meaning);
    }
    return 0;
  }
  Settings settings;
  std::size_t at = 0;
  for (; at + 2 < words.size(); at += 2) {
    if (!Take(words[at], words[at + 1], settings)) {
      return Usage();
    }
  }
  const bool known = std::any_of(kFaults.begin(), kFaults.end(),
                                 [&](const auto& one) { return settings.fault == one.first; });
  if (at + 1 != words.size() || settings.backing.empty() || !known) {
    return Usage();
  }
  settings.mountpoint = words[at];
  umask(0);
  Mount mount(std::move(settings));
  return Serve(mount);
}

}  // namespace

int main(int argc, char** argv) {
  return Main({argv + 1, argv + argc});
}

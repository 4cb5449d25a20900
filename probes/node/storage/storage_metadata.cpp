#include "probes/node/storage/storage_metadata.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "probes/node/storage/storage_transfer.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

using Clock = Deadline::Clock;

/// What happened to one file: 0 or an errno, and in which call.
struct FileStep {
  int failure = 0;
  const char* call = "";
};

FileStep CreateOnly(const std::string& file) {
  UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) {
    return {errno, "open"};
  }
  return {close(fd.Release()) == 0 ? 0 : errno, "close"};
}

FileStep CreateWriteSync(const std::string& file) {
  static constexpr std::array<char, 4096> kContent{};
  UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) {
    return {errno, "open"};
  }
  std::size_t done = 0;
  while (done < kContent.size()) {
    const ssize_t count = write(fd.get(), kContent.data() + done, kContent.size() - done);
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return {count == 0 ? EIO : errno, "write"};
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  if (fsync(fd.get()) != 0) {
    return {errno, "fsync"};
  }
  return {close(fd.Release()) == 0 ? 0 : errno, "close"};
}

FileStep Remove(const std::string& file) {
  return {unlink(file.c_str()) == 0 ? 0 : errno, "unlink"};
}

class MetadataProbe {
 public:
  MetadataProbe(const MetadataTask& task, Exchange& exchange, Deadline work, Deadline deadline,
                const Progress& progress)
      : task_(task),
        exchange_(exchange),
        work_(work),
        deadline_(deadline),
        progress_(progress),
        own_(HomeOf(exchange.rank())) {}

  Result<std::vector<StorageMetadataPhase>> Run();

 private:
  std::string HomeOf(int rank) const { return task_.directory + "/meta-" + std::to_string(rank); }
  std::string FileAt(std::int64_t index) const { return own_ + "/f" + std::to_string(index); }
  /// Meets the others, then does the phase unless an earlier one has failed.
  Result<void> Phase(const char* name, std::int64_t asked,
                     const std::function<void(StorageMetadataPhase&)>& body);
  void Each(StorageMetadataPhase& phase, std::int64_t first,
            const std::function<FileStep(const std::string&)>& step) const;
  void List(StorageMetadataPhase& phase) const;
  static void Fail(StorageMetadataPhase& phase, const char* call, int failure);

  const MetadataTask& task_;
  Exchange& exchange_;
  Deadline work_;
  Deadline deadline_;
  const Progress& progress_;
  std::string own_;
  bool failed_ = false;
  std::vector<StorageMetadataPhase> seen_;
};

void MetadataProbe::Fail(StorageMetadataPhase& phase, const char* call, int failure) {
  const char* why = strerrordesc_np(failure);
  phase.error = StorageErrnoName(failure);
  phase.detail = std::string(call) + ": " + (why != nullptr ? why : "unknown");
}

Result<void> MetadataProbe::Phase(const char* name, std::int64_t asked,
                                  const std::function<void(StorageMetadataPhase&)>& body) {
  progress_.Say(std::string("small files: ") + name);
  if (auto met = exchange_.Barrier(deadline_); !met) {
    return met;
  }
  if (failed_) {
    return {};
  }
  const auto met_at = Clock::now();
  StorageMetadataPhase phase;
  phase.name = name;
  phase.asked = asked;
  const auto start = Clock::now();
  phase.start_seconds = std::chrono::duration<double>(start - met_at).count();
  body(phase);
  phase.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  failed_ = !phase.error.empty();
  seen_.push_back(std::move(phase));
  return {};
}

void MetadataProbe::Each(StorageMetadataPhase& phase, std::int64_t first,
                         const std::function<FileStep(const std::string&)>& step) const {
  const Deadline own =
      Deadline::After(std::chrono::milliseconds(static_cast<std::int64_t>(task_.seconds * 1000)));
  while (phase.done < phase.asked && !own.Passed()) {
    if (work_.Passed()) {
      Fail(phase, "small files", ETIMEDOUT);
      return;
    }
    const FileStep one = step(FileAt(first + phase.done));
    if (one.failure != 0) {
      Fail(phase, one.call, one.failure);
      return;
    }
    ++phase.done;
  }
}

void MetadataProbe::List(StorageMetadataPhase& phase) const {
  phase.other_node = task_.other_node;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(HomeOf(task_.listed_rank).c_str()),
                                                      closedir);
  if (!directory) {
    Fail(phase, "opendir", errno);
    return;
  }
  errno = 0;
  while (const dirent* entry = readdir(directory.get())) {
    phase.done += entry->d_name[0] == 'f' ? 1 : 0;
    errno = 0;
  }
  if (errno != 0) {
    Fail(phase, "readdir", errno);
  } else if (phase.done < phase.asked) {
    phase.error = "missing-names";
    phase.detail = "readdir: " + std::to_string(phase.done) + " of " + std::to_string(phase.asked) +
                   " names that were created";
  }
}

Result<std::vector<StorageMetadataPhase>> MetadataProbe::Run() {
  const int made = mkdir(own_.c_str(), 0777) == 0 ? 0 : errno;
  auto done = Phase("create", task_.files, [&](StorageMetadataPhase& phase) {
    if (made != 0) {
      Fail(phase, "mkdir", made);
    } else {
      Each(phase, 0, CreateOnly);
    }
  });
  const std::int64_t created = seen_.empty() ? 0 : seen_.back().done;
  if (done) {
    done = Phase("create-write-fsync", task_.files,
                 [&](StorageMetadataPhase& phase) { Each(phase, created, CreateWriteSync); });
  }
  if (!done) {
    return done.error();
  }
  const std::int64_t all = created + (seen_.size() > 1 ? seen_.back().done : 0);
  // A negative count: nobody can say how many names there must be.
  const auto counts = exchange_.AllGather(std::to_string(failed_ ? -1 : all), deadline_);
  if (!counts) {
    return counts.error();
  }
  const std::string& theirs = (*counts)[static_cast<std::size_t>(task_.listed_rank)];
  const std::int64_t names = std::strtoll(theirs.c_str(), nullptr, 10);
  if (names >= 0) {
    done = Phase("list", names, [&](StorageMetadataPhase& phase) { List(phase); });
  } else {
    done = exchange_.Barrier(deadline_);
  }
  if (done) {
    done = Phase("delete", all, [&](StorageMetadataPhase& phase) { Each(phase, 0, Remove); });
  }
  if (done) {
    done = exchange_.Barrier(deadline_);
  }
  if (!done) {
    return done.error();
  }
  return std::move(seen_);
}

}  // namespace

Result<std::vector<StorageMetadataPhase>> TimeMetadata(const MetadataTask& task, Exchange& exchange,
                                                       Deadline work, Deadline deadline,
                                                       const Progress& progress) {
  return MetadataProbe(task, exchange, work, deadline, progress).Run();
}

}  // namespace dlc

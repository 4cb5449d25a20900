#include "probes/node/storage/storage_shared.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "probes/node/bytes.h"
#include "probes/node/storage/mountinfo.h"
#include "probes/node/storage/run_directory.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kTrialBytes = 65'536;
constexpr int kWrongData = EBADMSG;  // "wrong-data" in the observation

std::string ErrorName(int failure) {
  if (failure == kWrongData) {
    return "wrong-data";
  }
  const char* name = strerrorname_np(failure);
  return name != nullptr ? name : "errno " + std::to_string(failure);
}

/// Each gives 0 or an errno; `said` is what is worth telling even when it worked.
int WriteAll(int fd, std::string_view bytes, std::string& said) {
  const std::size_t all = bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    bytes.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
    if (written >= 0 && !bytes.empty() && said.empty()) {
      said = "short write, " + std::to_string(written) + " of " + std::to_string(all) + " bytes";
    }
  }
  return 0;
}

std::string Difference(std::string_view read, std::string_view written) {
  if (read.size() < written.size()) {
    return std::to_string(read.size()) + " bytes read of " + std::to_string(written.size()) +
           " written";
  }
  const auto at = std::mismatch(written.begin(), written.end(), read.begin()).first;
  return at == written.end()
             ? "more bytes read than the " + std::to_string(written.size()) + " written"
             : "byte " + std::to_string(at - written.begin()) + " of " +
                   std::to_string(written.size()) + " reads other than it was written";
}

int ReadWhole(const std::string& file, std::size_t limit, std::string& out) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return errno;
  }
  out.clear();
  char chunk[4096];
  while (out.size() <= limit) {
    const ssize_t count = read(fd.get(), chunk, sizeof chunk);
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    if (count == 0) {
      return 0;
    }
    out.append(chunk, count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return EFBIG;
}

int SyncDirectory(const std::string& directory) {
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd && fsync(fd.get()) == 0 ? 0 : errno;
}

/// What a rank tells the others.
struct Card {
  bool written = false;
  std::string nonce;
  std::string host;
  std::string node;
};

std::string WriteCard(const Card& card) {
  ByteWriter writer;
  writer.U8(card.written ? 1 : 0);
  writer.Text(card.nonce);
  writer.Text(card.host);
  writer.Text(card.node);
  return writer.Take();
}

Card ReadCard(const std::string& bytes) {
  ByteReader reader(bytes);
  Card card;
  card.written = reader.U8() == 1;
  card.nonce = reader.Text();
  card.host = reader.Text();
  card.node = reader.Text();
  return card;
}

/// 0 or an errno, as all of the trial.
int OrErrno(bool done) {
  return done ? 0 : errno;
}

/// The later operations are not tried once one has failed.
template <class... Operation>
int FirstFailure(int failure, Operation... operations) {
  ((failure = failure != 0 ? failure : operations()), ...);
  return failure;
}

int MakeDirectory(const std::string& name) {
  return OrErrno(mkdir(name.c_str(), 0777) == 0 || errno == EEXIST);
}

/// A file of ours, written and renamed as a checkpoint's is.
class TrialFile {
 public:
  TrialFile(std::string home, std::string& said)
      : home_(std::move(home)), draft_(home_ + "/draft"), final_(home_ + "/final"), said_(said) {}

  int MakeHome() const { return MakeDirectory(home_); }
  int Create() {
    fd_.Reset(OpenNew());
    return OrErrno(static_cast<bool>(fd_));
  }
  int RefuseExisting() const {
    const UniqueFd again(OpenNew());
    return again ? ENOTSUP : OrErrno(errno == EEXIST);
  }
  int Write(const std::string& content) { return WriteAll(fd_.get(), content, said_); }
  /// 0 in `uid` when it fails.
  int Owner(std::int64_t& uid) const {
    struct stat info {};
    const int failure = OrErrno(fstat(fd_.get(), &info) == 0);
    uid = info.st_uid;
    return failure;
  }
  int Sync() { return OrErrno(fsync(fd_.get()) == 0); }
  /// NFS may tell of a full disk or quota only here.
  int Close() { return OrErrno(close(fd_.Release()) == 0); }
  int Rename() const { return OrErrno(rename(draft_.c_str(), final_.c_str()) == 0); }
  int SyncHome() const { return SyncDirectory(home_); }
  int Holds(const std::string& expected) const {
    std::string content;
    const int failure = ReadWhole(final_, kTrialBytes, content);
    if (content == expected || (failure != 0 && failure != EFBIG)) {
      return failure;
    }
    said_ = Difference(content, expected);
    return kWrongData;
  }
  int Replace(const std::string& content) {
    return FirstFailure(
        Create(), [&] { return Write(content); }, [&] { return Sync(); }, [&] { return Close(); },
        [&] { return Rename(); });
  }
  int Delete() const {
    if (unlink(final_.c_str()) != 0) {
      return errno;
    }
    return access(final_.c_str(), F_OK) != 0 && errno == ENOENT ? 0 : EBUSY;
  }

 private:
  int OpenNew() const {
    return open(draft_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }

  std::string home_;
  std::string draft_;
  std::string final_;
  std::string& said_;
  UniqueFd fd_;
};

class SharedProbe {
 public:
  SharedProbe(const StorageSharedParameters& parameters, const StorageViewer& viewer,
              Exchange& exchange, Deadline deadline, const Progress& progress)
      : parameters_(parameters),
        viewer_(viewer),
        exchange_(exchange),
        deadline_(deadline),
        progress_(progress),
        directory_(RunDirectory(parameters.path, viewer.run_id)) {}

  StorageShared Run() {
    Look();
    const bool wrote = TryOperations() && WriteNonce();
    MeetAndRead(wrote);
    // Not before all have read. If the ranks lost each other there is nobody to wait for.
    if (!exchange_.Barrier(deadline_)) {
      progress_.Say("the other ranks did not come to the end");
    }
    seen_.leftovers = RemoveRunDirectory(directory_);
    return std::move(seen_);
  }

 private:
  std::string FileOf(int rank) const { return directory_ + "/nonce-" + std::to_string(rank); }
  bool Try(const char* name, const std::function<int()>& operation);
  void Look();
  bool TryOperations();
  bool WriteNonce();
  void MeetAndRead(bool wrote);
  void ReadPeers(std::vector<PeerFile>& peers, const std::vector<Card>& cards);
  bool ReadPeer(PeerFile& peer, const Card& card, Deadline::Clock::time_point start) const;

  const StorageSharedParameters& parameters_;
  const StorageViewer& viewer_;
  Exchange& exchange_;
  Deadline deadline_;
  const Progress& progress_;
  std::string directory_;
  std::string nonce_;
  std::string said_;  ///< by the operation that is tried
  StorageShared seen_;
};

bool SharedProbe::Try(const char* name, const std::function<int()>& operation) {
  progress_.Say(std::string(name) + " in " + parameters_.path);
  said_.clear();
  const int failure = operation();
  // A write that came short and then failed: why it failed is what counts.
  const bool described = failure == 0 || failure == kWrongData;
  seen_.operations.push_back(
      {name, failure == 0 ? "" : ErrorName(failure), described ? said_ : strerrordesc_np(failure)});
  return failure == 0;
}

void SharedProbe::Look() {
  seen_.path = parameters_.path;
  seen_.uid = geteuid();
  seen_.gid = getegid();
  progress_.Say("looking at " + parameters_.path);
  seen_.mount = ObserveMount(parameters_.path);
  seen_.space = ObserveSpace(parameters_.path);
  struct stat info {};
  if (stat(parameters_.path.c_str(), &info) == 0) {
    seen_.directory_uid = info.st_uid;
    seen_.directory_gid = info.st_gid;
    seen_.directory_mode = static_cast<int>(info.st_mode & 07777U);
  }
}

/// One after the other, as a checkpoint would; stops at the first that fails.
bool SharedProbe::TryOperations() {
  const std::string first(kTrialBytes, 'a');
  const std::string second(kTrialBytes, 'b');
  TrialFile trial(directory_ + "/rank-" + std::to_string(exchange_.rank()), said_);
  return Try("create-directory",
             [&] {
               return FirstFailure(MakeDirectory(directory_), [&] { return trial.MakeHome(); });
             }) &&
         Try("create-exclusive", [&] { return trial.Create(); }) &&
         Try("refuse-existing", [&] { return trial.RefuseExisting(); }) &&
         Try("write", [&] { return trial.Write(first); }) &&
         Try("read-owner", [&] { return trial.Owner(seen_.file_uid); }) &&
         Try("fsync-file", [&] { return trial.Sync(); }) &&
         Try("close", [&] { return trial.Close(); }) &&
         Try("rename", [&] { return trial.Rename(); }) &&
         Try("fsync-directory", [&] { return trial.SyncHome(); }) &&
         Try("read-back", [&] { return trial.Holds(first); }) &&
         Try("replace", [&] { return trial.Replace(second); }) &&
         Try("read-replaced", [&] { return trial.Holds(second); }) &&
         Try("delete", [&] { return trial.Delete(); });
}

bool SharedProbe::WriteNonce() {
  nonce_.resize(kNonceBytes);
  if (getrandom(nonce_.data(), nonce_.size(), 0) != static_cast<ssize_t>(nonce_.size())) {
    return false;
  }
  std::string content = nonce_;
  if (viewer_.flip_bit) {
    content[0] = static_cast<char>(static_cast<unsigned char>(content[0]) ^ 1U);
  }
  return Try("write-nonce", [&] {
    const std::string file = FileOf(exchange_.rank());
    const std::string draft = file + ".draft";
    UniqueFd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    int failure = fd ? WriteAll(fd.get(), content, said_) : errno;
    failure = failure != 0 ? failure : fsync(fd.get()) == 0 ? 0 : errno;
    if (fd && close(fd.Release()) != 0 && failure == 0) {
      failure = errno;
    }
    failure = failure != 0 ? failure : rename(draft.c_str(), file.c_str()) == 0 ? 0 : errno;
    return failure != 0 ? failure : SyncDirectory(directory_);
  });
}

void SharedProbe::MeetAndRead(bool wrote) {
  progress_.Say("waiting for the other ranks' files");
  const auto all =
      exchange_.AllGather(WriteCard({wrote, nonce_, viewer_.host, viewer_.node}), deadline_);
  if (!all) {
    seen_.peers = all.error();
    return;
  }
  std::vector<Card> cards;
  std::vector<PeerFile> peers;
  for (int rank = 0; rank < exchange_.size(); ++rank) {
    cards.push_back(ReadCard((*all)[static_cast<std::size_t>(rank)]));
    if (rank != exchange_.rank()) {
      PeerFile peer;
      peer.rank = rank;
      peer.host = cards.back().host;
      peer.node = cards.back().node;
      peer.state = cards.back().written ? "absent" : "not-written";
      peers.push_back(peer);
    }
  }
  ReadPeers(peers, cards);
  seen_.peers = std::move(peers);
}

/// True when there is nothing more to wait for.
bool SharedProbe::ReadPeer(PeerFile& peer, const Card& card,
                           Deadline::Clock::time_point start) const {
  std::string content;
  const int failure = ReadWhole(FileOf(peer.rank), 4 * kNonceBytes, content);
  ++peer.attempts;
  peer.seconds = std::chrono::duration<double>(Deadline::Clock::now() - start).count();
  peer.stale_handles += failure == ESTALE ? 1 : 0;
  peer.error = failure == 0 ? "" : ErrorName(failure);
  peer.state = failure == ENOENT ? "absent" : failure != 0 ? "error" : "different";
  if (failure != 0 || content != card.nonce) {
    return false;
  }
  peer.state = "same";
  const UniqueFd again(
      open(FileOf(peer.rank).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  peer.exclusive_create = again ? "allowed" : errno == EEXIST ? "refused" : ErrorName(errno);
  return true;
}

void SharedProbe::ReadPeers(std::vector<PeerFile>& peers, const std::vector<Card>& cards) {
  constexpr milliseconds kLongestPause{500};
  // A quarter of what is left is for the end: the last barrier and the clean-up.
  const Deadline visible = Deadline::After(deadline_.Remaining() * 3 / 4)
                               .Within(milliseconds(parameters_.visible_within_ms));
  const auto start = Deadline::Clock::now();
  std::vector<PeerFile*> waiting;
  for (PeerFile& peer : peers) {
    if (peer.state != "not-written") {
      waiting.push_back(&peer);
    }
  }
  milliseconds pause{5};
  while (true) {
    // A fresh look at the directory: clients cache names that were absent (nfs(5)).
    if (DIR* listing = opendir(directory_.c_str()); listing != nullptr) {
      closedir(listing);
    }
    std::erase_if(waiting, [&](PeerFile* peer) {
      return ReadPeer(*peer, cards[static_cast<std::size_t>(peer->rank)], start);
    });
    if (waiting.empty() || visible.Passed()) {
      return;
    }
    progress_.Say("waiting to see the file of rank " + std::to_string(waiting.front()->rank));
    const auto wait = std::min(pause, visible.Remaining());
    poll(nullptr, 0, static_cast<int>(wait.count()));
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace

Result<StorageShared> ObserveStorageShared(const StorageSharedParameters& parameters,
                                           const StorageViewer& viewer, Exchange& exchange,
                                           Deadline deadline, const Progress& progress) {
  return SharedProbe(parameters, viewer, exchange, deadline, progress).Run();
}

}  // namespace dlc

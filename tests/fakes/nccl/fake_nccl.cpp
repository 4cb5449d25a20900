// NCCL over a shared file, for ranks of one machine and no GPU. Nothing blocks: a thread does what
// was asked for, and what waits for a rank that is not there waits until it is aborted.
//
//   FAKE_NCCL_NETWORK       what it says that it uses: "Socket" (default), "Libfabric"
//   FAKE_NCCL_INSIDE        "P2P/CUMEM", "SHM/direct/direct": all ranks are one node, connected so;
//   without an NCCL_HOSTID FAKE_NCCL_OLD_RANK      this RANK has another version
//   FAKE_NCCL_CORRUPT_RANK  this RANK gets one wrong element from every operation
//   FAKE_NCCL_STOP_RANK     this RANK never does its operations
//   FAKE_NCCL_DIE_RANK      this RANK dies in an operation
//   FAKE_NCCL_AFTER         so many operations after the first, for the two above (0)
//   FAKE_NCCL_NO_INIT_RANK  this RANK's communicator is never made
//   FAKE_NCCL_WITHOUT_LOG   it writes none
//   NCCL_SOCKET_IFNAME      begins with "wrong": there is no such interface
//   NCCL_NET_PLUGIN         a path: there is no such file
//   FAKE_NCCL_ENVIRONMENT   a directory, for the environment of each RANK when it is loaded
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/bfloat16.h"

namespace {

constexpr int kSuccess = 0;
constexpr int kSystemError = 2;
constexpr int kInternalError = 3;
constexpr int kInvalidUsage = 5;
constexpr int kInProgress = 7;
constexpr int kBfloat16 = 9;
constexpr std::size_t kMostRanks = 8;
constexpr std::size_t kSlot = 1 << 20;

struct Id {
  char internal[128];
};

struct SharedFile {
  std::atomic<unsigned> arrivals;
  char data[kMostRanks][kSlot];
};

std::string Setting(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// A plugin from 1.13 on takes its old name where NCCL_NET says so.
std::string Network() {
  const std::string network = Setting("FAKE_NCCL_NETWORK", "Socket");
  return network == "Libfabric" && Setting("NCCL_NET") == "AWS Libfabric" ? "AWS Libfabric"
                                                                          : network;
}

/// How the ranks of the one node reach each other; empty: each is a node of its own.
std::string Inside() {
  return Setting("NCCL_HOSTID").empty() ? Setting("FAKE_NCCL_INSIDE") : "";
}

bool IsFor(const char* name) {
  return !Setting(name).empty() && Setting(name) == Setting("RANK");
}

std::FILE* LogFile() {
  static std::FILE* const file = [] {
    const std::string path = Setting("NCCL_DEBUG_FILE");
    const bool wanted = Setting("NCCL_DEBUG") == "INFO" && Setting("FAKE_NCCL_WITHOUT_LOG").empty();
    std::FILE* opened = wanted && !path.empty() ? std::fopen(path.c_str(), "w") : nullptr;
    if (opened != nullptr) {
      std::setvbuf(opened, nullptr, _IOLBF, 0);
    }
    return opened;
  }();
  return file;
}

/// An empty line first, and the source line: as src/debug.cc does.
void Warn(const char* text) {
  if (std::FILE* file = LogFile()) {
    std::fprintf(file, "\nfake-host:%d:%d [0] plugin/net.cc:341 NCCL WARN %s\n", getpid(), getpid(),
                 text);
  }
}

void Log(const char* format, ...) {
  std::FILE* const file = LogFile();
  if (file == nullptr) {
    return;
  }
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(file, "fake-host:%d:%d [0] NCCL INFO %s\n", getpid(), getpid(), line);
}

bool NoInterface() {
  const bool none = Setting("NCCL_SOCKET_IFNAME").starts_with("wrong");
  if (none) {
    Log("Bootstrap : no socket interface found");
  }
  return none;
}

/// As soon as it is loaded, before anything asks it for something.
const bool g_environment_written = [] {
  const std::string directory = Setting("FAKE_NCCL_ENVIRONMENT");
  if (directory.empty()) {
    return false;
  }
  std::FILE* file = std::fopen((directory + "/" + Setting("RANK")).c_str(), "w");
  for (char** entry = environ; file != nullptr && *entry != nullptr; ++entry) {
    std::fwrite(*entry, 1, std::strlen(*entry) + 1, file);
  }
  return file != nullptr && std::fclose(file) == 0;
}();

std::size_t Bytes(std::size_t count, int type) {
  return count * (type == kBfloat16 ? 2 : 4);
}

struct Comm {
  SharedFile* shared = nullptr;
  int rank = 0;
  int size = 0;
  std::atomic<bool> aborted{false};
  std::atomic<bool> ready{false};
  bool connected = false;
  int operations = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  std::atomic<int> pending{0};
  std::thread thread;

  void Add(std::function<void()> job) {
    ++pending;
    const std::lock_guard lock(mutex);
    jobs.push_back(std::move(job));
    changed.notify_one();
  }
  void Serve() {
    while (true) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !jobs.empty() || aborted; });
      if (aborted) {
        return;
      }
      const auto job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      job();
      if (!aborted) {
        --pending;
      }
    }
  }
  void WaitForAbort() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return aborted.load(); });
  }
  void Meet() {
    const unsigned mine = shared->arrivals.fetch_add(1);
    const auto ranks = static_cast<unsigned>(size);
    while (shared->arrivals.load() < (mine / ranks + 1) * ranks && !aborted) {
      std::this_thread::yield();
    }
  }
  /// Everybody's input becomes everybody's to read.
  void Exchange(const void* send, std::size_t bytes, const std::function<void()>& take) {
    const bool far_enough = operations++ >= std::stoi(Setting("FAKE_NCCL_AFTER", "0"));
    if (far_enough && IsFor("FAKE_NCCL_DIE_RANK")) {
      raise(SIGKILL);
    }
    if (far_enough && IsFor("FAKE_NCCL_STOP_RANK")) {
      return WaitForAbort();
    }
    std::memcpy(shared->data[rank], send, bytes);
    Meet();
    take();
    Meet();
  }
  const char* Of(int other) const { return shared->data[other]; }
  /// Once per communicator, at the first operation, as since 2.22.
  void Connect() {
    if (connected || size == 1) {
      return;
    }
    connected = true;
    const int next = (rank + 1) % size;
    const int before = (rank + size - 1) % size;
    if (const std::string inside = Inside(); !inside.empty()) {
      Log("Channel 00/0 : %d[%d] -> %d[%d] via %s", rank, rank, next, next, inside.c_str());
      return;
    }
    const std::string network = Network();
    Log("Channel 00/0 : %d[0] -> %d[0] [receive] via NET/%s/0", before, rank, network.c_str());
    Log("Channel 00/0 : %d[0] -> %d[0] [send] via NET/%s/0", rank, next, network.c_str());
  }
};

Comm* g_comm = nullptr;
struct Group {
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  void* receive = nullptr;
  std::size_t receive_bytes = 0;
  int from = 0;
} g_group;

void Corrupt(void* out, std::size_t bytes) {
  if (IsFor("FAKE_NCCL_CORRUPT_RANK") && bytes > 0) {
    static_cast<char*>(out)[bytes - 1] ^= 0x40;
  }
}

void Sum(const Comm& comm, void* out, std::size_t first, std::size_t count, int type) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < comm.size; ++rank) {
      if (type == kBfloat16) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, comm.Of(rank) + 2 * (first + i), 2);
        sum += dlc::FloatFromBfloat16(bits);
      } else {
        float value = 0;
        std::memcpy(&value, comm.Of(rank) + 4 * (first + i), 4);
        sum += value;
      }
    }
    const std::uint16_t rounded = dlc::Bfloat16FromFloat(sum);
    char* at = static_cast<char*>(out) + Bytes(i, type);
    type == kBfloat16 ? std::memcpy(at, &rounded, 2) : std::memcpy(at, &sum, 4);
  }
}

}  // namespace

extern "C" {

int fakeNcclBusy() {
  return g_comm != nullptr && g_comm->pending.load() > 0 ? 1 : 0;
}

int ncclGetVersion(int* version) {
  *version = IsFor("FAKE_NCCL_OLD_RANK") ? 22707 : 22809;
  return kSuccess;
}
const char* ncclGetErrorString(int code) {
  return code == kInvalidUsage    ? "invalid usage"
         : code == kSystemError   ? "system error"
         : code == kInternalError ? "internal error"
                                  : "error";
}
const char* ncclGetLastError(void*) {
  return "";
}
int ncclGetUniqueId(Id* id) {
  if (NoInterface()) {
    return kInternalError;
  }
  std::snprintf(id->internal, sizeof id->internal, "/tmp/fake-nccl-XXXXXX");
  const int fd = mkstemp(id->internal);
  if (fd < 0 || ftruncate(fd, sizeof(SharedFile)) != 0) {
    return kSystemError;
  }
  close(fd);
  return kSuccess;
}

int ncclCommInitRankConfig(void** out, int size, Id id, int rank, void*) {
  const std::string network = Network();
  Log("NCCL version 2.28.9+cuda13.0");
  if (NoInterface()) {
    return kInternalError;
  }
  if (Setting("NCCL_NET_PLUGIN").starts_with('/')) {
    Log("NET/Plugin: Could not find: %s", Setting("NCCL_NET_PLUGIN").c_str());
  }
  if (network.ends_with("Libfabric")) {
    Log("NET/OFI Initializing aws-ofi-nccl 1.20.0");
    Log("NET/OFI Selected provider is efa, fabric is efa (found 1 nics)");
  } else {
    Log("NET/Socket : Using [0]eth0:10.0.0.1<0>");
  }
  const std::string wanted = Setting("NCCL_NET");
  if (!wanted.empty() && wanted != network) {
    unlink(id.internal);
    Warn("Failed to initialize any NET plugin");
    return kInvalidUsage;
  }
  Log("Using network %s", network.c_str());
  Log("ncclCommInitRankConfig comm 0xfa4e rank %d nranks %d cudaDev 0 - Init START", rank, size);
  if (Inside().empty()) {
    Log("comm 0xfa4e rank %d nRanks %d nNodes %d localRanks 1 localRank 0 MNNVL 0", rank, size,
        size);
  } else {
    Log("comm 0xfa4e rank %d nRanks %d nNodes 1 localRanks %d localRank %d MNNVL 0", rank, size,
        size, rank);
  }
  auto* comm = new Comm;
  comm->rank = rank;
  comm->size = size;
  const int fd = open(id.internal, O_RDWR | O_CLOEXEC);
  comm->shared = static_cast<SharedFile*>(
      mmap(nullptr, sizeof(SharedFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  close(fd);
  g_comm = comm;
  *out = comm;
  comm->thread = std::thread([comm] { comm->Serve(); });
  comm->Add([comm, path = std::string(id.internal)] {
    if (IsFor("FAKE_NCCL_NO_INIT_RANK")) {
      return comm->WaitForAbort();
    }
    comm->Meet();
    unlink(path.c_str());
    Log("ncclCommInitRankConfig comm 0xfa4e rank %d nranks %d cudaDev 0 - Init COMPLETE",
        comm->rank, comm->size);
    comm->ready = true;
  });
  return kInProgress;
}

int ncclCommGetAsyncError(void* at, int* state) {
  *state = static_cast<Comm*>(at)->ready ? kSuccess : kInProgress;
  return kSuccess;
}
int ncclCommAbort(void* at) {
  auto* comm = static_cast<Comm*>(at);
  {
    const std::lock_guard lock(comm->mutex);
    comm->aborted = true;
  }
  comm->changed.notify_all();
  comm->thread.join();
  return kSuccess;
}
int ncclCommFinalize(void*) {
  return kSuccess;
}
int ncclCommDestroy(void* at) {
  return ncclCommAbort(at);
}
int ncclGroupStart() {
  g_group = {};
  return kSuccess;
}
int ncclSend(const void* send, std::size_t count, int type, int, void*, void*) {
  g_group.send = send;
  g_group.send_bytes = Bytes(count, type);
  return kSuccess;
}
int ncclRecv(void* receive, std::size_t count, int type, int peer, void*, void*) {
  g_group.receive = receive;
  g_group.receive_bytes = Bytes(count, type);
  g_group.from = peer;
  return kSuccess;
}
int ncclGroupEnd() {
  Comm* comm = g_comm;
  comm->Connect();
  comm->Add([comm, group = g_group] {
    comm->Exchange(group.send, group.send_bytes, [&] {
      std::memcpy(group.receive, comm->Of(group.from), group.receive_bytes);
      Corrupt(group.receive, group.receive_bytes);
    });
  });
  return kSuccess;
}

int ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int, void* at,
                  void*) {
  auto* comm = static_cast<Comm*>(at);
  comm->Connect();
  comm->Add([=] {
    comm->Exchange(send, Bytes(count, type), [&] {
      Sum(*comm, receive, 0, count, type);
      Corrupt(receive, Bytes(count, type));
    });
  });
  return kSuccess;
}
int ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int, void* at,
                      void*) {
  auto* comm = static_cast<Comm*>(at);
  comm->Connect();
  comm->Add([=] {
    comm->Exchange(send, Bytes(count, type) * static_cast<std::size_t>(comm->size), [&] {
      Sum(*comm, receive, count * static_cast<std::size_t>(comm->rank), count, type);
      Corrupt(receive, Bytes(count, type));
    });
  });
  return kSuccess;
}
int ncclAllGather(const void* send, void* receive, std::size_t count, int type, void* at, void*) {
  auto* comm = static_cast<Comm*>(at);
  comm->Connect();
  comm->Add([=] {
    comm->Exchange(send, Bytes(count, type), [&] {
      for (int rank = 0; rank < comm->size; ++rank) {
        std::memcpy(
            static_cast<char*>(receive) + Bytes(count, type) * static_cast<std::size_t>(rank),
            comm->Of(rank), Bytes(count, type));
      }
      Corrupt(receive, Bytes(count, type) * static_cast<std::size_t>(comm->size));
    });
  });
  return kSuccess;
}
int ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root, void* at,
                  void*) {
  auto* comm = static_cast<Comm*>(at);
  comm->Connect();
  comm->Add([=] {
    comm->Exchange(send, Bytes(count, type), [&] {
      std::memcpy(receive, comm->Of(root), Bytes(count, type));
      Corrupt(receive, Bytes(count, type));
    });
  });
  return kSuccess;
}
int ncclMemAlloc(void** at, std::size_t bytes) {
  *at = std::malloc(bytes);
  return *at == nullptr ? kSystemError : kSuccess;
}
int ncclMemFree(void* at) {
  std::free(at);
  return kSuccess;
}

}  // extern "C"

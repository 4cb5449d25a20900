// The loop of nccl-tests 2.19.6 (src/common.cu and its collectives), written anew and with nothing
// of dlc-probe's, so that dlc-probe's numbers can be held against it. device.py builds and runs it:
//
//   parity RANK RANKS SHARED_FILE COLLECTIVE,... WARM_UP ITERATIONS SIZE_BYTES...
//
// One process a rank, each on the GPU of its LOCAL_RANK, without it the first. SHARED_FILE: 4096
// zero bytes, in which the ranks meet. Rank 0 prints a line a row: ROW COLLECTIVE out|in BYTES
// MEAN_SECONDS BUS_BANDWIDTH_BYTES_PER_SECOND
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nccl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kMostRanks = 64;
constexpr unsigned kLongestSeconds = 240;

struct Shared {
  std::atomic<unsigned> arrivals;
  std::atomic<unsigned> id_ready;
  ncclUniqueId id;
  double seconds[kMostRanks];
};
static_assert(sizeof(Shared) <= 4096);

void Must(cudaError_t code, const char* what) {
  if (code != cudaSuccess) {
    std::fprintf(stderr, "parity: %s: %s\n", what, cudaGetErrorString(code));
    std::exit(1);
  }
}

void Must(ncclResult_t code, const char* what) {
  if (code != ncclSuccess) {
    std::fprintf(stderr, "parity: %s: %s\n", what, ncclGetErrorString(code));
    std::exit(1);
  }
}

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast };
struct Named {
  Kind kind;
  const char* name;
};
constexpr Named kKinds[] = {{Kind::kAllReduce, "all_reduce"},
                            {Kind::kAllGather, "all_gather"},
                            {Kind::kReduceScatter, "reduce_scatter"},
                            {Kind::kBroadcast, "broadcast"}};

/// Of one size, in floats.
struct Counts {
  std::size_t send = 0;
  std::size_t receive = 0;
  std::size_t total = 0;  // the S of algbw
};

Counts CountsOf(Kind kind, std::size_t bytes, int ranks) {
  const std::size_t count = bytes / sizeof(float);
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t chunk = count / n / 4 * 4;  // whole 16 bytes
  switch (kind) {
    case Kind::kAllGather:
      return {chunk, chunk * n, chunk * n};
    case Kind::kReduceScatter:
      return {chunk * n, chunk, chunk * n};
    default:
      return {count, count, count};
  }
}

double BusFactor(Kind kind, int ranks) {
  const double n = ranks;
  return kind == Kind::kAllReduce ? 2 * (n - 1) / n : kind == Kind::kBroadcast ? 1 : (n - 1) / n;
}

class Loop {
 public:
  Loop(int rank, int ranks, Shared& shared, int warm_up, int iterations,
       std::vector<std::size_t> sizes)
      : rank_(rank),
        ranks_(ranks),
        shared_(shared),
        warm_up_(warm_up),
        iterations_(iterations),
        sizes_(std::move(sizes)),
        most_bytes_(*std::max_element(sizes_.begin(), sizes_.end())) {}

  void Open() {
    const char* gpu = std::getenv("LOCAL_RANK");
    Must(cudaSetDevice(gpu == nullptr ? 0 : std::atoi(gpu)), "cudaSetDevice");
    if (rank_ == 0) {
      Must(ncclGetUniqueId(&shared_.id), "ncclGetUniqueId");
      shared_.id_ready = 1;
    }
    while (shared_.id_ready == 0) {
      sched_yield();
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    config.nvlinkCentricSched = 1;
#endif
    Must(ncclCommInitRankConfig(&comm_, ranks_, shared_.id, rank_, &config),
         "ncclCommInitRankConfig");
    Must(ncclMemAlloc(&send_, most_bytes_), "ncclMemAlloc");
    Must(ncclMemAlloc(&receive_, most_bytes_), "ncclMemAlloc");
    Must(cudaMemset(send_, 0, most_bytes_), "cudaMemset");
    Must(cudaMemset(receive_, 0, most_bytes_), "cudaMemset");
    Must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    Must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void Run(const Named& what) {
    for (const std::size_t bytes : sizes_) {
      Times(what.kind, bytes, false, warm_up_);
    }
    for (const std::size_t bytes : sizes_) {
      for (const bool in_place : {false, true}) {
        Row(what, bytes, in_place);
      }
    }
  }

  void Close() {
    Must(ncclCommFinalize(comm_), "ncclCommFinalize");
    Must(ncclCommDestroy(comm_), "ncclCommDestroy");
  }

 private:
  void Operate(Kind kind, std::size_t bytes, bool in_place, int i) {
    const Counts counts = CountsOf(kind, bytes, ranks_);
    const std::size_t most = std::max(counts.send, counts.receive) * sizeof(float);
    const std::size_t shift =
        most == 0 ? 0 : most * (static_cast<std::size_t>(i) % (most_bytes_ / most));
    const auto rank = static_cast<std::size_t>(rank_);
    auto* receive = reinterpret_cast<float*>(static_cast<char*>(receive_) + shift);
    const float* send =
        in_place ? receive : reinterpret_cast<float*>(static_cast<char*>(send_) + shift);
    ncclResult_t code = ncclSuccess;
    switch (kind) {
      case Kind::kAllReduce:
        code = ncclAllReduce(send, receive, counts.send, ncclFloat, ncclSum, comm_, stream_);
        break;
      case Kind::kAllGather:
        send += in_place ? rank * counts.send : 0;
        code = ncclAllGather(send, receive, counts.send, ncclFloat, comm_, stream_);
        break;
      case Kind::kReduceScatter:
        receive += in_place ? rank * counts.receive : 0;
        code = ncclReduceScatter(send, receive, counts.receive, ncclFloat, ncclSum, comm_, stream_);
        break;
      case Kind::kBroadcast:
        code = ncclBroadcast(send, receive, counts.send, ncclFloat, 0, comm_, stream_);
        break;
    }
    Must(code, "the collective");
  }

  void Wait() {
    while (true) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) {
        return;
      }
      if (state != cudaErrorNotReady) {
        Must(state, "cudaStreamQuery");
      }
      ncclResult_t async = ncclSuccess;
      Must(ncclCommGetAsyncError(comm_, &async), "ncclCommGetAsyncError");
      Must(async, "NCCL, while the operation ran");
      sched_yield();
    }
  }

  void Times(Kind kind, std::size_t bytes, bool in_place, int times) {
    for (int i = 0; i < times; ++i) {
      Operate(kind, bytes, in_place, i);
    }
    Wait();
  }

  void Barrier() {
    const auto n = static_cast<unsigned>(ranks_);
    const unsigned mine = shared_.arrivals.fetch_add(1);
    while (shared_.arrivals < (mine / n + 1) * n) {
      sched_yield();
    }
  }

  void Row(const Named& what, std::size_t bytes, bool in_place) {
    Times(what.kind, bytes, in_place, 1);
    Barrier();
    const auto start = std::chrono::steady_clock::now();
    Times(what.kind, bytes, in_place, iterations_);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    shared_.seconds[rank_] = elapsed.count() / iterations_;
    Barrier();
    if (rank_ == 0) {
      double mean = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        mean += shared_.seconds[rank] / ranks_;
      }
      const double size =
          static_cast<double>(CountsOf(what.kind, bytes, ranks_).total * sizeof(float));
      std::printf("ROW %s %s %zu %.9e %.9e\n", what.name, in_place ? "in" : "out", bytes, mean,
                  size / mean * BusFactor(what.kind, ranks_));
      std::fflush(stdout);
    }
    Barrier();  // nobody overwrites what rank 0 reads
  }

  int rank_;
  int ranks_;
  Shared& shared_;
  int warm_up_;
  int iterations_;
  std::vector<std::size_t> sizes_;
  std::size_t most_bytes_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(
        stderr,
        "usage: parity RANK RANKS SHARED_FILE COLLECTIVES WARM_UP ITERATIONS SIZE_BYTES...\n");
    return 2;
  }
  alarm(kLongestSeconds);  // rather dead than hanging
  const int rank = std::atoi(argv[1]);
  const int ranks = std::atoi(argv[2]);
  const int file = open(argv[3], O_RDWR | O_CLOEXEC);
  void* memory =
      file < 0 ? MAP_FAILED : mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED || rank < 0 || rank >= ranks || ranks > kMostRanks) {
    std::fprintf(stderr, "parity: cannot use %s, or rank %d of %d\n", argv[3], rank, ranks);
    return 2;
  }
  std::vector<std::size_t> sizes;
  for (int i = 7; i < argc; ++i) {
    sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  }
  Loop loop(rank, ranks, *static_cast<Shared*>(memory), std::atoi(argv[5]), std::atoi(argv[6]),
            std::move(sizes));
  loop.Open();
  const std::string wanted = std::string(",") + argv[4] + ",";
  for (const Named& what : kKinds) {
    if (wanted.find(std::string(",") + what.name + ",") != std::string::npos) {
      loop.Run(what);
    }
  }
  loop.Close();
  return 0;
}

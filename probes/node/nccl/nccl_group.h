#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/bus_bandwidth.h"
#include "kernels/element.h"
#include "probes/node/exchange.h"
#include "probes/node/nccl/nccl_api.h"
#include "probes/node/nccl/rank_gpu.h"
#include "probes/observations/deadline.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// What a rank tells the others before a communicator is made.
struct NcclIntroduction {
  Error error;           ///< why this rank cannot take part; no message when it can
  std::string version;   ///< "2.28.9"
  std::string file;      ///< digest of libnccl, or its path where it could not be read
  std::string path;      ///< of libnccl
  std::string settings;  ///< that must be the same on all ranks, "NCCL_ALGO=Ring NCCL_PROTO=LL"
  FabricRank place;      ///< rank and provider are not sent

  /// Of a library that was loaded.
  void Name(const NcclLibrary& library);
  std::string Pack() const;
  static Result<NcclIntroduction> Unpack(std::string_view packed);
};

/// The first rank that cannot take part, or that has another NCCL or other settings than rank 0, as
/// an error: NCCL's own message would not name it.
Result<void> CheckNcclIntroductions(const std::vector<NcclIntroduction>& introductions);

/// Tells the others of this rank and hears of them, all ranks together: where each is, by rank, or
/// the error that CheckNcclIntroductions has.
Result<std::vector<FabricRank>> IntroduceForNccl(const NcclIntroduction& mine, Exchange& exchange,
                                                 Deadline deadline);

/// A communicator of NCCL over all ranks of an exchange. It never blocks: each call puts its
/// operation into the GPU's stream, and WaitIdle polls. After an error no call works any more.
class NcclGroup {
 public:
  /// All ranks together, by `deadline`; `end_by` is for the destructor. `before_abort` is called
  /// where the communicator was not made in time, and is still there.
  static Result<std::unique_ptr<NcclGroup>> Open(std::shared_ptr<const NcclApi> api, RankGpu& gpu,
                                                 Exchange& exchange, Deadline deadline,
                                                 Deadline end_by,
                                                 const std::function<void()>& before_abort);
  /// Finalizes; after an error aborts. Waits for that until `end_by` and no more than some seconds,
  /// then leaves it to the end of the process.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int Rank() const { return rank_; }
  int Size() const { return size_; }

  /// As nccl-tests calls it: sums where it reduces, root 0, to the next rank. Counts of ShapeOfRow.
  Result<void> Start(Collective collective, const void* send, void* receive, const RowShape& shape,
                     DataType type, Deadline deadline);
  /// The same on a stream of the caller's; `op` where it reduces.
  Result<void> StartOn(nccl_abi::Stream stream, Collective collective, const void* send,
                       void* receive, const RowShape& shape, DataType type, ReduceOp op,
                       Deadline deadline);
  /// The sum over ranks into *value, memory of the GPU.
  Result<void> AddUpOn(nccl_abi::Stream stream, double* value, Deadline deadline);
  /// Of operations that were started and may not have ended; none: not that they have.
  Result<void> LookForError();
  /// No call works any more, and the destructor aborts.
  void GiveUp() { failed_ = true; }
  /// Until everything that was started has ended.
  Result<void> WaitIdle(Deadline deadline);

  /// Memory of the GPU as nccl-tests takes it: NCCL's own where there is such, which may be
  /// registered. Freed with the group.
  Result<void*> Allocate(std::size_t bytes);

 private:
  NcclGroup(std::shared_ptr<const NcclApi> api, RankGpu& gpu, int rank, int size, Deadline end_by)
      : api_(std::move(api)), gpu_(gpu), rank_(rank), size_(size), end_by_(end_by) {}

  Result<void> Enqueue(nccl_abi::Stream stream, Collective collective, const void* send,
                       void* receive, const RowShape& shape, int type, int op, Deadline deadline);
  /// Waits while NCCL says that the call is in progress.
  Result<void> Settle(int code, const char* call, Deadline deadline);
  Error Failed(const std::string& what, int code);

  std::shared_ptr<const NcclApi> api_;
  RankGpu& gpu_;
  int rank_;
  int size_;
  Deadline end_by_;
  nccl_abi::Comm comm_ = nullptr;
  std::vector<void*> memory_;
  bool failed_ = false;
};

}  // namespace dlc

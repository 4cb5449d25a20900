#include "probes/node/nccl/nccl_group.h"

#include <chrono>
#include <cstring>
#include <future>
#include <sstream>
#include <thread>
#include <utility>

namespace dlc {
namespace {

constexpr std::chrono::seconds kToEnd{5};
constexpr int kNvlinkCentricSched = 22800;

int NcclType(DataType type) {
  switch (type) {
    case DataType::kBfloat16:
      return nccl_abi::kBfloat16;
    case DataType::kInt32:
      return nccl_abi::kInt32;
    case DataType::kInt64:
      return nccl_abi::kInt64;
    case DataType::kFloat32:
      break;
  }
  return nccl_abi::kFloat32;
}

int NcclOp(ReduceOp op) {
  return op == ReduceOp::kAvg   ? nccl_abi::kAvg
         : op == ReduceOp::kMax ? nccl_abi::kMax
                                : nccl_abi::kSum;
}

/// Nothing wakes us: NCCL and CUDA are asked again and again, as nccl-tests does.
void GiveWay() {
  std::this_thread::yield();
}

}  // namespace

void NcclIntroduction::Name(const NcclLibrary& library) {
  version = library.library.version;
  path = library.library.path;
  file = library.file.seen() ? library.file.value().ToString() : path;
}

std::string NcclIntroduction::Pack() const {
  std::string packed;
  for (const std::string& field :
       {error.message, error.hint, version, file, path, settings, place.host, place.boot_id,
        place.network_namespace, std::to_string(place.usable_cpus)}) {
    packed += field;
    packed += '\0';
  }
  return packed;
}

Result<NcclIntroduction> NcclIntroduction::Unpack(std::string_view packed) {
  std::vector<std::string> fields;
  for (std::size_t end = packed.find('\0'); end != std::string_view::npos;
       end = packed.find('\0')) {
    fields.emplace_back(packed.substr(0, end));
    packed.remove_prefix(end + 1);
  }
  if (fields.size() != 10 || !packed.empty()) {
    return Error{ErrorCode::kInternal, "a rank's introduction cannot be read", ""};
  }
  NcclIntroduction introduction;
  introduction.error = {ErrorCode::kUnavailable, fields[0], fields[1]};
  introduction.version = fields[2];
  introduction.file = fields[3];
  introduction.path = fields[4];
  introduction.settings = fields[5];
  introduction.place.host = fields[6];
  introduction.place.boot_id = fields[7];
  introduction.place.network_namespace = fields[8];
  introduction.place.usable_cpus = static_cast<int>(std::strtol(fields[9].c_str(), nullptr, 10));
  return introduction;
}

Result<void> CheckNcclIntroductions(const std::vector<NcclIntroduction>& introductions) {
  for (std::size_t i = 0; i < introductions.size(); ++i) {
    const NcclIntroduction& one = introductions[i];
    const std::string name = "rank " + std::to_string(i) + " on " + one.place.host;
    if (!one.error.message.empty()) {
      return Error{one.error.code, name + ": " + one.error.message, one.error.hint};
    }
  }
  for (std::size_t i = 1; i < introductions.size(); ++i) {
    const NcclIntroduction& first = introductions[0];
    const NcclIntroduction& one = introductions[i];
    const std::string name = "rank " + std::to_string(i) + " on " + one.place.host;
    if (one.version != first.version || one.file != first.file) {
      return Error{ErrorCode::kUnavailable,
                   name + " has NCCL " + one.version + " of " + one.path + " (" + one.file +
                       "), rank 0 has " + first.version + " of " + first.path + " (" + first.file +
                       ")",
                   "give every worker the same image and the same runtime environment"};
    }
    if (one.settings != first.settings) {
      return Error{
          ErrorCode::kUnavailable,
          name + " has the settings '" + one.settings + "', rank 0 has '" + first.settings + "'",
          "give every worker the same environment"};
    }
  }
  return {};
}

Result<std::vector<FabricRank>> IntroduceForNccl(const NcclIntroduction& mine, Exchange& exchange,
                                                 Deadline deadline) {
  const auto packed = exchange.AllGather(mine.Pack(), deadline);
  if (!packed) {
    return packed.error();
  }
  std::vector<NcclIntroduction> all;
  std::vector<FabricRank> ranks;
  for (const std::string& theirs : *packed) {
    auto one = NcclIntroduction::Unpack(theirs);
    if (!one) {
      return one.error();
    }
    one->place.rank = static_cast<int>(ranks.size());
    ranks.push_back(one->place);
    all.push_back(std::move(one).value());
  }
  if (const auto good = CheckNcclIntroductions(all); !good) {
    return good.error();
  }
  return ranks;
}

Result<std::unique_ptr<NcclGroup>> NcclGroup::Open(std::shared_ptr<const NcclApi> api, RankGpu& gpu,
                                                   Exchange& exchange, Deadline deadline,
                                                   Deadline end_by,
                                                   const std::function<void()>& before_abort) {
  nccl_abi::UniqueId id{};
  std::string mine;
  if (exchange.rank() == 0) {
    const int code = api->get_unique_id(&id);
    mine = code == nccl_abi::kSuccess ? std::string(id.internal, sizeof id.internal)
                                      : "ncclGetUniqueId: " + api->Text(code);
  }
  const auto all = exchange.AllGather(mine, deadline);
  if (!all) {
    return all.error();
  }
  if (all->front().size() != sizeof id.internal) {
    return Error{ErrorCode::kUnavailable, "rank 0: " + all->front(),
                 "NCCL_SOCKET_IFNAME must name an interface that every rank has"};
  }
  std::memcpy(id.internal, all->front().data(), sizeof id.internal);
  std::unique_ptr<NcclGroup> group(
      new NcclGroup(std::move(api), gpu, exchange.rank(), exchange.size(), end_by));
  nccl_abi::Config config;
  config.blocking = 0;
  if (group->api_->version_code >= kNvlinkCentricSched) {
    config.nvlink_centric_sched = 1;  // as nccl-tests does, or numbers would not compare
  }
  const int code = group->api_->init_rank(&group->comm_, group->size_, id, group->rank_, &config);
  if (const auto done = group->Settle(code, "ncclCommInitRankConfig", deadline); !done) {
    if (done.error().code == ErrorCode::kTimedOut) {
      before_abort();
    }
    return done.error();
  }
  return group;
}

NcclGroup::~NcclGroup() {
  // In a thread: what ended badly may not end at all.
  const Deadline deadline = end_by_.Within(kToEnd);
  const auto end = [deadline, api = api_, comm = comm_, failed = failed_, memory = memory_] {
    if (comm != nullptr && failed) {
      api->abort(comm);
    }
    if (comm != nullptr && !failed) {
      int state = api->finalize(comm);
      while (state == nccl_abi::kInProgress && !deadline.Passed()) {
        api->get_async_error(comm, &state);
        GiveWay();
      }
      for (void* at : memory) {
        if (api->mem_free != nullptr) {
          api->mem_free(at);
        }
      }
      api->destroy(comm);
    }
  };
  std::packaged_task<void()> task(end);
  auto ended = task.get_future();
  std::thread thread(std::move(task));
  if (ended.wait_for(deadline.Remaining()) == std::future_status::ready) {
    thread.join();
  } else {
    thread.detach();
  }
}

Error NcclGroup::Failed(const std::string& what, int code) {
  failed_ = true;
  return {ErrorCode::kUnavailable, what + ": " + api_->Text(code, comm_),
          "the log of NCCL says more"};
}

Result<void> NcclGroup::Settle(int code, const char* call, Deadline deadline) {
  int state = code;
  while (state == nccl_abi::kInProgress) {
    if (deadline.Passed()) {
      failed_ = true;
      return Error{ErrorCode::kTimedOut, std::string(call) + " did not end by its deadline",
                   "a rank that is not there, or cannot be reached, holds up all"};
    }
    GiveWay();
    if (const int asked = api_->get_async_error(comm_, &state); asked != nccl_abi::kSuccess) {
      return Failed("ncclCommGetAsyncError", asked);
    }
  }
  return state == nccl_abi::kSuccess ? Result<void>() : Result<void>(Failed(call, state));
}

Result<void> NcclGroup::Enqueue(nccl_abi::Stream stream, Collective collective, const void* send,
                                void* receive, const RowShape& shape, int type, int op,
                                Deadline deadline) {
  switch (collective) {
    case Collective::kAllReduce:
      return Settle(api_->all_reduce(send, receive, shape.send_count, type, op, comm_, stream),
                    "ncclAllReduce", deadline);
    case Collective::kAllGather:
      return Settle(api_->all_gather(send, receive, shape.send_count, type, comm_, stream),
                    "ncclAllGather", deadline);
    case Collective::kReduceScatter:
      return Settle(
          api_->reduce_scatter(send, receive, shape.receive_count, type, op, comm_, stream),
          "ncclReduceScatter", deadline);
    case Collective::kBroadcast:
      return Settle(api_->broadcast(send, receive, shape.send_count, type, 0, comm_, stream),
                    "ncclBroadcast", deadline);
    case Collective::kSendReceive:
      break;
  }
  int code = api_->group_start();
  for (const int next :
       {api_->send(send, shape.send_count, type, (rank_ + 1) % size_, comm_, stream),
        api_->receive(receive, shape.receive_count, type, (rank_ + size_ - 1) % size_, comm_,
                      stream),
        api_->group_end()}) {
    code = code == nccl_abi::kSuccess ? next : code;
  }
  return Settle(code, "ncclSend and ncclRecv", deadline);
}

Result<void> NcclGroup::Start(Collective collective, const void* send, void* receive,
                              const RowShape& shape, DataType type, Deadline deadline) {
  return StartOn(gpu_.Stream(), collective, send, receive, shape, type, ReduceOp::kSum, deadline);
}

Result<void> NcclGroup::StartOn(nccl_abi::Stream stream, Collective collective, const void* send,
                                void* receive, const RowShape& shape, DataType type, ReduceOp op,
                                Deadline deadline) {
  if (failed_) {
    return Error{ErrorCode::kUnavailable, "the communicator has failed before", ""};
  }
  return Enqueue(stream, collective, send, receive, shape, NcclType(type), NcclOp(op), deadline);
}

Result<void> NcclGroup::AddUpOn(nccl_abi::Stream stream, double* value, Deadline deadline) {
  if (failed_) {
    return Error{ErrorCode::kUnavailable, "the communicator has failed before", ""};
  }
  return Settle(
      api_->all_reduce(value, value, 1, nccl_abi::kFloat64, nccl_abi::kSum, comm_, stream),
      "ncclAllReduce", deadline);
}

Result<void> NcclGroup::LookForError() {
  int state = nccl_abi::kSuccess;
  const int asked = api_->get_async_error(comm_, &state);
  if (asked != nccl_abi::kSuccess ||
      (state != nccl_abi::kSuccess && state != nccl_abi::kInProgress)) {
    return Failed("NCCL, while the operation ran", asked != nccl_abi::kSuccess ? asked : state);
  }
  return {};
}

Result<void> NcclGroup::WaitIdle(Deadline deadline) {
  while (true) {
    const auto idle = gpu_.Idle();
    if (!idle) {
      failed_ = true;
      return idle.error();
    }
    if (*idle) {
      return {};
    }
    if (auto good = LookForError(); !good) {
      return good;
    }
    if (deadline.Passed()) {
      failed_ = true;
      return Error{ErrorCode::kTimedOut, "the operation did not end by its deadline",
                   "a rank that is lost, or a network that drops bytes, holds up all"};
    }
    GiveWay();
  }
}

Result<void*> NcclGroup::Allocate(std::size_t bytes) {
  if (api_->mem_alloc == nullptr) {
    return gpu_.Allocate(bytes);  // the end of the process frees it
  }
  void* at = nullptr;
  if (const int code = api_->mem_alloc(&at, bytes); code != nccl_abi::kSuccess) {
    return Error{ErrorCode::kUnavailable,
                 "ncclMemAlloc of " + std::to_string(bytes) + " bytes: " + api_->Text(code), ""};
  }
  memory_.push_back(at);
  return at;
}

}  // namespace dlc

#include "probes/node/fsdp/observe_layout.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "kernels/training/qwen2_shape.h"
#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/node_facts.h"
#include "probes/node/fsdp/exchange_subset.h"
#include "probes/node/fsdp/layout_proof.h"

namespace dlc {
namespace {

constexpr const char* kHybrid = "hsdp";

/// A communicator of some ranks of the run.
class SubsetRanks {
 public:
  static Result<std::unique_ptr<SubsetRanks>> Open(const FabricOptions& options, Exchange& all,
                                                   std::vector<int> members, Deadline deadline) {
    std::unique_ptr<SubsetRanks> ranks(new SubsetRanks(all, std::move(members)));
    // Always a ring: what it sends can be told beforehand.
    FabricTuning tuning;
    tuning.direct_all_reduce = 0;
    auto opened = FabricCommunicator::Open(options, ranks->subset_, deadline, tuning);
    if (!opened) {
      Error error = std::move(opened).error();
      error.message += " (" + ranks->subset_.Name() + ")";
      return error;
    }
    ranks->communicator_ = std::move(opened).value();
    return ranks;
  }

  FabricCommunicator& operator*() { return *communicator_; }
  std::string Name() const { return subset_.Name(); }

 private:
  SubsetRanks(Exchange& all, std::vector<int> members) : subset_(all, std::move(members)) {}

  ExchangeSubset subset_;
  std::unique_ptr<FabricCommunicator> communicator_;
};

std::vector<int> InSteps(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) {
    ranks.push_back(first + i * step);
  }
  return ranks;
}

class LayoutExperiment {
 public:
  LayoutExperiment(const FsdpLayoutParameters& parameters, bool flip_bit, Exchange& exchange,
                   Deadline deadline, const std::function<void(const std::string&)>& say)
      : parameters_(parameters),
        flip_bit_(flip_bit),
        exchange_(exchange),
        deadline_(deadline),
        say_(say),
        whole_elements_(parameters.whole_elements) {}

  Result<FsdpLayoutExperiment> Run() {
    if (parameters_.shard_ranks > 0 && exchange_.size() % parameters_.shard_ranks != 0) {
      return Error{ErrorCode::kInvalidInput,
                   "shards over " + std::to_string(parameters_.shard_ranks) +
                       " ranks do not divide the run's " + std::to_string(exchange_.size()),
                   ""};
    }
    say_("opening the fabric");
    options_ = ChooseFabric(parameters_.provider);
    auto opened = FabricCommunicator::Open(options_, exchange_, deadline_);
    if (!opened) {
      return std::move(opened).error();
    }
    all_ = std::move(opened).value();
    seen_.library = all_->Transport().Library();
    seen_.place = all_->Transport().Ranks()[static_cast<std::size_t>(exchange_.rank())];
    if (auto done = ProveAll(); !done) {
      seen_.stopped_by = done.error();
    } else if (const auto met = exchange_.Barrier(deadline_); !met) {
      // A closed endpoint takes no more part in deliveries to slower ranks. A rank that is lost now
      // costs nothing that was seen.
      say_(met.error().message);
    }
    return seen_;
  }

 private:
  Result<void> ProveAll() {
    for (const std::string& model : parameters_.models) {
      for (const std::string& layout : parameters_.layouts) {
        say_(model + " cut as " + layout);
        auto proof = layout == kHybrid ? ProveHybrid(model) : ProveOne(model, layout);
        if (!proof) {
          return std::move(proof).error();
        }
        seen_.proofs.push_back(std::move(proof).value());
      }
    }
    return {};
  }

  Result<FsdpLayoutProof> ProveOne(const std::string& model, const std::string& layout) {
    const ShardedRanks ranks{*all_, nullptr, exchange_.rank(), exchange_.size(),
                             [this] { return all_->Transport().SentBytes(); }};
    return Prove(model, layout, *ParseShardLayout(layout), ranks);
  }

  Result<FsdpLayoutProof> ProveHybrid(const std::string& model) {
    const int rank = exchange_.rank();
    const int size = exchange_.size();
    const int shards = parameters_.shard_ranks > 0 ? parameters_.shard_ranks
                                                   : ChooseShardRanks(all_->Transport().Ranks());
    if (auto opened = OpenHybrid(rank, size, shards); !opened) {
      return std::move(opened).error();
    }
    const ShardedRanks ranks{**shard_, &**copies_, rank, size, [this] {
                               return (**shard_).Transport().SentBytes() +
                                      (**copies_).Transport().SentBytes();
                             }};
    auto proof = Prove(model, kHybrid, ShardLayout::kFsdp2, ranks);
    if (!proof) {
      Error error = std::move(proof).error();
      error.message += " (shards " + shard_->Name() + "; copies " + copies_->Name() + ")";
      return error;
    }
    return proof;
  }

  Result<void> OpenHybrid(int rank, int size, int shards) {
    if (shard_ != nullptr) {
      return {};
    }
    auto shard = SubsetRanks::Open(options_, exchange_, InSteps(rank / shards * shards, 1, shards),
                                   deadline_);
    if (!shard) {
      return std::move(shard).error();
    }
    auto copies = SubsetRanks::Open(options_, exchange_,
                                    InSteps(rank % shards, shards, size / shards), deadline_);
    if (!copies) {
      return std::move(copies).error();
    }
    shard_ = std::move(shard).value();
    copies_ = std::move(copies).value();
    return {};
  }

  Result<FsdpLayoutProof> Prove(const std::string& model, const std::string& layout,
                                ShardLayout cut, const ShardedRanks& ranks) {
    LayoutProofOptions options;
    options.model = model;
    options.parameters = Qwen2Parameters(*Qwen2Preset(model));
    options.layout = layout;
    options.cut = cut;
    options.every_unit = parameters_.every_unit;
    options.plant_bit_flip = std::exchange(flip_bit_, false);
    return ProveLayout(ranks, options, whole_elements_, deadline_);
  }

  const FsdpLayoutParameters& parameters_;
  bool flip_bit_;
  Exchange& exchange_;
  Deadline deadline_;
  const std::function<void(const std::string&)>& say_;
  std::int64_t whole_elements_;
  FabricOptions options_;
  std::unique_ptr<FabricCommunicator> all_;
  std::unique_ptr<SubsetRanks> shard_;
  std::unique_ptr<SubsetRanks> copies_;
  FsdpLayoutExperiment seen_;
};

}  // namespace

int ChooseShardRanks(const std::vector<FabricRank>& ranks) {
  const auto size = static_cast<int>(ranks.size());
  const auto machine_of = [&](int rank) { return ranks[static_cast<std::size_t>(rank)].boot_id; };
  int in_a_row = 1;
  while (in_a_row < size && machine_of(in_a_row) == machine_of(0)) {
    ++in_a_row;
  }
  bool alike = in_a_row > 1 && in_a_row < size && size % in_a_row == 0;
  for (int rank = 1; alike && rank < size; ++rank) {
    alike = (machine_of(rank) == machine_of(rank - 1)) == (rank % in_a_row != 0);
  }
  if (alike) {
    return in_a_row;
  }
  int divisor = size - 1;
  while (divisor > 1 && size % divisor != 0) {
    --divisor;
  }
  return std::max(divisor, 1);
}

Result<FsdpLayoutExperiment> ObserveFsdpLayout(const FsdpLayoutParameters& parameters,
                                               bool flip_bit, Exchange& exchange, Deadline deadline,
                                               const std::function<void(const std::string&)>& say) {
  return LayoutExperiment(parameters, flip_bit, exchange, deadline, say).Run();
}

}  // namespace dlc

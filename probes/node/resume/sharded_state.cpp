#include "probes/node/resume/sharded_state.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "kernels/training/synthetic.h"
#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/node/sha256/sha256.h"

namespace dlc {
namespace {

constexpr std::size_t kKinds = 3;
constexpr std::array<const char*, kKinds> kPrefixes = {"", "exp_avg.", "exp_avg_sq."};
constexpr std::size_t kHexDigits = 16;

std::uint64_t KeyOf(std::size_t index) {
  return SyntheticKey(HashKey(index / kKinds), index % kKinds);
}

}  // namespace

std::vector<StateTensor> StateTensorsOf(const ShardPlan& plan) {
  std::vector<StateTensor> tensors;
  for (int unit = 0; unit < plan.Units(); ++unit) {
    for (const OwnedPiece& piece : plan.Layout(unit).owned) {
      const ModelParameter& parameter = plan.ParameterOf(piece);
      for (std::size_t kind = 0; kind < kKinds; ++kind) {
        StateTensor one;
        one.index = static_cast<std::size_t>(piece.parameter) * kKinds + kind;
        // FSDP2 cuts between rows.
        one.tensor = {kPrefixes[kind] + parameter.name, parameter.shape,
                      piece.first / parameter.RowElements(), piece.count / parameter.RowElements(),
                      "F32"};
        one.first = piece.first;
        one.count = piece.count;
        one.offset = plan.Offset(unit) + piece.offset;
        tensors.push_back(std::move(one));
      }
    }
  }
  return tensors;
}

std::size_t StateTensorCount(const ShardPlan& plan) {
  return plan.parameters.size() * kKinds;
}

std::string StateTensorName(const ShardPlan& plan, std::size_t index) {
  return kPrefixes[index % kKinds] + plan.parameters[index / kKinds].name;
}

float* PlaceOf(const ShardStates& states, const StateTensor& tensor) {
  const std::array<const TrainingMemory*, kKinds> all = {&states.master, &states.m, &states.v};
  return all[tensor.index % kKinds]->Floats(tensor.offset);
}

Result<void> AddHashOf(TrainingBackend& backend, const StateTensor& tensor, const float* values,
                       StateHashes& hashes) {
  return TrainingResult(backend.AddHash(values, KeyOf(tensor.index), tensor.first, tensor.count,
                                        &hashes[tensor.index]));
}

Result<void> AddStateHashes(TrainingBackend& backend, const std::vector<StateTensor>& tensors,
                            const ShardStates& states, StateHashes& hashes) {
  for (const StateTensor& one : tensors) {
    if (auto done = AddHashOf(backend, one, PlaceOf(states, one), hashes); !done) {
      return done;
    }
  }
  return {};
}

std::string StateHashText(std::uint64_t hash) {
  std::array<char, kHexDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

Result<StateHashes> SumStateHashes(const StateHashes& mine, Exchange& exchange, Deadline deadline) {
  std::string text;
  for (const std::uint64_t hash : mine) {
    text += StateHashText(hash);
  }
  const auto all = exchange.AllGather(text, deadline);
  if (!all) {
    return all.error();
  }
  StateHashes sum(mine.size(), 0);
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].size() != text.size()) {
      return Error{ErrorCode::kInternal,
                   "rank " + std::to_string(rank) + " has another number of tensors", ""};
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += std::strtoull((*all)[rank].substr(i * kHexDigits, kHexDigits).c_str(), nullptr, 16);
    }
  }
  return sum;
}

std::string StateHashOf(const StateHashes& hashes) {
  Sha256 all;
  for (const std::uint64_t hash : hashes) {
    all.Add(StateHashText(hash));
  }
  return all.FinishDigest().hex;
}

}  // namespace dlc

#include "probes/node/fsdp/train_and_compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "probes/node/fsdp/memory_claims.h"
#include "probes/node/fsdp/sharded_model.h"
#include "probes/node/fsdp/training_memory.h"
#include "probes/node/fsdp/training_verification.h"

namespace dlc {
namespace {

FsdpTrainingStep StepSeen(const ShardedStep& step) {
  FsdpTrainingStep seen;
  double loss = 0;
  for (const float one : step.losses) {
    loss += static_cast<double>(one) / static_cast<double>(step.losses.size());
  }
  seen.finite = std::isfinite(loss) && std::isfinite(step.gradient_norm);
  seen.loss = std::isfinite(loss) ? loss : 0;
  seen.gradient_norm = std::isfinite(step.gradient_norm) ? step.gradient_norm : 0;
  seen.seconds = step.seconds;
  seen.exposed_seconds = step.exposed_seconds;
  seen.optimizer_seconds = step.optimizer_seconds;
  seen.sent_bytes = step.sent_bytes;
  return seen;
}

/// One run from the first look at the memory to the last comparison.
class RunOfTraining {
 public:
  RunOfTraining(const TrainingRanks& ranks, const TrainingOptions& options, bool reference,
                Deadline deadline, FsdpTrainingRun& run)
      : ranks_(ranks),
        options_(options),
        reference_(reference),
        deadline_(deadline),
        run_(run),
        rank_(ranks.collectives.Rank()),
        size_(ranks.collectives.Size()) {}

  Result<void> Run() {
    if (auto done = AskForMemory(); !done || !run_.not_looked_at.empty()) {
      return done;
    }
    if (auto done = Agree(Open()); !done) {
      return done;
    }
    auto done = Train();
    if (!done) {
      ranks_.collectives.Abort();
      return done;
    }
    return Compare();
  }

 private:
  Result<void> AskForMemory() {
    auto asked = AskForTrainingMemory(ranks_, options_, deadline_);
    if (!asked) {
      return asked.error();
    }
    run_.needed_bytes = asked->needed_bytes;
    run_.free_bytes = asked->free_bytes;
    run_.not_looked_at = std::move(asked->too_little);
    sharers_ = asked->sharers;
    return {};
  }

  Result<void> Open() {
    if (!options_.exact) {
      if (auto done = TrainingResult(ranks_.backend.PrepareModel(options_.shape)); !done) {
        return done;
      }
    }
    auto opened = ShardedModel::Open(ranks_.backend, ranks_.collectives, options_);
    if (!opened) {
      return opened.error();
    }
    model_ = std::move(opened).value();
    run_.taken_bytes = model_->TakenBytes();
    if (!options_.exact) {
      run_.taken_bytes += static_cast<std::int64_t>(ranks_.backend.ActivationBytes(options_.shape));
    }
    return {};
  }

  Result<void> Agree(const Result<void>& mine) {
    return AgreeOnErrors(ranks_.exchange, mine, deadline_);
  }

  Result<void> Train() {
    run_.expected_bytes = TrainingStepBytes(options_, size_);
    for (int step = 0; step < options_.steps; ++step) {
      ranks_.say("step " + std::to_string(step + 1) + " of " + std::to_string(options_.steps));
      auto seen = model_->Step(deadline_);
      if (!seen) {
        Error error = std::move(seen).error();
        error.message += " (step " + std::to_string(step + 1) + ")";
        return error;
      }
      run_.steps.push_back(StepSeen(*seen));
      steps_.push_back(std::move(seen).value());
    }
    return {};
  }

  Result<void> Compare() {
    ranks_.say("comparing");
    const auto padding = ComparePadding(ranks_.backend, *model_);
    if (auto good = Agree(padding ? Result<void>() : Result<void>(padding.error())); !good) {
      return good;
    }
    run_.own.push_back(*padding);
    auto gathered =
        CompareGathered(ranks_.backend, *model_, options_, ranks_.exchange, deadline_, run_.hash);
    if (!gathered) {
      ranks_.collectives.Abort();
      return gathered.error();
    }
    run_.own.push_back(std::move(gathered).value());
    const auto start = std::chrono::steady_clock::now();
    auto done = options_.exact ? CompareWithFormula() : CompareWithWhole();
    run_.reference_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return done;
  }

  Result<void> CompareWithFormula() {
    auto exact = CompareExactly(ranks_.backend, *model_, options_, rank_, size_);
    if (!exact) {
      run_.reference = exact.error();
      return {};
    }
    run_.reference = std::move(exact->comparisons);
    run_.explanation = std::move(exact->explanation);
    run_.controls = std::move(exact->controls);
    return {};
  }

  Result<void> CompareWithWhole() {
    if (!reference_) {
      run_.reference = NotLookedAt{"the plan asks for no unsharded model", ""};
      return {};
    }
    const std::int64_t needed = EstimateTraining(ranks_.backend, options_, size_).unsharded;
    std::uint64_t free = 0;
    std::uint64_t total = 0;
    if (auto good = TrainingResult(ranks_.backend.FreeMemory(free, total)); !good) {
      run_.reference = good.error();
      return {};
    }
    // As it was before, so that a neighbour that is ahead takes nothing away from what is counted.
    const std::int64_t left =
        std::min(static_cast<std::int64_t>(free), run_.free_bytes - run_.needed_bytes * sharers_);
    if (needed * sharers_ > left) {
      run_.reference = NotLookedAt{
          "the unsharded model needs " + std::to_string(needed >> 20) +
              " MiB beside the shards of each of " + std::to_string(sharers_) + " ranks, and " +
              std::to_string(std::max<std::int64_t>(left, 0) >> 20) + " MiB are left",
          ""};
      return {};
    }
    ranks_.say("training the unsharded model");
    run_.reference =
        CompareWithUnsharded(ranks_.backend, *model_, options_, steps_, rank_, size_, deadline_);
    return {};
  }

  const TrainingRanks& ranks_;
  const TrainingOptions& options_;
  bool reference_;
  Deadline deadline_;
  FsdpTrainingRun& run_;
  int rank_;
  int size_;
  int sharers_ = 1;
  std::unique_ptr<ShardedModel> model_;
  std::vector<ShardedStep> steps_;
};

}  // namespace

Result<void> TrainAndCompare(const TrainingRanks& ranks, const TrainingOptions& options,
                             const std::string& model, bool reference, Deadline deadline,
                             FsdpTrainingRun& run) {
  const int size = ranks.collectives.Size();
  const ShardPlan plan = MakeShardPlan(options.shape.model, size, 0);
  run.name = options.exact ? "exact" : "training";
  run.model = model;
  run.compute = DataTypeName(options.shape.compute);
  run.gradients = DataTypeName(options.shape.gradients);
  run.ranks = size;
  run.rows = options.shape.rows;
  run.sequence = options.shape.sequence;
  run.micro_batches = options.micro_batches;
  run.parameters = ParameterCount(options.shape.model);
  for (const UnitLayout& layout : plan.layouts) {
    run.padding += layout.GatheredElements();
  }
  run.padding -= run.parameters;
  return RunOfTraining(ranks, options, reference, deadline, run).Run();
}

}  // namespace dlc

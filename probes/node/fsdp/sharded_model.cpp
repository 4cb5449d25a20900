#include "probes/node/fsdp/sharded_model.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

namespace dlc {

Result<std::unique_ptr<ShardedModel>> ShardedModel::Open(TrainingBackend& backend,
                                                         UnitCollectives& collectives,
                                                         const TrainingOptions& options) {
  std::unique_ptr<ShardedModel> model(new ShardedModel(backend, collectives, options));
  if (auto taken = model->TakeMemory(); !taken) {
    return taken.error();
  }
  return model;
}

Result<void> ShardedModel::TakeMemory() {
  if (auto done = MakeShardStates(backend_, plan_, options_, states_, taken_); !done) {
    return done;
  }
  if (auto done = exchange_.Open(taken_); !done) {
    return done;
  }
  const auto steps = static_cast<std::int64_t>(options_.steps);
  // Zeroed, a place for each step: nothing has to be cleared in between.
  for (const auto& [memory, elements] :
       {std::pair(&losses_, steps * options_.micro_batches), {&sums_, 2 * steps}, {&scale_, 1}}) {
    if (auto done = memory->Take(backend_, elements, DataType::kFloat32, taken_); !done) {
      return done;
    }
  }
  return TrainingResult(backend_.Wait());
}

Result<ShardedStep> ShardedModel::Step(Deadline deadline) {
  ShardedStep step;
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t sent = collectives_.SentBytes();
  for (int micro_batch = 0; micro_batch < options_.micro_batches; ++micro_batch) {
    auto done =
        options_.exact ? IntegerGradients(micro_batch, deadline) : Gradients(micro_batch, deadline);
    if (!done) {
      return done.error();
    }
  }
  if (auto done = exchange_.Settle(); !done) {
    return done.error();
  }
  const int gradients_end = backend_.Mark(TrainingQueue::kCompute);
  if (auto done = Optimize(deadline); !done) {
    return done.error();
  }
  const int end = backend_.Mark(TrainingQueue::kCompute);
  if (auto done = Await(end, deadline); !done) {
    return done.error();
  }
  step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  step.sent_bytes = sent < 0 ? -1 : collectives_.SentBytes() - sent;
  if (auto done =
          TrainingResult(backend_.SecondsBetween(gradients_end, end, step.optimizer_seconds));
      !done) {
    return done.error();
  }
  if (auto done = Report(step); !done) {
    return done.error();
  }
  ++step_;
  return step;
}

Result<void> ShardedModel::Resume(int steps) {
  step_ = steps;
  if (auto done = RefreshCopy(backend_, plan_, options_, states_); !done) {
    return done;
  }
  return TrainingResult(backend_.Wait());
}

Result<void> ShardedModel::Report(ShardedStep& step) {
  const auto exposed = exchange_.TakeExposedSeconds();
  if (!exposed) {
    return exposed.error();
  }
  step.exposed_seconds = *exposed;
  backend_.ForgetMarks();
  double sum = 0;
  if (auto done =
          TrainingResult(backend_.Download(&sum, sums_.At(std::int64_t{2} * step_), sizeof sum));
      !done) {
    return done;
  }
  step.gradient_norm = std::sqrt(sum);
  if (options_.exact) {
    return {};
  }
  const auto count = static_cast<std::size_t>(options_.micro_batches);
  step.losses.resize(count);
  return TrainingResult(backend_.Download(step.losses.data(),
                                          losses_.At(std::int64_t{step_} * options_.micro_batches),
                                          count * sizeof(float)));
}

Result<void> ShardedModel::Gradients(int micro_batch, Deadline deadline) {
  auto done = Forward(micro_batch, deadline);
  return done ? Backward(micro_batch, deadline) : done;
}

Result<void> ShardedModel::Forward(int micro_batch, Deadline deadline) {
  const int root = plan_.Root();
  for (const int first : {root, 0}) {
    if (auto done = exchange_.Gather(first, deadline); !done) {
      return done;
    }
  }
  auto unit = exchange_.Use(root);
  if (!unit) {
    return unit.error();
  }
  const auto tokens = MicroBatchTokens(
      options_, MicroBatch(options_, step_, micro_batch, collectives_.Rank(), collectives_.Size()));
  if (auto done = TrainingResult(backend_.Embed(*unit, tokens.data())); !done) {
    return done;
  }
  for (int layer = 0; layer < root; ++layer) {
    if (layer + 1 < root) {
      if (auto done = exchange_.Gather(layer + 1, deadline); !done) {
        return done;
      }
    }
    unit = exchange_.Use(layer);
    if (!unit) {
      return unit.error();
    }
    if (auto done = TrainingResult(backend_.ForwardLayer(layer, *unit)); !done) {
      return done;
    }
    exchange_.Release(layer);
  }
  return {};
}

Result<void> ShardedModel::Backward(int micro_batch, Deadline deadline) {
  const int root = plan_.Root();
  if (auto done = exchange_.Gather(root - 1, deadline); !done) {
    return done;
  }
  const auto whole = exchange_.Use(root);
  const auto root_gradient = exchange_.GradientOf(root);
  if (!whole || !root_gradient) {
    return whole ? root_gradient.error() : whole.error();
  }
  float* loss = losses_.Floats(std::int64_t{step_} * options_.micro_batches + micro_batch);
  if (auto done = TrainingResult(backend_.Loss(*whole, *root_gradient, loss)); !done) {
    return done;
  }
  for (int layer = root - 1; layer >= 0; --layer) {
    if (layer > 0) {
      if (auto done = exchange_.Gather(layer - 1, deadline); !done) {
        return done;
      }
    }
    const auto unit = exchange_.Use(layer);
    const auto gradient = exchange_.GradientOf(layer);
    if (!unit || !gradient) {
      return unit ? gradient.error() : unit.error();
    }
    if (auto done = TrainingResult(backend_.BackwardLayer(layer, *unit, *gradient)); !done) {
      return done;
    }
    exchange_.Release(layer);
    if (auto done = exchange_.Reduce(layer, micro_batch, deadline); !done) {
      return done;
    }
  }
  if (auto done = TrainingResult(backend_.BackwardEmbed(*root_gradient)); !done) {
    return done;
  }
  exchange_.Release(root);
  return exchange_.Reduce(root, micro_batch, deadline);
}

Result<void> ShardedModel::IntegerGradients(int micro_batch, Deadline deadline) {
  const std::uint64_t batch =
      MicroBatch(options_, step_, micro_batch, collectives_.Rank(), collectives_.Size());
  for (int unit = plan_.Root(); unit >= 0; --unit) {
    const auto gradient = exchange_.GradientOf(unit);
    if (!gradient) {
      return gradient.error();
    }
    for (std::size_t i = 0; i < plan_.parameters.size(); ++i) {
      const ModelParameter& parameter = plan_.parameters[i];
      auto* to =
          static_cast<std::byte*>(*gradient) +
          static_cast<std::size_t>(parameter.unit_offset) * ElementBytes(options_.shape.gradients);
      if (parameter.unit != unit) {
        continue;
      }
      if (auto done = TrainingResult(backend_.FillIntegers(to, options_.shape.gradients,
                                                           GradientKey(options_, batch, i), 0,
                                                           parameter.Elements()));
          !done) {
        return done;
      }
    }
    if (auto done = exchange_.Reduce(unit, micro_batch, deadline); !done) {
      return done;
    }
  }
  return {};
}

Result<void> ShardedModel::Optimize(Deadline deadline) {
  auto* sum = reinterpret_cast<double*>(sums_.At(std::int64_t{2} * step_));
  if (auto done = TrainingResult(backend_.AddSquares(states_.gradient.Floats(), plan_.total, sum));
      !done) {
    return done;
  }
  if (collectives_.Size() > 1) {
    if (auto done = TrainingResult(backend_.WaitFor(TrainingQueue::kCommunication,
                                                    backend_.Mark(TrainingQueue::kCompute)));
        !done) {
      return done;
    }
    if (auto done = collectives_.AddUp(sum, deadline); !done) {
      return done;
    }
    if (auto done = TrainingResult(backend_.WaitFor(TrainingQueue::kCompute,
                                                    backend_.Mark(TrainingQueue::kCommunication)));
        !done) {
      return done;
    }
  }
  const bool clipped = options_.clip_norm > 0 && !options_.exact;
  const double largest = clipped ? options_.clip_norm : std::numeric_limits<double>::infinity();
  if (auto done = TrainingResult(backend_.ClipScale(sum, largest, scale_.Floats())); !done) {
    return done;
  }
  if (options_.fault == TrainingFault::kSkippedShard && step_ + 1 == options_.steps) {
    return {};
  }
  void* copy = states_.copy.Taken() ? states_.copy.At(0) : nullptr;
  return TrainingResult(backend_.AdamW(
      options_.adam, step_ + 1, states_.gradient.Floats(), scale_.Floats(), states_.master.Floats(),
      states_.m.Floats(), states_.v.Floats(), copy, options_.shape.compute, plan_.total));
}

Result<void> ShardedModel::Await(int mark, Deadline deadline) {
  for (bool ended = false; !ended;) {
    if (auto done = TrainingResult(backend_.IsDone(mark, ended)); !done) {
      return done;
    }
    if (auto done = collectives_.LookForError(); !done) {
      return done;
    }
    if (!ended && deadline.Passed()) {
      return Error{ErrorCode::kTimedOut, "the training step did not end by its deadline",
                   "a rank that is lost holds up all"};
    }
    if (!ended) {
      std::this_thread::yield();
    }
  }
  return {};
}

Result<const void*> ShardedModel::Gathered(int unit, Deadline deadline) {
  if (auto done = exchange_.Gather(unit, deadline); !done) {
    return done.error();
  }
  auto at = exchange_.Use(unit);
  if (!at) {
    return at.error();
  }
  if (auto done = Await(backend_.Mark(TrainingQueue::kCompute), deadline); !done) {
    return done.error();
  }
  const auto exposed = exchange_.TakeExposedSeconds();
  backend_.ForgetMarks();
  return exposed ? at : Result<const void*>(exposed.error());
}

}  // namespace dlc

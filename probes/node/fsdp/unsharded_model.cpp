#include "probes/node/fsdp/unsharded_model.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "probes/node/fsdp/shard_states.h"

namespace dlc {

std::int64_t UnshardedModel::Bytes(const TrainingShape& shape) {
  const auto parameters = Qwen2Parameters(shape.model);
  const int root = parameters.back().unit;
  const auto compute = static_cast<std::int64_t>(ElementBytes(shape.compute));
  const auto gradients = static_cast<std::int64_t>(ElementBytes(shape.gradients));
  std::int64_t bytes = 0;
  for (int unit = 0; unit <= root; ++unit) {
    const std::int64_t elements = UnitElements(parameters, unit);
    bytes += elements * (16 + (shape.compute == DataType::kFloat32 ? 0 : compute));
    bytes += unit == 0 || unit == root ? elements * gradients : 0;
  }
  return bytes;
}

Result<std::unique_ptr<UnshardedModel>> UnshardedModel::Open(TrainingBackend& backend,
                                                             const TrainingOptions& options,
                                                             int ranks) {
  std::unique_ptr<UnshardedModel> model(new UnshardedModel(backend, options, ranks));
  if (auto taken = model->TakeMemory(); !taken) {
    return taken.error();
  }
  return model;
}

Result<void> UnshardedModel::TakeMemory() {
  std::int64_t taken = 0;
  const int root = parameters_.back().unit;
  const bool copies = options_.shape.compute != DataType::kFloat32;
  for (UnitMemory* memory : {&master_, &gradient_, &m_, &v_, &copy_}) {
    memory->resize(static_cast<std::size_t>(root) + 1);
    for (int unit = 0; unit <= root && (memory != &copy_ || copies); ++unit) {
      const DataType type = memory == &copy_ ? options_.shape.compute : DataType::kFloat32;
      if (auto done = (*memory)[static_cast<std::size_t>(unit)].Take(
              backend_, UnitElements(parameters_, unit), type, taken);
          !done) {
        return done;
      }
    }
  }
  const DataType gradients = options_.shape.gradients;
  const std::int64_t steps = options_.steps;
  for (const auto& [memory, elements, type] :
       {std::tuple(&layer_gradient_, UnitElements(parameters_, 0), gradients),
        {&root_gradient_, UnitElements(parameters_, root), gradients},
        {&loss_, std::int64_t{1}, DataType::kFloat32},
        {&sums_, 2 * steps, DataType::kFloat32},
        {&scale_, std::int64_t{1}, DataType::kFloat32}}) {
    if (auto done = memory->Take(backend_, elements, type, taken); !done) {
      return done;
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ModelParameter& parameter = parameters_[i];
    float* to = master_[static_cast<std::size_t>(parameter.unit)].Floats(parameter.unit_offset);
    if (auto done =
            TrainingResult(backend_.FillNormal(to, WeightKey(options_, i), 0, parameter.Elements(),
                                               InitialMean(parameter), kWeightSpread));
        !done) {
      return done;
    }
  }
  for (int unit = 0; copies && unit <= root; ++unit) {
    const auto whole = PrepareWhole(backend_, UnitElements(parameters_, unit));
    const auto at = static_cast<std::size_t>(unit);
    if (!whole) {
      return whole.error();
    }
    if (auto done = TrainingResult(backend_.Move(*whole, master_[at].At(0), DataType::kFloat32,
                                                 copy_[at].At(0), options_.shape.compute,
                                                 TrainingQueue::kCompute));
        !done) {
      return done;
    }
  }
  return TrainingResult(backend_.Wait());
}

const void* UnshardedModel::Computed(int unit) const {
  const auto at = static_cast<std::size_t>(unit);
  return copy_[at].Taken() ? copy_[at].At(0) : master_[at].At(0);
}

Result<void> UnshardedModel::AddGradient(int unit, const TrainingMemory& gradient, bool first) {
  const float factor = 1.0F / static_cast<float>(ranks_ * options_.micro_batches);
  return TrainingResult(backend_.Accumulate(gradient_[static_cast<std::size_t>(unit)].Floats(),
                                            gradient.At(0), options_.shape.gradients, factor,
                                            !first, UnitElements(parameters_, unit)));
}

Result<void> UnshardedModel::AddMicroBatch(std::uint64_t micro_batch, bool first, float& loss) {
  const int root = parameters_.back().unit;
  const auto tokens = MicroBatchTokens(options_, micro_batch);
  if (auto done = TrainingResult(backend_.Embed(Computed(root), tokens.data())); !done) {
    return done;
  }
  for (int layer = 0; layer < root; ++layer) {
    if (auto done = TrainingResult(backend_.ForwardLayer(layer, Computed(layer))); !done) {
      return done;
    }
  }
  if (auto done =
          TrainingResult(backend_.Loss(Computed(root), root_gradient_.At(0), loss_.Floats()));
      !done) {
    return done;
  }
  for (int layer = root - 1; layer >= 0; --layer) {
    if (auto done =
            TrainingResult(backend_.BackwardLayer(layer, Computed(layer), layer_gradient_.At(0)));
        !done) {
      return done;
    }
    if (auto done = AddGradient(layer, layer_gradient_, first); !done) {
      return done;
    }
  }
  if (auto done = TrainingResult(backend_.BackwardEmbed(root_gradient_.At(0))); !done) {
    return done;
  }
  if (auto done = AddGradient(root, root_gradient_, first); !done) {
    return done;
  }
  return TrainingResult(backend_.Download(&loss, loss_.At(0), sizeof loss));
}

Result<void> UnshardedModel::Optimize(double& norm) {
  auto* sum = reinterpret_cast<double*>(sums_.At(std::int64_t{2} * step_));
  const int root = parameters_.back().unit;
  for (int unit = 0; unit <= root; ++unit) {
    if (auto done =
            TrainingResult(backend_.AddSquares(gradient_[static_cast<std::size_t>(unit)].Floats(),
                                               UnitElements(parameters_, unit), sum));
        !done) {
      return done;
    }
  }
  const double largest =
      options_.clip_norm > 0 ? options_.clip_norm : std::numeric_limits<double>::infinity();
  if (auto done = TrainingResult(backend_.ClipScale(sum, largest, scale_.Floats())); !done) {
    return done;
  }
  for (int unit = 0; unit <= root; ++unit) {
    const auto at = static_cast<std::size_t>(unit);
    void* copy = copy_[at].Taken() ? copy_[at].At(0) : nullptr;
    if (auto done = TrainingResult(
            backend_.AdamW(options_.adam, step_ + 1, gradient_[at].Floats(), scale_.Floats(),
                           master_[at].Floats(), m_[at].Floats(), v_[at].Floats(), copy,
                           options_.shape.compute, UnitElements(parameters_, unit)));
        !done) {
      return done;
    }
  }
  double squares = 0;
  auto done = TrainingResult(backend_.Download(&squares, sum, sizeof squares));
  norm = std::sqrt(squares);
  return done;
}

Result<UnshardedStep> UnshardedModel::Step(Deadline deadline) {
  UnshardedStep step;
  for (int rank = 0; rank < ranks_; ++rank) {
    for (int micro_batch = 0; micro_batch < options_.micro_batches; ++micro_batch) {
      if (deadline.Passed()) {
        return Error{ErrorCode::kTimedOut, "the unsharded model did not end by its deadline", ""};
      }
      float loss = 0;
      if (auto done = AddMicroBatch(MicroBatch(options_, step_, micro_batch, rank, ranks_),
                                    rank == 0 && micro_batch == 0, loss);
          !done) {
        return done.error();
      }
      step.losses.push_back(loss);
    }
  }
  if (auto done = Optimize(step.gradient_norm); !done) {
    return done.error();
  }
  backend_.ForgetMarks();
  ++step_;
  return step;
}

}  // namespace dlc

#include "probes/node/resume/train_steps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/memory_claims.h"
#include "probes/node/unique_fd.h"

namespace dlc {

Result<std::unique_ptr<ShardedModel>> OpenForTraining(const TrainingRanks& ranks,
                                                      const TrainingOptions& options,
                                                      Deadline deadline) {
  auto done = TrainingResult(ranks.backend.PrepareModel(options.shape));
  std::unique_ptr<ShardedModel> model;
  if (done) {
    auto opened = ShardedModel::Open(ranks.backend, ranks.collectives, options);
    if (opened) {
      model = std::move(opened).value();
    } else {
      done = opened.error();
    }
  }
  if (auto good = AgreeOnErrors(ranks.exchange, done, deadline); !good) {
    return good.error();
  }
  return model;
}

Result<void> TrainSteps(const TrainingRanks& ranks, ShardedModel& model, int steps,
                        Deadline deadline, std::vector<double>& losses) {
  for (int step = 0; step < steps; ++step) {
    ranks.say("step " + std::to_string(step + 1) + " of " + std::to_string(steps));
    auto seen = model.Step(deadline);
    if (!seen) {
      ranks.collectives.Abort();
      return std::move(seen).error();
    }
    double loss = 0;
    for (const float one : seen->losses) {
      loss += static_cast<double>(one) / static_cast<double>(seen->losses.size());
    }
    // All ranks have the same norm, and a loss that is not finite has made it so too.
    if (!std::isfinite(loss) || !std::isfinite(seen->gradient_norm)) {
      return Error{ErrorCode::kUnavailable,
                   "the loss of step " + std::to_string(step + 1) + " of " + std::to_string(steps) +
                       " is not finite, or its gradients are not",
                   ""};
    }
    losses.push_back(loss);
  }
  return {};
}

Result<void> FlipBitOf(TrainingBackend& backend, float* value) {
  std::uint32_t bits = 0;
  if (auto done = TrainingResult(backend.Download(&bits, value, sizeof bits)); !done) {
    return done;
  }
  bits ^= 1U;
  return TrainingResult(backend.Upload(value, &bits, sizeof bits));
}

Result<void> CorruptFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  char byte = 0;
  if (!fd || fstat(fd.get(), &info) != 0 || pread(fd.get(), &byte, 1, info.st_size / 2) != 1) {
    return Error{ErrorCode::kUnavailable, "cannot plant corrupt-shard in " + path, ""};
  }
  byte = static_cast<char>(byte ^ 1);
  return pwrite(fd.get(), &byte, 1, info.st_size / 2) == 1 && fsync(fd.get()) == 0
             ? Result<void>()
             : Error{ErrorCode::kUnavailable, "cannot plant corrupt-shard in " + path, ""};
}

}  // namespace dlc

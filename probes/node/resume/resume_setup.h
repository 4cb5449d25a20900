#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "probes/node/fsdp/training_options.h"
#include "probes/observations/deadline.h"

namespace dlc {

struct ResumeSetup {
  explicit ResumeSetup(Deadline until) : deadline(until) {}

  TrainingOptions options;  ///< steps: all of them, before the save and after it
  int saved_after = 0;      ///< steps
  std::string run_id;
  std::string path;       ///< of the shared storage
  std::string directory;  ///< of this run below it; may be made
  std::string model;      ///< what it is called
  std::int64_t most_reshard_bytes = 0;
  std::chrono::milliseconds visible_within{0};  ///< as the parameters'
  /// Planted on this rank: "flip-bit" (in what is written, or in what was loaded), "corrupt-shard"
  /// (in the file, after the manifest), "lost-moments", "stale-step" (after the load); else empty.
  std::string fault;
  Deadline deadline;

  std::string Root() const { return directory + "/checkpoint"; }
};

/// In the manifest beside it: the data's place follows from the step, random numbers from the seed.
inline constexpr std::string_view kSeedKey = "seed";
inline constexpr std::string_view kAdamStepKey = "adamStep";
inline constexpr std::string_view kMicroBatchKey = "nextMicroBatch";
inline constexpr std::string_view kModelKey = "model";
inline constexpr std::string_view kHashKeyPrefix = "hash.";  ///< and the tensor's name

}  // namespace dlc

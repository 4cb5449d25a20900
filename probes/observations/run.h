#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/observed.h"

namespace dlc {

/// Order is the order of execution.
enum class Stage : std::uint8_t { kImage, kGpu, kNccl, kFsdp, kCheckpoint };
inline constexpr int kStageCount = 5;
/// "image", "gpu", "nccl", "fsdp", "checkpoint".
const char* StageName(Stage stage);
Result<Stage> ParseStage(std::string_view name);

/// A file that went into the run, by its raw bytes.
struct InputFile {
  std::string
      role;  ///< "policy", "config", "manifest", "pods", "job-code", "workload-config", "ca", ...
  std::string name;  ///< as the user named it
  Digest digest;
  std::int64_t size_bytes = 0;

  bool operator==(const InputFile&) const = default;
};

/// The training job as the config tells it. 0 means not stated.
struct Workload {
  std::string model;
  int workers = 0;  ///< Ray Train's num_workers, one GPU each unless gpus_per_worker says otherwise
  int gpus_per_worker = 0;
  int nodes = 0;
  int steps = 0;

  bool operator==(const Workload&) const = default;
};

/// This run: what makes two runs comparable.
struct RunFacts {
  std::string id;          ///< 16 hex digits, random
  std::string mode;        ///< "live" | "files" (cluster facts from files) | "replay"
  std::string started_at;  ///< RFC 3339, UTC, seconds, "Z"
  std::string finished_at;
  std::string tool_version;
  std::string tool_commit;              ///< empty when not built from a checkout
  Digest tool_digest;                   ///< of the running binary
  std::vector<std::string> invocation;  ///< argv; secrets never come by argv
  std::vector<Stage> stages;            ///< selected, in order
  std::vector<InputFile> inputs;
  Workload workload;
  bool interrupted = false;

  bool operator==(const RunFacts&) const = default;
};

}  // namespace dlc

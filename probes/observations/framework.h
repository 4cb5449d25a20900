#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/fsdp_model.h"
#include "probes/observations/nccl.h"
#include "probes/observations/observed.h"

namespace dlc {

/// AdamW's numbers as the native engine has them, each the double that its float is.
struct FrameworkAdam {
  double rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;

  bool operator==(const FrameworkAdam&) const = default;
};

/// What train_framework.py is given, the same for all ranks but for `listen_fd`.
struct FrameworkJob {
  std::string engine;          ///< "torch", "deepspeed"
  std::string strategy;        ///< "fsdp2", "fsdp1", "zero3"
  std::string device;          ///< "cpu": float32, Gloo; "cuda": bfloat16, NCCL
  std::string implementation;  ///< "transformers", "own"; empty: the first where it is there
  FsdpModel model;             ///< with its sizes
  std::int64_t seed = 0;       ///< of the tokens
  std::int64_t weight_seed = 0;
  double weight_spread = 0;
  std::int64_t rows = 0;
  std::int64_t sequence = 0;
  int micro_batches = 0;
  int steps = 0;       ///< before the checkpoint
  int more_steps = 0;  ///< after it, in the process that saved it and in the one that loads it
  double clip_norm = 0;
  FrameworkAdam adam;
  std::string directory;           ///< of the checkpoint; empty: none
  bool resume = false;             ///< load it, and do the steps after it
  bool without_optimizer = false;  ///< a planted fault: the model alone is loaded
  /// Ranks meet at a store of their own, and not as torchrun arranged it.
  bool own_store = false;
  int listen_fd = 0;           ///< rank 0's socket at MASTER_PORT, which listens already
  double timeout_seconds = 0;  ///< of a collective

  bool operator==(const FrameworkJob&) const = default;
};

/// One step of training by the framework, on one rank.
struct FrameworkStep {
  double loss = 0;           ///< mean over this rank's micro-batches
  double gradient_norm = 0;  ///< of the mean over ranks, before it is clipped
  bool finite = false;       ///< both; what is not is written as 0
  double seconds = 0;

  bool operator==(const FrameworkStep&) const = default;
};

/// What the program says that it did. Where a package is missing, nothing but that.
struct FrameworkRun {
  std::int64_t process = 0;
  int ranks = 0;
  std::map<std::string, std::string> versions;  ///< "python", "torch", "transformers", ...
  std::string missing;                          ///< a package that the engine needs; empty: none
  std::string backend;                          ///< "gloo", "nccl"
  std::string device;                           ///< the GPU's name
  std::string implementation;                   ///< of the model: "transformers", "own"
  std::string compute;                          ///< "float32", "bfloat16"
  std::int64_t parameters = 0;
  std::vector<FrameworkStep> steps;       ///< before the checkpoint
  std::vector<FrameworkStep> more_steps;  ///< after it
  double save_seconds = 0;
  double load_seconds = 0;
  /// sha256 of this rank's shards of parameters and optimizer, as saved or as loaded.
  std::string state_hash;

  bool operator==(const FrameworkRun&) const = default;
};

/// One process of the framework, on one rank.
struct FrameworkProcess {
  std::string name;  ///< "train"; "resume": from the checkpoint of the first
  std::string host;  ///< where Ray Train put it; empty: the rank's own
  /// "finished", "exited", "killed", "timed-out", "not-started"; "stopped": by us, as another
  /// rank's had ended. Of Ray Train's workers also "raised": their train loop or Ray Train itself,
  /// an exception; "lost": Ray lost the worker and does not know how it ended.
  std::string how;
  int exit_code = 0;
  std::string signal_name;
  bool out_of_memory = false;  ///< the cgroup counted an OOM kill meanwhile
  double seconds = 0;
  std::string last_progress;
  std::string
      last_words;  ///< of its stderr: the exception that a traceback ends in, or a last line
  std::vector<std::string> output_tail;  ///< the last lines of stdout and stderr, where it failed
  Observed<FrameworkRun> seen;
  /// Of its own NCCL; not looked at where it was to train on the CPU.
  Observed<NcclLog> nccl_log;
  Digest nccl_log_digest;  ///< of the raw log; empty where a worker of Ray Train told it

  bool operator==(const FrameworkProcess&) const = default;
};

/// `fsdp-framework` on one rank.
struct FrameworkExperiment {
  /// What started its processes: "ray-train", Ray Train's TorchTrainer; empty: dlc-probe, on the
  /// rank, as torchrun would.
  std::string launcher;
  std::string python;  ///< as asked for
  std::string engine;
  std::string strategy;
  std::string backend;  ///< "cpu", "cuda"
  std::string model;
  std::int64_t rows = 0;
  std::int64_t sequence = 0;
  int micro_batches = 0;
  int steps = 0;
  int more_steps = 0;
  std::string checkpoint;  ///< the directory; empty: none was asked for
  std::vector<FrameworkProcess> processes;

  bool operator==(const FrameworkExperiment&) const = default;
};

}  // namespace dlc

#pragma once

#include <cstdint>
#include <string>

#include "probes/node/fsdp/train_and_compare.h"
#include "probes/node/resume/resume_setup.h"
#include "probes/observations/checkpoint.h"

namespace dlc {

/// Trains setup.saved_after steps, saves all ranks' state with a manifest, trains as many steps
/// more, and has damaged sets refused. All ranks together.
void SaveAndContinue(const TrainingRanks& ranks, const ResumeSetup& setup, CheckpointSave& seen);

/// Loads what SaveAndContinue saved, as the rank that it is in `ranks`, holds it against what was
/// in memory then, cuts it for other numbers of ranks, and trains on. All ranks together, in
/// processes that have trained nothing.
void LoadAndResume(const TrainingRanks& ranks, const ResumeSetup& setup, CheckpointLoad& seen);

}  // namespace dlc

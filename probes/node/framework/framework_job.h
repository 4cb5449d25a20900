#pragma once

#include <string>

#include "probes/observations/framework.h"
#include "probes/observations/plan.h"
#include "probes/observations/result.h"

namespace dlc {

/// Whether a step can be done with these parameters; names what cannot.
Result<void> CheckFsdpFramework(const FsdpFrameworkParameters& parameters);

/// Here and below `fault` is what is planted on the rank: "wrong-seed" (of its tokens),
/// "lost-moments" (the resumed process loads the model alone); others change nothing.

/// What the native engine trains, in the program's words, whoever starts it. `directory` of the
/// checkpoint; empty: none.
FrameworkJob FrameworkJobOf(const FsdpFrameworkParameters& parameters, const std::string& directory,
                            const std::string& fault);
/// Of the process that resumes from the checkpoint of that one.
FrameworkJob ResumedFrameworkJob(FrameworkJob job, const std::string& fault);

/// An experiment that does them, before its first process.
FrameworkExperiment FrameworkExperimentOf(const FsdpFrameworkParameters& parameters,
                                          const FrameworkJob& job);

}  // namespace dlc

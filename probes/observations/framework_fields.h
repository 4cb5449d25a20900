#pragma once

#include "probes/observations/framework.h"
#include "probes/observations/json_fields.h"
#include "probes/observations/nccl_fields.h"

/// The tables of what the framework is asked for and of what it tells. Part of ranks_fields.h, and
/// private like it.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<FrameworkAdam> { static constexpr Field kFields[] = {
    F<&FrameworkAdam::rate>("rate"),
    F<&FrameworkAdam::beta1>("beta1"),
    F<&FrameworkAdam::beta2>("beta2"),
    F<&FrameworkAdam::epsilon>("epsilon"),
    F<&FrameworkAdam::weight_decay>("weightDecay")}; };
template <> struct FieldsOf<FsdpModel> { static constexpr Field kFields[] = {
    F<&FsdpModel::name>("name"),
    F<&FsdpModel::hidden>("hidden"),
    F<&FsdpModel::layers>("layers"),
    F<&FsdpModel::heads>("heads"),
    F<&FsdpModel::kv_heads>("kvHeads"),
    F<&FsdpModel::head_size>("headSize"),
    F<&FsdpModel::intermediate>("intermediate"),
    F<&FsdpModel::vocabulary>("vocabulary"),
    F<&FsdpModel::rope_theta>("ropeTheta"),
    F<&FsdpModel::rms_epsilon>("rmsEpsilon"),
    F<&FsdpModel::tied_embedding>("tiedEmbedding")}; };
template <> struct FieldsOf<FrameworkJob> { static constexpr Field kFields[] = {
    F<&FrameworkJob::engine>("engine"),
    F<&FrameworkJob::strategy>("strategy"),
    F<&FrameworkJob::device>("device"),
    F<&FrameworkJob::implementation>("implementation"),
    F<&FrameworkJob::model>("model"),
    F<&FrameworkJob::seed>("seed"),
    F<&FrameworkJob::weight_seed>("weightSeed"),
    F<&FrameworkJob::weight_spread>("weightSpread"),
    F<&FrameworkJob::rows>("rows"),
    F<&FrameworkJob::sequence>("sequence"),
    F<&FrameworkJob::micro_batches>("microBatches"),
    F<&FrameworkJob::steps>("steps"),
    F<&FrameworkJob::more_steps>("moreSteps"),
    F<&FrameworkJob::clip_norm>("clipNorm"),
    F<&FrameworkJob::adam>("adam"),
    F<&FrameworkJob::directory>("directory"),
    F<&FrameworkJob::resume>("resume"),
    F<&FrameworkJob::without_optimizer>("withoutOptimizer"),
    F<&FrameworkJob::own_store>("ownStore"),
    F<&FrameworkJob::listen_fd>("listenFd"),
    F<&FrameworkJob::timeout_seconds>("timeoutSeconds")}; };
template <> struct FieldsOf<FrameworkStep> { static constexpr Field kFields[] = {
    F<&FrameworkStep::loss>("loss"),
    F<&FrameworkStep::gradient_norm>("gradientNorm"),
    F<&FrameworkStep::finite>("finite"),
    F<&FrameworkStep::seconds>("seconds")}; };
template <> struct FieldsOf<FrameworkRun> { static constexpr Field kFields[] = {
    F<&FrameworkRun::process>("process"),
    F<&FrameworkRun::ranks>("ranks"),
    F<&FrameworkRun::versions>("versions"),
    F<&FrameworkRun::missing>("missing"),
    F<&FrameworkRun::backend>("backend"),
    F<&FrameworkRun::device>("device"),
    F<&FrameworkRun::implementation>("implementation"),
    F<&FrameworkRun::compute>("compute"),
    F<&FrameworkRun::parameters>("parameters"),
    F<&FrameworkRun::steps>("steps"),
    F<&FrameworkRun::more_steps>("moreSteps"),
    F<&FrameworkRun::save_seconds>("saveSeconds"),
    F<&FrameworkRun::load_seconds>("loadSeconds"),
    F<&FrameworkRun::state_hash>("stateHash")}; };
template <> struct FieldsOf<FrameworkProcess> { static constexpr Field kFields[] = {
    F<&FrameworkProcess::name>("name"),
    F<&FrameworkProcess::host>("host"),
    F<&FrameworkProcess::how>("how"),
    F<&FrameworkProcess::exit_code>("exitCode"),
    F<&FrameworkProcess::signal_name>("signalName"),
    F<&FrameworkProcess::out_of_memory>("outOfMemory"),
    F<&FrameworkProcess::seconds>("seconds"),
    F<&FrameworkProcess::last_progress>("lastProgress"),
    F<&FrameworkProcess::last_words>("lastWords"),
    F<&FrameworkProcess::output_tail>("outputTail"),
    F<&FrameworkProcess::seen>("seen"),
    F<&FrameworkProcess::nccl_log>("ncclLog"),
    F<&FrameworkProcess::nccl_log_digest>("ncclLogDigest")}; };
template <> struct FieldsOf<FrameworkExperiment> { static constexpr Field kFields[] = {
    F<&FrameworkExperiment::launcher>("launcher"),
    F<&FrameworkExperiment::python>("python"),
    F<&FrameworkExperiment::engine>("engine"),
    F<&FrameworkExperiment::strategy>("strategy"),
    F<&FrameworkExperiment::backend>("backend"),
    F<&FrameworkExperiment::model>("model"),
    F<&FrameworkExperiment::rows>("rows"),
    F<&FrameworkExperiment::sequence>("sequence"),
    F<&FrameworkExperiment::micro_batches>("microBatches"),
    F<&FrameworkExperiment::steps>("steps"),
    F<&FrameworkExperiment::more_steps>("moreSteps"),
    F<&FrameworkExperiment::checkpoint>("checkpoint"),
    F<&FrameworkExperiment::processes>("processes")}; };
// clang-format on

}  // namespace dlc::wire

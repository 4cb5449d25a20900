#pragma once

#include "probes/observations/fabric_fields.h"
#include "probes/observations/fsdp.h"
#include "probes/observations/json_fields.h"

/// The tables of what ranks see of sharded models. Part of ranks_fields.h, and private like it.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<FsdpWrongElement> { static constexpr Field kFields[] = {
    F<&FsdpWrongElement::where>("where"), F<&FsdpWrongElement::owner>("owner"),
    F<&FsdpWrongElement::parameter>("parameter"), F<&FsdpWrongElement::row>("row"),
    F<&FsdpWrongElement::column>("column"), F<&FsdpWrongElement::expected>("expected"),
    F<&FsdpWrongElement::found>("found")}; };
template <> struct FieldsOf<FsdpControl> { static constexpr Field kFields[] = {
    F<&FsdpControl::name>("name"), F<&FsdpControl::planted>("planted"),
    F<&FsdpControl::caught>("caught")}; };
template <> struct FieldsOf<FsdpLayoutProof> { static constexpr Field kFields[] = {
    F<&FsdpLayoutProof::model>("model"), F<&FsdpLayoutProof::layout>("layout"),
    F<&FsdpLayoutProof::shard_ranks>("shardRanks"), F<&FsdpLayoutProof::copies>("copies"),
    F<&FsdpLayoutProof::type>("type"), F<&FsdpLayoutProof::units>("units"),
    F<&FsdpLayoutProof::moved_units>("movedUnits"), F<&FsdpLayoutProof::whole_units>("wholeUnits"),
    F<&FsdpLayoutProof::model_elements>("modelElements"),
    F<&FsdpLayoutProof::moved_elements>("movedElements"),
    F<&FsdpLayoutProof::filling_elements>("fillingElements"),
    F<&FsdpLayoutProof::compared_elements>("comparedElements"),
    F<&FsdpLayoutProof::wrong_elements>("wrongElements"),
    F<&FsdpLayoutProof::first_wrong>("firstWrong"), F<&FsdpLayoutProof::all_gathers>("allGathers"),
    F<&FsdpLayoutProof::reduce_scatters>("reduceScatters"),
    F<&FsdpLayoutProof::all_reduces>("allReduces"), F<&FsdpLayoutProof::sent_bytes>("sentBytes"),
    F<&FsdpLayoutProof::expected_bytes>("expectedBytes"),
    F<&FsdpLayoutProof::step_bytes_bfloat16>("stepBytesBfloat16"),
    F<&FsdpLayoutProof::step_bytes_float32>("stepBytesFloat32"),
    F<&FsdpLayoutProof::controls>("controls"), F<&FsdpLayoutProof::seconds>("seconds")}; };
template <> struct FieldsOf<FsdpLayoutExperiment> { static constexpr Field kFields[] = {
    F<&FsdpLayoutExperiment::library>("library"), F<&FsdpLayoutExperiment::place>("place"),
    F<&FsdpLayoutExperiment::proofs>("proofs"),
    F<&FsdpLayoutExperiment::stopped_by>("stoppedBy")}; };
template <> struct FieldsOf<FsdpTrainingStep> { static constexpr Field kFields[] = {
    F<&FsdpTrainingStep::loss>("loss"),
    F<&FsdpTrainingStep::gradient_norm>("gradientNorm"),
    F<&FsdpTrainingStep::finite>("finite"),
    F<&FsdpTrainingStep::seconds>("seconds"),
    F<&FsdpTrainingStep::exposed_seconds>("exposedSeconds"),
    F<&FsdpTrainingStep::optimizer_seconds>("optimizerSeconds"),
    F<&FsdpTrainingStep::sent_bytes>("sentBytes")}; };
template <> struct FieldsOf<FsdpComparison> { static constexpr Field kFields[] = {
    F<&FsdpComparison::what>("what"),
    F<&FsdpComparison::worst>("worst"),
    F<&FsdpComparison::elements>("elements"),
    F<&FsdpComparison::different>("different"),
    F<&FsdpComparison::not_finite>("notFinite"),
    F<&FsdpComparison::error>("error"),
    F<&FsdpComparison::bound>("bound")}; };
template <> struct FieldsOf<FsdpPrediction> { static constexpr Field kFields[] = {
    F<&FsdpPrediction::model>("model"),
    F<&FsdpPrediction::bytes_per_rank>("bytesPerRank"),
    F<&FsdpPrediction::seconds>("seconds")}; };
template <> struct FieldsOf<FsdpTrainingRun> { static constexpr Field kFields[] = {
    F<&FsdpTrainingRun::name>("name"),
    F<&FsdpTrainingRun::model>("model"),
    F<&FsdpTrainingRun::compute>("compute"),
    F<&FsdpTrainingRun::gradients>("gradients"),
    F<&FsdpTrainingRun::ranks>("ranks"),
    F<&FsdpTrainingRun::rows>("rows"),
    F<&FsdpTrainingRun::sequence>("sequence"),
    F<&FsdpTrainingRun::micro_batches>("microBatches"),
    F<&FsdpTrainingRun::parameters>("parameters"),
    F<&FsdpTrainingRun::padding>("padding"),
    F<&FsdpTrainingRun::needed_bytes>("neededBytes"),
    F<&FsdpTrainingRun::taken_bytes>("takenBytes"),
    F<&FsdpTrainingRun::free_bytes>("freeBytes"),
    F<&FsdpTrainingRun::not_looked_at>("notLookedAt"),
    F<&FsdpTrainingRun::expected_bytes>("expectedBytes"),
    F<&FsdpTrainingRun::steps>("steps"),
    F<&FsdpTrainingRun::own>("own"),
    F<&FsdpTrainingRun::reference>("reference"),
    F<&FsdpTrainingRun::reference_seconds>("referenceSeconds"),
    F<&FsdpTrainingRun::explanation>("explanation"),
    F<&FsdpTrainingRun::hash>("hash"),
    F<&FsdpTrainingRun::controls>("controls")}; };
template <> struct FieldsOf<FsdpTrainingExperiment> { static constexpr Field kFields[] = {
    F<&FsdpTrainingExperiment::backend>("backend"),
    F<&FsdpTrainingExperiment::device>("device"),
    F<&FsdpTrainingExperiment::transport>("transport"),
    F<&FsdpTrainingExperiment::runs>("runs"),
    F<&FsdpTrainingExperiment::gather_bytes_per_second>("gatherBytesPerSecond"),
    F<&FsdpTrainingExperiment::reduce_bytes_per_second>("reduceBytesPerSecond"),
    F<&FsdpTrainingExperiment::predictions>("predictions"),
    F<&FsdpTrainingExperiment::stopped_by>("stoppedBy")}; };
// clang-format on

}  // namespace dlc::wire

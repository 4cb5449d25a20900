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
// clang-format on

}  // namespace dlc::wire

#pragma once

#include "probes/observations/checkpoint.h"
#include "probes/observations/json_fields.h"

// The JSON names of probes/observations/checkpoint.h.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<CheckpointRefusal> { static constexpr Field kFields[] = {
    F<&CheckpointRefusal::name>("name"),
    F<&CheckpointRefusal::planted>("planted"),
    F<&CheckpointRefusal::caught>("caught"),
    F<&CheckpointRefusal::found>("found")}; };
template <> struct FieldsOf<CheckpointTraining> { static constexpr Field kFields[] = {
    F<&CheckpointTraining::backend>("backend"),
    F<&CheckpointTraining::device>("device"),
    F<&CheckpointTraining::transport>("transport"),
    F<&CheckpointTraining::model>("model"),
    F<&CheckpointTraining::ranks>("ranks"),
    F<&CheckpointTraining::parameters>("parameters"),
    F<&CheckpointTraining::process>("process")}; };
template <> struct FieldsOf<CheckpointSave> { static constexpr Field kFields[] = {
    F<&CheckpointSave::training>("training"),
    F<&CheckpointSave::not_looked_at>("notLookedAt"),
    F<&CheckpointSave::refused>("refused"),
    F<&CheckpointSave::strategy>("strategy"),
    F<&CheckpointSave::notes>("notes"),
    F<&CheckpointSave::step>("step"),
    F<&CheckpointSave::hash>("hash"),
    F<&CheckpointSave::tensors>("tensors"),
    F<&CheckpointSave::bytes>("bytes"),
    F<&CheckpointSave::published>("published"),
    F<&CheckpointSave::seconds>("seconds"),
    F<&CheckpointSave::source_seconds>("sourceSeconds"),
    F<&CheckpointSave::write_seconds>("writeSeconds"),
    F<&CheckpointSave::fsync_seconds>("fsyncSeconds"),
    F<&CheckpointSave::publish_seconds>("publishSeconds"),
    F<&CheckpointSave::losses>("losses"),
    F<&CheckpointSave::continued_hash>("continuedHash"),
    F<&CheckpointSave::refusals>("refusals"),
    F<&CheckpointSave::stopped_by>("stoppedBy")}; };
template <> struct FieldsOf<CheckpointReshard> { static constexpr Field kFields[] = {
    F<&CheckpointReshard::ranks>("ranks"),
    F<&CheckpointReshard::hash>("hash"),
    F<&CheckpointReshard::error>("error")}; };
template <> struct FieldsOf<CheckpointLoad> { static constexpr Field kFields[] = {
    F<&CheckpointLoad::training>("training"),
    F<&CheckpointLoad::not_looked_at>("notLookedAt"),
    F<&CheckpointLoad::role>("role"),
    F<&CheckpointLoad::other_node>("otherNode"),
    F<&CheckpointLoad::step>("step"),
    F<&CheckpointLoad::bytes>("bytes"),
    F<&CheckpointLoad::seconds>("seconds"),
    F<&CheckpointLoad::cold_because>("coldBecause"),
    F<&CheckpointLoad::resident_fraction>("residentFraction"),
    F<&CheckpointLoad::refused>("refused"),
    F<&CheckpointLoad::hash>("hash"),
    F<&CheckpointLoad::wrong>("wrong"),
    F<&CheckpointLoad::wrong_tensors>("wrongTensors"),
    F<&CheckpointLoad::reshards>("reshards"),
    F<&CheckpointLoad::reshard_not_looked_at>("reshardNotLookedAt"),
    F<&CheckpointLoad::losses>("losses"),
    F<&CheckpointLoad::resumed_hash>("resumedHash"),
    F<&CheckpointLoad::stopped_by>("stoppedBy")}; };
// clang-format on

}  // namespace dlc::wire

#pragma once

#include "probes/observations/checkpoint_fields.h"
#include "probes/observations/fabric_fields.h"
#include "probes/observations/framework_fields.h"
#include "probes/observations/fsdp_fields.h"
#include "probes/observations/gpu_fields.h"
#include "probes/observations/json_fields.h"
#include "probes/observations/nccl_fields.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"
#include "probes/observations/storage.h"

/// The tables of what ranks see and of the plan that they follow. Private to the targets
/// observations_json and observations_ranks_json.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<MountFacts> { static constexpr Field kFields[] = {
    F<&MountFacts::mount_point>("mountPoint"), F<&MountFacts::source>("source"),
    F<&MountFacts::filesystem>("filesystem"), F<&MountFacts::root>("root"),
    F<&MountFacts::options>("options"), F<&MountFacts::device>("device"),
    F<&MountFacts::read_only>("readOnly")}; };
template <> struct FieldsOf<SpaceFacts> { static constexpr Field kFields[] = {
    F<&SpaceFacts::total_bytes>("totalBytes"), F<&SpaceFacts::available_bytes>("availableBytes"),
    F<&SpaceFacts::total_inodes>("totalInodes"),
    F<&SpaceFacts::available_inodes>("availableInodes")}; };
template <> struct FieldsOf<FileOperation> { static constexpr Field kFields[] = {
    F<&FileOperation::name>("name"), F<&FileOperation::error>("error"),
    F<&FileOperation::detail>("detail")}; };
template <> struct FieldsOf<PeerFile> { static constexpr Field kFields[] = {
    F<&PeerFile::rank>("rank"), F<&PeerFile::host>("host"), F<&PeerFile::node>("node"),
    F<&PeerFile::state>("state"), F<&PeerFile::error>("error"), F<&PeerFile::seconds>("seconds"),
    F<&PeerFile::attempts>("attempts"), F<&PeerFile::stale_handles>("staleHandles"),
    F<&PeerFile::exclusive_create>("exclusiveCreate")}; };
template <> struct FieldsOf<StorageShared> { static constexpr Field kFields[] = {
    F<&StorageShared::path>("path"), F<&StorageShared::uid>("uid"), F<&StorageShared::gid>("gid"),
    F<&StorageShared::mount>("mount"), F<&StorageShared::space>("space"),
    F<&StorageShared::directory_uid>("directoryUid"), F<&StorageShared::directory_gid>("directoryGid"),
    F<&StorageShared::directory_mode>("directoryMode"), F<&StorageShared::file_uid>("fileUid"),
    F<&StorageShared::operations>("operations"), F<&StorageShared::peers>("peers"),
    F<&StorageShared::leftovers>("leftovers")}; };
template <> struct FieldsOf<StorageQuarter> { static constexpr Field kFields[] = {
    F<&StorageQuarter::bytes>("bytes"), F<&StorageQuarter::seconds>("seconds")}; };
template <> struct FieldsOf<StorageTransfer> { static constexpr Field kFields[] = {
    F<&StorageTransfer::direction>("direction"), F<&StorageTransfer::bytes>("bytes"),
    F<&StorageTransfer::block_bytes>("blockBytes"), F<&StorageTransfer::direct>("direct"),
    F<&StorageTransfer::start_seconds>("startSeconds"), F<&StorageTransfer::seconds>("seconds"),
    F<&StorageTransfer::cold_because>("coldBecause"),
    F<&StorageTransfer::resident_fraction>("residentFraction"), F<&StorageTransfer::error>("error"),
    F<&StorageTransfer::detail>("detail"), F<&StorageTransfer::alone>("alone"),
    F<&StorageTransfer::sync_seconds>("syncSeconds"),
    F<&StorageTransfer::quarters>("quarters")}; };
template <> struct FieldsOf<StorageMetadataPhase> { static constexpr Field kFields[] = {
    F<&StorageMetadataPhase::name>("name"), F<&StorageMetadataPhase::asked>("asked"),
    F<&StorageMetadataPhase::done>("done"),
    F<&StorageMetadataPhase::start_seconds>("startSeconds"),
    F<&StorageMetadataPhase::seconds>("seconds"),
    F<&StorageMetadataPhase::other_node>("otherNode"), F<&StorageMetadataPhase::error>("error"),
    F<&StorageMetadataPhase::detail>("detail")}; };
template <> struct FieldsOf<StorageSpeed> { static constexpr Field kFields[] = {
    F<&StorageSpeed::path>("path"), F<&StorageSpeed::transfers>("transfers"),
    F<&StorageSpeed::leftovers>("leftovers"), F<&StorageSpeed::mount>("mount"),
    F<&StorageSpeed::space>("space"), F<&StorageSpeed::metadata>("metadata")}; };
template <> struct FieldsOf<ShardFile> { static constexpr Field kFields[] = {
    F<&ShardFile::name>("name"), F<&ShardFile::rank>("rank"), F<&ShardFile::size_bytes>("sizeBytes"),
    F<&ShardFile::digest>("digest"), F<&ShardFile::part>("part"),
    F<&ShardFile::modified_at_ns>("modifiedAtNs")}; };
template <> struct FieldsOf<CheckpointTree> { static constexpr Field kFields[] = {
    F<&CheckpointTree::path>("path"), F<&CheckpointTree::kind>("kind"),
    F<&CheckpointTree::directory>("directory"), F<&CheckpointTree::ray>("ray"),
    F<&CheckpointTree::has_metadata>("hasMetadata"),
    F<&CheckpointTree::metadata_bytes>("metadataBytes"),
    F<&CheckpointTree::metadata_digest>("metadataDigest"),
    F<&CheckpointTree::metadata_modified_at_ns>("metadataModifiedAtNs"),
    F<&CheckpointTree::rank_metadata>("rankMetadata"), F<&CheckpointTree::shards>("shards"),
    F<&CheckpointTree::stated_ranks>("statedRanks"), F<&CheckpointTree::unfinished>("unfinished"),
    F<&CheckpointTree::unread>("unread"), F<&CheckpointTree::other_files>("otherFiles"),
    F<&CheckpointTree::other_bytes>("otherBytes"), F<&CheckpointTree::ray_marker>("rayMarker"),
    F<&CheckpointTree::ray_registered>("rayRegistered"),
    F<&CheckpointTree::passed_over>("passedOver"), F<&CheckpointTree::unclear>("unclear"),
    F<&CheckpointTree::hashed_bytes_per_file>("hashedBytesPerFile")}; };
template <> struct FieldsOf<CheckpointView> { static constexpr Field kFields[] = {
    F<&CheckpointView::name>("name"), F<&CheckpointView::tree>("tree")}; };
template <> struct FieldsOf<LeftoverRun> { static constexpr Field kFields[] = {
    F<&LeftoverRun::run_id>("runId"), F<&LeftoverRun::uid>("uid"), F<&LeftoverRun::files>("files"),
    F<&LeftoverRun::bytes>("bytes"), F<&LeftoverRun::counted>("counted"),
    F<&LeftoverRun::quiet_seconds>("quietSeconds"), F<&LeftoverRun::state>("state"),
    F<&LeftoverRun::detail>("detail")}; };
template <> struct FieldsOf<LeftoverRuns> { static constexpr Field kFields[] = {
    F<&LeftoverRuns::path>("path"), F<&LeftoverRuns::runs>("runs")}; };

template <> struct FieldsOf<RankFacts> { static constexpr Field kFields[] = {
    F<&RankFacts::rank>("rank"), F<&RankFacts::size>("size"), F<&RankFacts::local_rank>("localRank"),
    F<&RankFacts::host>("host"), F<&RankFacts::node>("node"), F<&RankFacts::pid>("pid"),
    F<&RankFacts::uid>("uid"), F<&RankFacts::gid>("gid"), F<&RankFacts::kernel>("kernel"),
    F<&RankFacts::libc>("libc"), F<&RankFacts::version>("version")}; };
template <> struct FieldsOf<ExperimentEnd> { static constexpr Field kFields[] = {
    F<&ExperimentEnd::how>("how"), F<&ExperimentEnd::exit_code>("exitCode"),
    F<&ExperimentEnd::signal>("signal"), F<&ExperimentEnd::signal_name>("signalName"),
    F<&ExperimentEnd::out_of_memory>("outOfMemory"), F<&ExperimentEnd::stuck_in_kernel>("stuckInKernel"),
    F<&ExperimentEnd::last_progress>("lastProgress"), F<&ExperimentEnd::seconds>("seconds")}; };
template <class T> struct FieldsOf<ExperimentResult<T>> { static constexpr Field kFields[] = {
    F<&ExperimentResult<T>::step>("step"), F<&ExperimentResult<T>::end>("end"),
    F<&ExperimentResult<T>::seen>("seen")}; };
template <> struct FieldsOf<Meeting> { static constexpr Field kFields[] = {
    F<&Meeting::hosts>("hosts"), F<&Meeting::seconds_per_barrier>("secondsPerBarrier")}; };
template <> struct FieldsOf<PlantedFault> { static constexpr Field kFields[] = {
    F<&PlantedFault::rank>("rank"), F<&PlantedFault::step>("step"), F<&PlantedFault::kind>("kind"),
    F<&PlantedFault::path>("path")}; };
template <> struct FieldsOf<RankObservations> { static constexpr Field kFields[] = {
    F<&RankObservations::facts>("facts"), F<&RankObservations::rendezvous>("rendezvous"),
    F<&RankObservations::planted_faults>("plantedFaults"), F<&RankObservations::meet>("meet"),
    F<&RankObservations::gpu_node>("gpuNode"), F<&RankObservations::gpu_compute>("gpuCompute"),
    F<&RankObservations::fabric_node>("fabricNode"),
    F<&RankObservations::fabric_pairs>("fabricPairs"),
    F<&RankObservations::fabric_collectives>("fabricCollectives"),
    F<&RankObservations::nccl_collectives>("ncclCollectives"),
    F<&RankObservations::fsdp_layout>("fsdpLayout"),
    F<&RankObservations::fsdp_training>("fsdpTraining"),
    F<&RankObservations::fsdp_framework>("fsdpFramework"),
    F<&RankObservations::storage_shared>("storageShared"),
    F<&RankObservations::storage_speed>("storageSpeed"),
    F<&RankObservations::checkpoint_save>("checkpointSave"),
    F<&RankObservations::checkpoint_load>("checkpointLoad"),
    F<&RankObservations::checkpoint_tree>("checkpointTree"),
    F<&RankObservations::leftover_runs>("leftoverRuns"),
    F<&RankObservations::leftovers>("leftovers"), F<&RankObservations::interrupted>("interrupted")}; };
template <> struct FieldsOf<RankReport> { static constexpr Field kFields[] = {
    F<&RankReport::rank>("rank"), F<&RankReport::seen>("seen")}; };
template <> struct FieldsOf<RankRun> { static constexpr Field kFields[] = {
    F<&RankRun::size>("size"), F<&RankRun::launcher>("launcher"),
    F<&RankRun::planted_faults>("plantedFaults"), F<&RankRun::ranks>("ranks")}; };
template <> struct FieldsOf<RankEvent> { static constexpr Field kFields[] = {
    F<&RankEvent::event>("event"), F<&RankEvent::rank>("rank"), F<&RankEvent::step>("step"),
    F<&RankEvent::text>("text")}; };

template <> struct FieldsOf<FabricPairsParameters> { static constexpr Field kFields[] = {
    F<&FabricPairsParameters::provider>("provider"),
    F<&FabricPairsParameters::sizes_bytes>("sizesBytes"),
    F<&FabricPairsParameters::warm_up>("warmUp"),
    F<&FabricPairsParameters::iterations>("iterations"),
    F<&FabricPairsParameters::messages>("messages"),
    F<&FabricPairsParameters::window>("window")}; };
template <> struct FieldsOf<FabricCollectivesParameters> { static constexpr Field kFields[] = {
    F<&FabricCollectivesParameters::provider>("provider"),
    F<&FabricCollectivesParameters::collectives>("collectives"),
    F<&FabricCollectivesParameters::sizes_bytes>("sizesBytes"),
    F<&FabricCollectivesParameters::warm_up>("warmUp"),
    F<&FabricCollectivesParameters::iterations>("iterations")}; };
template <> struct FieldsOf<NcclCollectivesParameters> { static constexpr Field kFields[] = {
    F<&NcclCollectivesParameters::library>("library"),
    F<&NcclCollectivesParameters::settings>("settings"),
    F<&NcclCollectivesParameters::host_id_per_rank>("hostIdPerRank"),
    F<&NcclCollectivesParameters::log_directory>("logDirectory"),
    F<&NcclCollectivesParameters::type>("type"),
    F<&NcclCollectivesParameters::collectives>("collectives"),
    F<&NcclCollectivesParameters::sizes_bytes>("sizesBytes"),
    F<&NcclCollectivesParameters::warm_up>("warmUp"),
    F<&NcclCollectivesParameters::iterations>("iterations")}; };
template <> struct FieldsOf<FsdpLayoutParameters> { static constexpr Field kFields[] = {
    F<&FsdpLayoutParameters::provider>("provider"), F<&FsdpLayoutParameters::models>("models"),
    F<&FsdpLayoutParameters::layouts>("layouts"),
    F<&FsdpLayoutParameters::shard_ranks>("shardRanks"),
    F<&FsdpLayoutParameters::whole_elements>("wholeElements"),
    F<&FsdpLayoutParameters::every_unit>("everyUnit")}; };
template <> struct FieldsOf<FsdpTrainingParameters> { static constexpr Field kFields[] = {
    F<&FsdpTrainingParameters::backend>("backend"),
    F<&FsdpTrainingParameters::library>("library"),
    F<&FsdpTrainingParameters::host_id_per_rank>("hostIdPerRank"),
    F<&FsdpTrainingParameters::provider>("provider"),
    F<&FsdpTrainingParameters::model>("model"),
    F<&FsdpTrainingParameters::rows>("rows"),
    F<&FsdpTrainingParameters::sequence>("sequence"),
    F<&FsdpTrainingParameters::micro_batches>("microBatches"),
    F<&FsdpTrainingParameters::steps>("steps"),
    F<&FsdpTrainingParameters::seed>("seed"),
    F<&FsdpTrainingParameters::compute>("compute"),
    F<&FsdpTrainingParameters::gradients>("gradients"),
    F<&FsdpTrainingParameters::exact>("exact"),
    F<&FsdpTrainingParameters::reference>("reference"),
    F<&FsdpTrainingParameters::predict>("predict"),
    F<&FsdpTrainingParameters::predict_model>("predictModel")}; };
template <> struct FieldsOf<FsdpFrameworkParameters> { static constexpr Field kFields[] = {
    F<&FsdpFrameworkParameters::engine>("engine"),
    F<&FsdpFrameworkParameters::strategy>("strategy"),
    F<&FsdpFrameworkParameters::python>("python"), F<&FsdpFrameworkParameters::path>("path"),
    F<&FsdpFrameworkParameters::more_steps>("moreSteps"),
    F<&FsdpFrameworkParameters::training>("training")}; };
template <> struct FieldsOf<CheckpointTrainingParameters> { static constexpr Field kFields[] = {
    F<&CheckpointTrainingParameters::path>("path"),
    F<&CheckpointTrainingParameters::training>("training"),
    F<&CheckpointTrainingParameters::most_reshard_bytes>("mostReshardBytes"),
    F<&CheckpointTrainingParameters::visible_within_ms>("visibleWithinMs")}; };
template <> struct FieldsOf<GpuComputeParameters> { static constexpr Field kFields[] = {
    F<&GpuComputeParameters::seconds>("seconds"),
    F<&GpuComputeParameters::memory_share>("memoryShare"),
    F<&GpuComputeParameters::plant>("plant")}; };
template <> struct FieldsOf<StorageSharedParameters> { static constexpr Field kFields[] = {
    F<&StorageSharedParameters::path>("path"),
    F<&StorageSharedParameters::visible_within_ms>("visibleWithinMs")}; };
template <> struct FieldsOf<StorageSpeedParameters> { static constexpr Field kFields[] = {
    F<&StorageSpeedParameters::path>("path"), F<&StorageSpeedParameters::file_bytes>("fileBytes"),
    F<&StorageSpeedParameters::block_bytes>("blockBytes"),
    F<&StorageSpeedParameters::direct>("direct"), F<&StorageSpeedParameters::alone>("alone"),
    F<&StorageSpeedParameters::metadata_files>("metadataFiles"),
    F<&StorageSpeedParameters::metadata_seconds>("metadataSeconds")}; };
template <> struct FieldsOf<CheckpointTreeParameters> { static constexpr Field kFields[] = {
    F<&CheckpointTreeParameters::path>("path"),
    F<&CheckpointTreeParameters::hashed_bytes_per_file>("hashedBytesPerFile")}; };
template <> struct FieldsOf<LeftoverRunsParameters> { static constexpr Field kFields[] = {
    F<&LeftoverRunsParameters::path>("path"), F<&LeftoverRunsParameters::remove>("remove"),
    F<&LeftoverRunsParameters::run_id>("runId"),
    F<&LeftoverRunsParameters::quiet_seconds>("quietSeconds")}; };
// clang-format on

}  // namespace dlc::wire

#pragma once

#include "probes/observations/json_fields.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"
#include "probes/observations/storage.h"

/// The tables of what ranks see and of the plan that they follow. Private to the targets
/// observations_json and observations_ranks_json.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<MountFacts> { static constexpr auto kFields = std::tuple{
    Field{"mountPoint", &MountFacts::mount_point}, Field{"source", &MountFacts::source},
    Field{"filesystem", &MountFacts::filesystem}, Field{"root", &MountFacts::root},
    Field{"options", &MountFacts::options}, Field{"device", &MountFacts::device},
    Field{"readOnly", &MountFacts::read_only}}; };
template <> struct FieldsOf<SpaceFacts> { static constexpr auto kFields = std::tuple{
    Field{"totalBytes", &SpaceFacts::total_bytes}, Field{"availableBytes", &SpaceFacts::available_bytes},
    Field{"totalInodes", &SpaceFacts::total_inodes},
    Field{"availableInodes", &SpaceFacts::available_inodes}}; };
template <> struct FieldsOf<FileOperation> { static constexpr auto kFields = std::tuple{
    Field{"name", &FileOperation::name}, Field{"error", &FileOperation::error},
    Field{"detail", &FileOperation::detail}}; };
template <> struct FieldsOf<PeerFile> { static constexpr auto kFields = std::tuple{
    Field{"rank", &PeerFile::rank}, Field{"host", &PeerFile::host}, Field{"node", &PeerFile::node},
    Field{"state", &PeerFile::state}, Field{"error", &PeerFile::error}, Field{"seconds", &PeerFile::seconds},
    Field{"attempts", &PeerFile::attempts}, Field{"staleHandles", &PeerFile::stale_handles},
    Field{"exclusiveCreate", &PeerFile::exclusive_create}}; };
template <> struct FieldsOf<StorageShared> { static constexpr auto kFields = std::tuple{
    Field{"path", &StorageShared::path}, Field{"uid", &StorageShared::uid}, Field{"gid", &StorageShared::gid},
    Field{"mount", &StorageShared::mount}, Field{"space", &StorageShared::space},
    Field{"directoryUid", &StorageShared::directory_uid}, Field{"directoryGid", &StorageShared::directory_gid},
    Field{"directoryMode", &StorageShared::directory_mode}, Field{"fileUid", &StorageShared::file_uid},
    Field{"operations", &StorageShared::operations}, Field{"peers", &StorageShared::peers},
    Field{"leftovers", &StorageShared::leftovers}}; };
template <> struct FieldsOf<StorageTransfer> { static constexpr auto kFields = std::tuple{
    Field{"direction", &StorageTransfer::direction}, Field{"bytes", &StorageTransfer::bytes},
    Field{"blockBytes", &StorageTransfer::block_bytes}, Field{"direct", &StorageTransfer::direct},
    Field{"startSeconds", &StorageTransfer::start_seconds}, Field{"seconds", &StorageTransfer::seconds},
    Field{"coldBecause", &StorageTransfer::cold_because},
    Field{"residentFraction", &StorageTransfer::resident_fraction}, Field{"error", &StorageTransfer::error},
    Field{"detail", &StorageTransfer::detail}}; };
template <> struct FieldsOf<StorageSpeed> { static constexpr auto kFields = std::tuple{
    Field{"path", &StorageSpeed::path}, Field{"transfers", &StorageSpeed::transfers},
    Field{"leftovers", &StorageSpeed::leftovers}}; };
template <> struct FieldsOf<ShardFile> { static constexpr auto kFields = std::tuple{
    Field{"name", &ShardFile::name}, Field{"rank", &ShardFile::rank}, Field{"sizeBytes", &ShardFile::size_bytes},
    Field{"digest", &ShardFile::digest}}; };
template <> struct FieldsOf<CheckpointTree> { static constexpr auto kFields = std::tuple{
    Field{"path", &CheckpointTree::path}, Field{"hasMetadata", &CheckpointTree::has_metadata},
    Field{"metadataBytes", &CheckpointTree::metadata_bytes},
    Field{"metadataDigest", &CheckpointTree::metadata_digest}, Field{"shards", &CheckpointTree::shards},
    Field{"hashedBytesPerFile", &CheckpointTree::hashed_bytes_per_file}}; };

template <> struct FieldsOf<RankFacts> { static constexpr auto kFields = std::tuple{
    Field{"rank", &RankFacts::rank}, Field{"size", &RankFacts::size}, Field{"localRank", &RankFacts::local_rank},
    Field{"host", &RankFacts::host}, Field{"node", &RankFacts::node}, Field{"pid", &RankFacts::pid},
    Field{"uid", &RankFacts::uid}, Field{"gid", &RankFacts::gid}, Field{"kernel", &RankFacts::kernel},
    Field{"libc", &RankFacts::libc}, Field{"version", &RankFacts::version}}; };
template <> struct FieldsOf<ExperimentEnd> { static constexpr auto kFields = std::tuple{
    Field{"how", &ExperimentEnd::how}, Field{"exitCode", &ExperimentEnd::exit_code},
    Field{"signal", &ExperimentEnd::signal}, Field{"signalName", &ExperimentEnd::signal_name},
    Field{"outOfMemory", &ExperimentEnd::out_of_memory}, Field{"stuckInKernel", &ExperimentEnd::stuck_in_kernel},
    Field{"lastProgress", &ExperimentEnd::last_progress}, Field{"seconds", &ExperimentEnd::seconds}}; };
template <class T> struct FieldsOf<ExperimentResult<T>> { static constexpr auto kFields = std::tuple{
    Field{"step", &ExperimentResult<T>::step}, Field{"end", &ExperimentResult<T>::end},
    Field{"seen", &ExperimentResult<T>::seen}}; };
template <> struct FieldsOf<Meeting> { static constexpr auto kFields = std::tuple{
    Field{"hosts", &Meeting::hosts}, Field{"secondsPerBarrier", &Meeting::seconds_per_barrier}}; };
template <> struct FieldsOf<PlantedFault> { static constexpr auto kFields = std::tuple{
    Field{"rank", &PlantedFault::rank}, Field{"step", &PlantedFault::step}, Field{"kind", &PlantedFault::kind},
    Field{"path", &PlantedFault::path}}; };
template <> struct FieldsOf<RankObservations> { static constexpr auto kFields = std::tuple{
    Field{"facts", &RankObservations::facts}, Field{"rendezvous", &RankObservations::rendezvous},
    Field{"plantedFaults", &RankObservations::planted_faults}, Field{"meet", &RankObservations::meet},
    Field{"storageShared", &RankObservations::storage_shared},
    Field{"storageSpeed", &RankObservations::storage_speed},
    Field{"checkpointTree", &RankObservations::checkpoint_tree},
    Field{"leftovers", &RankObservations::leftovers}, Field{"interrupted", &RankObservations::interrupted}}; };
template <> struct FieldsOf<RankReport> { static constexpr auto kFields = std::tuple{
    Field{"rank", &RankReport::rank}, Field{"seen", &RankReport::seen}}; };
template <> struct FieldsOf<RankRun> { static constexpr auto kFields = std::tuple{
    Field{"size", &RankRun::size}, Field{"launcher", &RankRun::launcher}, Field{"ranks", &RankRun::ranks}}; };
template <> struct FieldsOf<RankEvent> { static constexpr auto kFields = std::tuple{
    Field{"event", &RankEvent::event}, Field{"rank", &RankEvent::rank}, Field{"step", &RankEvent::step},
    Field{"text", &RankEvent::text}}; };

template <> struct FieldsOf<StorageSharedParameters> { static constexpr auto kFields = std::tuple{
    Field{"path", &StorageSharedParameters::path},
    Field{"visibleWithinMs", &StorageSharedParameters::visible_within_ms}}; };
template <> struct FieldsOf<StorageSpeedParameters> { static constexpr auto kFields = std::tuple{
    Field{"path", &StorageSpeedParameters::path}, Field{"fileBytes", &StorageSpeedParameters::file_bytes},
    Field{"blockBytes", &StorageSpeedParameters::block_bytes},
    Field{"direct", &StorageSpeedParameters::direct}}; };
template <> struct FieldsOf<CheckpointTreeParameters> { static constexpr auto kFields = std::tuple{
    Field{"path", &CheckpointTreeParameters::path},
    Field{"hashedBytesPerFile", &CheckpointTreeParameters::hashed_bytes_per_file}}; };
// clang-format on

}  // namespace dlc::wire

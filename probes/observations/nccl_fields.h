#pragma once

#include "probes/observations/fabric_fields.h"
#include "probes/observations/json_fields.h"
#include "probes/observations/nccl.h"
#include "probes/observations/nccl_tests.h"

/// The tables of what ranks see of NCCL. Part of ranks_fields.h, and private like it.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<NcclConnections> { static constexpr Field kFields[] = {
    F<&NcclConnections::transport>("transport"), F<&NcclConnections::network>("network"),
    F<&NcclConnections::device>("device"), F<&NcclConnections::detail>("detail"),
    F<&NcclConnections::through_proxy>("throughProxy"), F<&NcclConnections::gpu_direct>("gpuDirect"),
    F<&NcclConnections::forced_pci>("forcedPci"), F<&NcclConnections::shared>("shared"),
    F<&NcclConnections::sends>("sends"), F<&NcclConnections::receives>("receives"),
    F<&NcclConnections::others>("others")}; };
template <> struct FieldsOf<NcclLoggedCommunicator> { static constexpr Field kFields[] = {
    F<&NcclLoggedCommunicator::address>("address"), F<&NcclLoggedCommunicator::rank>("rank"),
    F<&NcclLoggedCommunicator::ranks>("ranks"), F<&NcclLoggedCommunicator::nodes>("nodes"),
    F<&NcclLoggedCommunicator::local_ranks>("localRanks"),
    F<&NcclLoggedCommunicator::complete>("complete")}; };
template <> struct FieldsOf<NcclSetting> { static constexpr Field kFields[] = {
    F<&NcclSetting::name>("name"), F<&NcclSetting::value>("value"),
    F<&NcclSetting::source>("source")}; };
template <> struct FieldsOf<NcclLog> { static constexpr Field kFields[] = {
    F<&NcclLog::bytes>("bytes"), F<&NcclLog::lines>("lines"), F<&NcclLog::processes>("processes"),
    F<&NcclLog::version>("version"), F<&NcclLog::communicators>("communicators"),
    F<&NcclLog::networks>("networks"), F<&NcclLog::connections>("connections"),
    F<&NcclLog::interfaces>("interfaces"), F<&NcclLog::plugin_not_loaded>("pluginNotLoaded"),
    F<&NcclLog::plugin_version>("pluginVersion"),
    F<&NcclLog::libfabric_version>("libfabricVersion"), F<&NcclLog::providers>("providers"),
    F<&NcclLog::fabric>("fabric"), F<&NcclLog::nics>("nics"), F<&NcclLog::protocol>("protocol"),
    F<&NcclLog::dma_buf>("dmaBuf"), F<&NcclLog::plugin_failed>("pluginFailed"),
    F<&NcclLog::gpu_direct_refused>("gpuDirectRefused"), F<&NcclLog::settings>("settings"),
    F<&NcclLog::warnings>("warnings"), F<&NcclLog::damaged_lines>("damagedLines"),
    F<&NcclLog::folded_lines>("foldedLines"),
    F<&NcclLog::unread_connections>("unreadConnections"),
    F<&NcclLog::first_unread>("firstUnread"), F<&NcclLog::cut>("cut"),
    F<&NcclLog::dropped>("dropped")}; };
template <> struct FieldsOf<NcclLibrary> { static constexpr Field kFields[] = {
    F<&NcclLibrary::library>("library"), F<&NcclLibrary::version_code>("versionCode"),
    F<&NcclLibrary::file>("file"), F<&NcclLibrary::found_by>("foundBy")}; };
template <> struct FieldsOf<EfaPortCounters> { static constexpr Field kFields[] = {
    F<&EfaPortCounters::device>("device"), F<&EfaPortCounters::sent_bytes>("sentBytes"),
    F<&EfaPortCounters::received_bytes>("receivedBytes"),
    F<&EfaPortCounters::counters>("counters")}; };
template <> struct FieldsOf<NcclProgress> { static constexpr Field kFields[] = {
    F<&NcclProgress::phase>("phase"), F<&NcclProgress::collective>("collective"),
    F<&NcclProgress::asked_bytes>("askedBytes"), F<&NcclProgress::in_place>("inPlace"),
    F<&NcclProgress::started>("started")}; };
template <> struct FieldsOf<NcclExperiment> { static constexpr Field kFields[] = {
    F<&NcclExperiment::library>("library"), F<&NcclExperiment::gpu_name>("gpuName"),
    F<&NcclExperiment::gpu_pci_address>("gpuPciAddress"), F<&NcclExperiment::measured>("measured"),
    F<&NcclExperiment::reached>("reached"), F<&NcclExperiment::settings>("settings"),
    F<&NcclExperiment::replaced_settings>("replacedSettings"), F<&NcclExperiment::log>("log"),
    F<&NcclExperiment::log_digest>("logDigest"), F<&NcclExperiment::log_file>("logFile"),
    F<&NcclExperiment::mapped_libraries>("mappedLibraries"),
    F<&NcclExperiment::interfaces_before>("interfacesBefore"),
    F<&NcclExperiment::interfaces_after>("interfacesAfter"),
    F<&NcclExperiment::efa_counters_before>("efaCountersBefore"),
    F<&NcclExperiment::efa_counters_after>("efaCountersAfter"),
    F<&NcclExperiment::ras>("ras")}; };
template <> struct FieldsOf<NcclLogFile> { static constexpr Field kFields[] = {
    F<&NcclLogFile::file>("file"), F<&NcclLogFile::digest>("digest"), F<&NcclLogFile::log>("log")}; };
template <> struct FieldsOf<NcclTestsTiming> { static constexpr Field kFields[] = {
    F<&NcclTestsTiming::seconds>("seconds"),
    F<&NcclTestsTiming::algorithm_bandwidth_bytes_per_second>("algorithmBandwidthBytesPerSecond"),
    F<&NcclTestsTiming::bus_bandwidth_bytes_per_second>("busBandwidthBytesPerSecond"),
    F<&NcclTestsTiming::wrong>("wrong")}; };
template <> struct FieldsOf<NcclTestsRow> { static constexpr Field kFields[] = {
    F<&NcclTestsRow::size_bytes>("sizeBytes"), F<&NcclTestsRow::count>("count"),
    F<&NcclTestsRow::type>("type"), F<&NcclTestsRow::op>("op"), F<&NcclTestsRow::root>("root"),
    F<&NcclTestsRow::out_of_place>("outOfPlace"), F<&NcclTestsRow::in_place>("inPlace")}; };
template <> struct FieldsOf<NcclTestsRank> { static constexpr Field kFields[] = {
    F<&NcclTestsRank::rank>("rank"), F<&NcclTestsRank::pid>("pid"), F<&NcclTestsRank::host>("host")}; };
template <> struct FieldsOf<NcclTestsOutput> { static constexpr Field kFields[] = {
    F<&NcclTestsOutput::version>("version"), F<&NcclTestsOutput::collective>("collective"),
    F<&NcclTestsOutput::headers_code>("headersCode"),
    F<&NcclTestsOutput::library_code>("libraryCode"),
    F<&NcclTestsOutput::device_tables>("deviceTables"), F<&NcclTestsOutput::ranks>("ranks"),
    F<&NcclTestsOutput::rows>("rows"), F<&NcclTestsOutput::unread_rows>("unreadRows"),
    F<&NcclTestsOutput::out_of_bounds>("outOfBounds"),
    F<&NcclTestsOutput::out_of_bounds_ok>("outOfBoundsOk"),
    F<&NcclTestsOutput::averages>("averages"), F<&NcclTestsOutput::dropped>("dropped")}; };
template <> struct FieldsOf<NcclTestsFile> { static constexpr Field kFields[] = {
    F<&NcclTestsFile::file>("file"), F<&NcclTestsFile::digest>("digest"),
    F<&NcclTestsFile::output>("output")}; };
// clang-format on

}  // namespace dlc::wire

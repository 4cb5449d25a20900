#pragma once

#include "probes/observations/fabric.h"
#include "probes/observations/json_fields.h"

/// The tables of what ranks see of the fabric. Part of ranks_fields.h, and private like it.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<LoadedLibrary> { static constexpr Field kFields[] = {
    F<&LoadedLibrary::path>("path"), F<&LoadedLibrary::version>("version"),
    F<&LoadedLibrary::build_id>("buildId")}; };
template <> struct FieldsOf<FabricProvider> { static constexpr Field kFields[] = {
    F<&FabricProvider::name>("name"), F<&FabricProvider::domain>("domain"),
    F<&FabricProvider::fabric>("fabric"), F<&FabricProvider::version>("version"),
    F<&FabricProvider::address>("address"), F<&FabricProvider::protocol>("protocol"),
    F<&FabricProvider::mr_mode>("mrMode")}; };
template <> struct FieldsOf<RdmaDevice> { static constexpr Field kFields[] = {
    F<&RdmaDevice::name>("name"), F<&RdmaDevice::pci_address>("pciAddress"),
    F<&RdmaDevice::pci_vendor>("pciVendor"), F<&RdmaDevice::pci_device>("pciDevice"),
    F<&RdmaDevice::uverbs>("uverbs"), F<&RdmaDevice::uverbs_usable>("uverbsUsable"),
    F<&RdmaDevice::uverbs_error>("uverbsError")}; };
template <> struct FieldsOf<EfaFunction> { static constexpr Field kFields[] = {
    F<&EfaFunction::pci_address>("pciAddress"), F<&EfaFunction::pci_device>("pciDevice"),
    F<&EfaFunction::driver>("driver")}; };
template <> struct FieldsOf<HugePagePool> { static constexpr Field kFields[] = {
    F<&HugePagePool::page_bytes>("pageBytes"), F<&HugePagePool::total_pages>("totalPages"),
    F<&HugePagePool::free_pages>("freePages")}; };
template <> struct FieldsOf<MemlockLimit> { static constexpr Field kFields[] = {
    F<&MemlockLimit::soft_bytes>("softBytes"), F<&MemlockLimit::hard_bytes>("hardBytes")}; };
template <> struct FieldsOf<NodeFabric> { static constexpr Field kFields[] = {
    F<&NodeFabric::rdma_devices>("rdmaDevices"), F<&NodeFabric::efa_functions>("efaFunctions"),
    F<&NodeFabric::memlock>("memlock"), F<&NodeFabric::huge_pages>("hugePages"),
    F<&NodeFabric::efa_installer_version>("efaInstallerVersion"),
    F<&NodeFabric::libfabric>("libfabric"), F<&NodeFabric::providers>("providers"),
    F<&NodeFabric::fi_provider>("fiProvider")}; };
template <> struct FieldsOf<FabricRank> { static constexpr Field kFields[] = {
    F<&FabricRank::rank>("rank"), F<&FabricRank::host>("host"), F<&FabricRank::boot_id>("bootId"),
    F<&FabricRank::network_namespace>("networkNamespace"),
    F<&FabricRank::usable_cpus>("usableCpus"), F<&FabricRank::provider>("provider")}; };
template <> struct FieldsOf<PairMeasurement> { static constexpr Field kFields[] = {
    F<&PairMeasurement::rank_a>("rankA"), F<&PairMeasurement::rank_b>("rankB"),
    F<&PairMeasurement::same_machine>("sameMachine"), F<&PairMeasurement::size_bytes>("sizeBytes"),
    F<&PairMeasurement::latency_iterations>("latencyIterations"),
    F<&PairMeasurement::latency_seconds>("latencySeconds"),
    F<&PairMeasurement::latency_min_seconds>("latencyMinSeconds"),
    F<&PairMeasurement::bandwidth_messages>("bandwidthMessages"),
    F<&PairMeasurement::bandwidth_bytes_per_second>("bandwidthBytesPerSecond"),
    F<&PairMeasurement::reverse_bandwidth_bytes_per_second>("reverseBandwidthBytesPerSecond"),
    F<&PairMeasurement::checked_elements>("checkedElements"),
    F<&PairMeasurement::wrong_at_a>("wrongAtA"), F<&PairMeasurement::wrong_at_b>("wrongAtB")}; };
template <> struct FieldsOf<CollectiveMeasurement> { static constexpr Field kFields[] = {
    F<&CollectiveMeasurement::collective>("collective"), F<&CollectiveMeasurement::type>("type"),
    F<&CollectiveMeasurement::op>("op"), F<&CollectiveMeasurement::in_place>("inPlace"),
    F<&CollectiveMeasurement::ranks>("ranks"), F<&CollectiveMeasurement::machines>("machines"),
    F<&CollectiveMeasurement::oversubscribed>("oversubscribed"),
    F<&CollectiveMeasurement::asked_bytes>("askedBytes"), F<&CollectiveMeasurement::size_bytes>("sizeBytes"),
    F<&CollectiveMeasurement::iterations>("iterations"),
    F<&CollectiveMeasurement::operations>("operations"),
    F<&CollectiveMeasurement::mean_seconds>("meanSeconds"),
    F<&CollectiveMeasurement::min_seconds>("minSeconds"),
    F<&CollectiveMeasurement::max_seconds>("maxSeconds"),
    F<&CollectiveMeasurement::algorithm_bandwidth_bytes_per_second>("algorithmBandwidthBytesPerSecond"),
    F<&CollectiveMeasurement::bus_bandwidth_bytes_per_second>("busBandwidthBytesPerSecond"),
    F<&CollectiveMeasurement::checked_elements>("checkedElements"),
    F<&CollectiveMeasurement::wrong>("wrong"),
    F<&CollectiveMeasurement::wrong_from>("wrongFrom")}; };
template <> struct FieldsOf<FabricMeasurements> { static constexpr Field kFields[] = {
    F<&FabricMeasurements::ranks>("ranks"), F<&FabricMeasurements::pairs>("pairs"),
    F<&FabricMeasurements::collectives>("collectives"),
    F<&FabricMeasurements::stopped_by>("stoppedBy")}; };
template <> struct FieldsOf<InterfaceBytes> { static constexpr Field kFields[] = {
    F<&InterfaceBytes::name>("name"), F<&InterfaceBytes::received_bytes>("receivedBytes"),
    F<&InterfaceBytes::sent_bytes>("sentBytes")}; };
template <> struct FieldsOf<FabricExperiment> { static constexpr Field kFields[] = {
    F<&FabricExperiment::library>("library"), F<&FabricExperiment::measured>("measured"),
    F<&FabricExperiment::interfaces_before>("interfacesBefore"),
    F<&FabricExperiment::interfaces_after>("interfacesAfter")}; };
// clang-format on

}  // namespace dlc::wire

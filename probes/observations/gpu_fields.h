#pragma once

#include "probes/observations/fabric_fields.h"
#include "probes/observations/gpu.h"
#include "probes/observations/json_fields.h"

/// The tables of what ranks see of GPUs. As private as ranks_fields.h.
namespace dlc::wire {

// clang-format off
template <> struct FieldsOf<EnvironmentText> { static constexpr Field kFields[] = {
    F<&EnvironmentText::set>("set"), F<&EnvironmentText::value>("value")}; };
template <> struct FieldsOf<GpuDeviceFile> { static constexpr Field kFields[] = {
    F<&GpuDeviceFile::path>("path"), F<&GpuDeviceFile::number>("number"),
    F<&GpuDeviceFile::usable>("usable"), F<&GpuDeviceFile::error>("error")}; };
template <> struct FieldsOf<VisibleEntry> { static constexpr Field kFields[] = {
    F<&VisibleEntry::text>("text"), F<&VisibleEntry::problem>("problem")}; };
template <> struct FieldsOf<CudaVisibleDevices> { static constexpr Field kFields[] = {
    F<&CudaVisibleDevices::variable>("variable"), F<&CudaVisibleDevices::entries>("entries"),
    F<&CudaVisibleDevices::expected>("expected"), F<&CudaVisibleDevices::problem>("problem")}; };
template <> struct FieldsOf<GpuMemory> { static constexpr Field kFields[] = {
    F<&GpuMemory::total_bytes>("totalBytes"), F<&GpuMemory::used_bytes>("usedBytes")}; };
template <> struct FieldsOf<GpuMigMode> { static constexpr Field kFields[] = {
    F<&GpuMigMode::enabled>("enabled"),
    F<&GpuMigMode::enabled_after_reset>("enabledAfterReset")}; };
template <> struct FieldsOf<GpuMigDevice> { static constexpr Field kFields[] = {
    F<&GpuMigDevice::uuid>("uuid"), F<&GpuMigDevice::name>("name"),
    F<&GpuMigDevice::memory>("memory")}; };
template <> struct FieldsOf<GpuEcc> { static constexpr Field kFields[] = {
    F<&GpuEcc::enabled>("enabled"), F<&GpuEcc::volatile_corrected>("volatileCorrected"),
    F<&GpuEcc::volatile_uncorrected>("volatileUncorrected"),
    F<&GpuEcc::aggregate_corrected>("aggregateCorrected"),
    F<&GpuEcc::aggregate_uncorrected>("aggregateUncorrected")}; };
template <> struct FieldsOf<GpuRemappedRows> { static constexpr Field kFields[] = {
    F<&GpuRemappedRows::correctable>("correctable"),
    F<&GpuRemappedRows::uncorrectable>("uncorrectable"), F<&GpuRemappedRows::pending>("pending"),
    F<&GpuRemappedRows::failed>("failed")}; };
template <> struct FieldsOf<GpuRetiredPages> { static constexpr Field kFields[] = {
    F<&GpuRetiredPages::single_bit>("singleBit"), F<&GpuRetiredPages::double_bit>("doubleBit"),
    F<&GpuRetiredPages::pending>("pending")}; };
template <> struct FieldsOf<GpuNvLink> { static constexpr Field kFields[] = {
    F<&GpuNvLink::link>("link"), F<&GpuNvLink::active>("active")}; };
template <> struct FieldsOf<GpuFabricState> { static constexpr Field kFields[] = {
    F<&GpuFabricState::state>("state"), F<&GpuFabricState::status>("status"),
    F<&GpuFabricState::health>("health"), F<&GpuFabricState::cluster>("cluster"),
    F<&GpuFabricState::clique>("clique")}; };
template <> struct FieldsOf<GpuProcess> { static constexpr Field kFields[] = {
    F<&GpuProcess::pid>("pid"), F<&GpuProcess::used_bytes>("usedBytes")}; };
template <> struct FieldsOf<GpuState> { static constexpr Field kFields[] = {
    F<&GpuState::pcie_generation>("pcieGeneration"), F<&GpuState::pcie_width>("pcieWidth"),
    F<&GpuState::clocks_event_reasons>("clocksEventReasons"),
    F<&GpuState::temperature_celsius>("temperatureCelsius"),
    F<&GpuState::power_watts>("powerWatts"), F<&GpuState::sm_clock_hz>("smClockHz"),
    F<&GpuState::memory_clock_hz>("memoryClockHz")}; };
template <> struct FieldsOf<NvmlGpu> { static constexpr Field kFields[] = {
    F<&NvmlGpu::index>("index"), F<&NvmlGpu::uuid>("uuid"), F<&NvmlGpu::name>("name"),
    F<&NvmlGpu::pci_address>("pciAddress"), F<&NvmlGpu::minor_number>("minorNumber"),
    F<&NvmlGpu::compute_capability>("computeCapability"), F<&NvmlGpu::memory>("memory"),
    F<&NvmlGpu::mig>("mig"), F<&NvmlGpu::mig_devices>("migDevices"),
    F<&NvmlGpu::compute_mode>("computeMode"), F<&NvmlGpu::persistence>("persistence"),
    F<&NvmlGpu::ecc>("ecc"), F<&NvmlGpu::remapped_rows>("remappedRows"),
    F<&NvmlGpu::retired_pages>("retiredPages"), F<&NvmlGpu::power_limit_watts>("powerLimitWatts"),
    F<&NvmlGpu::max_sm_clock_hz>("maxSmClockHz"),
    F<&NvmlGpu::max_pcie_generation>("maxPcieGeneration"),
    F<&NvmlGpu::max_pcie_width>("maxPcieWidth"), F<&NvmlGpu::state>("state"),
    F<&NvmlGpu::utilization_percent>("utilizationPercent"), F<&NvmlGpu::nvlinks>("nvlinks"),
    F<&NvmlGpu::fabric>("fabric"), F<&NvmlGpu::processes>("processes")}; };
template <> struct FieldsOf<GpuPeer> { static constexpr Field kFields[] = {
    F<&GpuPeer::a>("a"), F<&GpuPeer::b>("b"), F<&GpuPeer::read>("read"),
    F<&GpuPeer::write>("write"), F<&GpuPeer::nvlink>("nvlink"), F<&GpuPeer::path>("path")}; };
template <> struct FieldsOf<CudaFailure> { static constexpr Field kFields[] = {
    F<&CudaFailure::code>("code"), F<&CudaFailure::name>("name"), F<&CudaFailure::call>("call"),
    F<&CudaFailure::text>("text"), F<&CudaFailure::meaning>("meaning")}; };
template <> struct FieldsOf<CudaGpu> { static constexpr Field kFields[] = {
    F<&CudaGpu::ordinal>("ordinal"), F<&CudaGpu::uuid>("uuid"), F<&CudaGpu::name>("name"),
    F<&CudaGpu::pci_address>("pciAddress"), F<&CudaGpu::compute_capability>("computeCapability"),
    F<&CudaGpu::total_bytes>("totalBytes")}; };
template <> struct FieldsOf<CudaView> { static constexpr Field kFields[] = {
    F<&CudaView::library>("library"), F<&CudaView::mapped>("mapped"),
    F<&CudaView::compat>("compat"), F<&CudaView::compat_file>("compatFile"),
    F<&CudaView::failure>("failure"), F<&CudaView::driver_version>("driverVersion"),
    F<&CudaView::gpus>("gpus"), F<&CudaView::image_runtime>("imageRuntime"),
    F<&CudaView::probe_runtime_version>("probeRuntimeVersion"),
    F<&CudaView::probe_architectures>("probeArchitectures")}; };
template <> struct FieldsOf<NvmlView> { static constexpr Field kFields[] = {
    F<&NvmlView::library>("library"), F<&NvmlView::failure_code>("failureCode"),
    F<&NvmlView::driver_version>("driverVersion"), F<&NvmlView::cuda_version>("cudaVersion"),
    F<&NvmlView::counted>("counted"), F<&NvmlView::gpus>("gpus"), F<&NvmlView::peers>("peers")}; };
template <> struct FieldsOf<GpuNode> { static constexpr Field kFields[] = {
    F<&GpuNode::device_files>("deviceFiles"),
    F<&GpuNode::nvidia_visible_devices>("nvidiaVisibleDevices"),
    F<&GpuNode::cuda_visible_devices>("cudaVisibleDevices"),
    F<&GpuNode::cuda_device_order>("cudaDeviceOrder"),
    F<&GpuNode::ld_library_path>("ldLibraryPath"), F<&GpuNode::kernel_module>("kernelModule"),
    F<&GpuNode::nvml>("nvml"), F<&GpuNode::cuda>("cuda")}; };
template <> struct FieldsOf<GpuMemoryPass> { static constexpr Field kFields[] = {
    F<&GpuMemoryPass::pattern>("pattern"), F<&GpuMemoryPass::bytes>("bytes"),
    F<&GpuMemoryPass::wrong_words>("wrongWords"),
    F<&GpuMemoryPass::first_wrong_offset>("firstWrongOffset"),
    F<&GpuMemoryPass::expected>("expected"), F<&GpuMemoryPass::reread>("reread"),
    F<&GpuMemoryPass::flipped_bits>("flippedBits"),
    F<&GpuMemoryPass::write_seconds>("writeSeconds"),
    F<&GpuMemoryPass::read_seconds>("readSeconds")}; };
template <> struct FieldsOf<GpuTransfer> { static constexpr Field kFields[] = {
    F<&GpuTransfer::operation>("operation"), F<&GpuTransfer::bytes>("bytes"),
    F<&GpuTransfer::repetitions>("repetitions"),
    F<&GpuTransfer::bytes_per_second>("bytesPerSecond"),
    F<&GpuTransfer::best_bytes_per_second>("bestBytesPerSecond"),
    F<&GpuTransfer::wrong_words>("wrongWords")}; };
template <> struct FieldsOf<GpuProduct> { static constexpr Field kFields[] = {
    F<&GpuProduct::size>("size"), F<&GpuProduct::type>("type"),
    F<&GpuProduct::products>("products"),
    F<&GpuProduct::operations_per_second>("operationsPerSecond"),
    F<&GpuProduct::best_operations_per_second>("bestOperationsPerSecond"),
    F<&GpuProduct::checked_elements>("checkedElements"),
    F<&GpuProduct::wrong_elements>("wrongElements"), F<&GpuProduct::wrong_row>("wrongRow"),
    F<&GpuProduct::wrong_column>("wrongColumn"), F<&GpuProduct::expected>("expected"),
    F<&GpuProduct::found>("found"), F<&GpuProduct::host_checked_elements>("hostCheckedElements"),
    F<&GpuProduct::host_wrong_elements>("hostWrongElements")}; };
template <> struct FieldsOf<GpuSelfTest> { static constexpr Field kFields[] = {
    F<&GpuSelfTest::experiment>("experiment"), F<&GpuSelfTest::caught>("caught")}; };
template <> struct FieldsOf<GpuWork> { static constexpr Field kFields[] = {
    F<&GpuWork::ordinal>("ordinal"), F<&GpuWork::uuid>("uuid"), F<&GpuWork::name>("name"),
    F<&GpuWork::pci_address>("pciAddress"), F<&GpuWork::compute_capability>("computeCapability"),
    F<&GpuWork::total_bytes>("totalBytes"), F<&GpuWork::free_bytes>("freeBytes"),
    F<&GpuWork::cache_bytes>("cacheBytes"),
    F<&GpuWork::self_tests>("selfTests"), F<&GpuWork::memory>("memory"),
    F<&GpuWork::transfers>("transfers"), F<&GpuWork::product>("product"),
    F<&GpuWork::during_copies>("duringCopies"), F<&GpuWork::during_products>("duringProducts"),
    F<&GpuWork::failure>("failure"), F<&GpuWork::seconds>("seconds")}; };
template <> struct FieldsOf<GpuCompute> { static constexpr Field kFields[] = {
    F<&GpuCompute::budget_seconds>("budgetSeconds"), F<&GpuCompute::memory_share>("memoryShare"),
    F<&GpuCompute::planted>("planted"), F<&GpuCompute::visible>("visible"),
    F<&GpuCompute::failure>("failure"), F<&GpuCompute::gpus>("gpus"),
    F<&GpuCompute::gpu_seconds>("gpuSeconds")}; };
// clang-format on

}  // namespace dlc::wire

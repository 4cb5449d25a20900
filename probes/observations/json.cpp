#include "probes/observations/json.h"

#include <nlohmann/json.hpp>

#include "probes/observations/json_fields.h"
#include "probes/observations/ranks_fields.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace wire {

// One table a struct. A key is the wire name and stable; the C++ member may be renamed.
// clang-format off
template <> struct FieldsOf<ImageConfig> { static constexpr Field kFields[] = {
    F<&ImageConfig::digest>("digest"), F<&ImageConfig::os>("os"),
    F<&ImageConfig::architecture>("architecture"), F<&ImageConfig::created>("created"),
    F<&ImageConfig::labels>("labels"), F<&ImageConfig::env>("env"),
    F<&ImageConfig::entrypoint>("entrypoint")}; };
template <> struct FieldsOf<IndexMember> { static constexpr Field kFields[] = {
    F<&IndexMember::digest>("digest"), F<&IndexMember::media_type>("mediaType"), F<&IndexMember::os>("os"),
    F<&IndexMember::architecture>("architecture"), F<&IndexMember::runnable>("runnable"),
    F<&IndexMember::config_digest>("configDigest")}; };
template <> struct FieldsOf<ServedImage> { static constexpr Field kFields[] = {
    F<&ServedImage::reference>("reference"), F<&ServedImage::source>("source"),
    F<&ServedImage::digest>("digest"), F<&ServedImage::media_type>("mediaType"),
    F<&ServedImage::size_bytes>("sizeBytes"), F<&ServedImage::header_digest>("headerDigest"),
    F<&ServedImage::is_index>("isIndex"), F<&ServedImage::members>("members"),
    F<&ServedImage::config>("config")}; };

template <> struct FieldsOf<Source> { static constexpr Field kFields[] = {
    F<&Source::file>("file"), F<&Source::line>("line")}; };
template <> struct FieldsOf<EnvVar> { static constexpr Field kFields[] = {
    F<&EnvVar::name>("name"), F<&EnvVar::value>("value"), F<&EnvVar::value_from>("valueFrom")}; };
template <> struct FieldsOf<VolumeMount> { static constexpr Field kFields[] = {
    F<&VolumeMount::volume>("volume"), F<&VolumeMount::mount_path>("mountPath"),
    F<&VolumeMount::read_only>("readOnly")}; };
template <> struct FieldsOf<ContainerClaim> { static constexpr Field kFields[] = {
    F<&ContainerClaim::name>("name"), F<&ContainerClaim::request>("request")}; };
template <> struct FieldsOf<ContainerSpec> { static constexpr Field kFields[] = {
    F<&ContainerSpec::name>("name"), F<&ContainerSpec::image>("image"),
    F<&ContainerSpec::image_pull_policy>("imagePullPolicy"), F<&ContainerSpec::limits>("limits"),
    F<&ContainerSpec::requests>("requests"), F<&ContainerSpec::env>("env"),
    F<&ContainerSpec::mounts>("mounts"), F<&ContainerSpec::command>("command"),
    F<&ContainerSpec::args>("args"), F<&ContainerSpec::privileged>("privileged"),
    F<&ContainerSpec::claims>("claims")}; };
template <> struct FieldsOf<Volume> { static constexpr Field kFields[] = {
    F<&Volume::name>("name"), F<&Volume::kind>("kind"), F<&Volume::detail>("detail")}; };
template <> struct FieldsOf<Toleration> { static constexpr Field kFields[] = {
    F<&Toleration::key>("key"), F<&Toleration::op>("operator"), F<&Toleration::value>("value"),
    F<&Toleration::effect>("effect")}; };
template <> struct FieldsOf<PodSpec> { static constexpr Field kFields[] = {
    F<&PodSpec::containers>("containers"), F<&PodSpec::init_containers>("initContainers"),
    F<&PodSpec::volumes>("volumes"), F<&PodSpec::node_selector>("nodeSelector"),
    F<&PodSpec::tolerations>("tolerations"), F<&PodSpec::resource_claims>("resourceClaims"),
    F<&PodSpec::host_network>("hostNetwork")}; };
template <> struct FieldsOf<ContainerStatus> { static constexpr Field kFields[] = {
    F<&ContainerStatus::name>("name"), F<&ContainerStatus::image>("image"),
    F<&ContainerStatus::image_id>("imageID"), F<&ContainerStatus::state>("state"),
    F<&ContainerStatus::reason>("reason"), F<&ContainerStatus::message>("message"),
    F<&ContainerStatus::ready>("ready"), F<&ContainerStatus::restart_count>("restartCount")}; };
template <> struct FieldsOf<Pod> { static constexpr Field kFields[] = {
    F<&Pod::name_space>("namespace"), F<&Pod::name>("name"), F<&Pod::uid>("uid"),
    F<&Pod::node>("node"), F<&Pod::phase>("phase"), F<&Pod::pod_ip>("podIP"),
    F<&Pod::ray_cluster>("rayCluster"), F<&Pod::ray_node_type>("rayNodeType"),
    F<&Pod::ray_group>("rayGroup"), F<&Pod::deleting>("deleting"), F<&Pod::spec>("spec"),
    F<&Pod::statuses>("statuses"), F<&Pod::init_statuses>("initStatuses"), F<&Pod::source>("source"),
    F<&Pod::claim_objects>("claimObjects")}; };
template <> struct FieldsOf<Taint> { static constexpr Field kFields[] = {
    F<&Taint::key>("key"), F<&Taint::value>("value"), F<&Taint::effect>("effect")}; };
template <> struct FieldsOf<Node> { static constexpr Field kFields[] = {
    F<&Node::name>("name"), F<&Node::instance_type>("instanceType"), F<&Node::zone>("zone"),
    F<&Node::architecture>("architecture"), F<&Node::allocatable>("allocatable"),
    F<&Node::taints>("taints"), F<&Node::ready>("ready"), F<&Node::unschedulable>("unschedulable"),
    F<&Node::source>("source"), F<&Node::labels>("labels")}; };
template <> struct FieldsOf<RayGroup> { static constexpr Field kFields[] = {
    F<&RayGroup::name>("name"), F<&RayGroup::replicas>("replicas"),
    F<&RayGroup::min_replicas>("minReplicas"), F<&RayGroup::max_replicas>("maxReplicas"),
    F<&RayGroup::hosts_per_replica>("hostsPerReplica"), F<&RayGroup::suspended>("suspended"),
    F<&RayGroup::ray_start_params>("rayStartParams"), F<&RayGroup::pod>("pod"),
    F<&RayGroup::source>("source")}; };
template <> struct FieldsOf<RayCluster> { static constexpr Field kFields[] = {
    F<&RayCluster::name_space>("namespace"), F<&RayCluster::name>("name"),
    F<&RayCluster::ray_version>("rayVersion"), F<&RayCluster::autoscaling>("autoscaling"),
    F<&RayCluster::suspended>("suspended"), F<&RayCluster::auth_mode>("authMode"),
    F<&RayCluster::auth_secret>("authSecret"),
    F<&RayCluster::head>("head"), F<&RayCluster::workers>("workers"), F<&RayCluster::state>("state"),
    F<&RayCluster::head_service_name>("headServiceName"), F<&RayCluster::source>("source")}; };
template <> struct FieldsOf<SliceDevice> { static constexpr Field kFields[] = {
    F<&SliceDevice::name>("name"), F<&SliceDevice::kind>("kind")}; };
template <> struct FieldsOf<ResourceSlice> { static constexpr Field kFields[] = {
    F<&ResourceSlice::name>("name"), F<&ResourceSlice::driver>("driver"),
    F<&ResourceSlice::node>("node"), F<&ResourceSlice::pool>("pool"),
    F<&ResourceSlice::generation>("generation"), F<&ResourceSlice::devices>("devices"),
    F<&ResourceSlice::source>("source")}; };
template <> struct FieldsOf<ClaimedDevice> { static constexpr Field kFields[] = {
    F<&ClaimedDevice::request>("request"), F<&ClaimedDevice::driver>("driver"),
    F<&ClaimedDevice::pool>("pool"), F<&ClaimedDevice::device>("device")}; };
template <> struct FieldsOf<ResourceClaim> { static constexpr Field kFields[] = {
    F<&ResourceClaim::name_space>("namespace"), F<&ResourceClaim::name>("name"),
    F<&ResourceClaim::allocated>("allocated"), F<&ResourceClaim::devices>("devices"),
    F<&ResourceClaim::source>("source")}; };
template <> struct FieldsOf<DraFacts> { static constexpr Field kFields[] = {
    F<&DraFacts::slices>("slices"), F<&DraFacts::claims>("claims")}; };
template <> struct FieldsOf<ApiListFacts> { static constexpr Field kFields[] = {
    F<&ApiListFacts::path>("path"), F<&ApiListFacts::resource_version>("resourceVersion"),
    F<&ApiListFacts::objects>("objects"), F<&ApiListFacts::pages>("pages")}; };
template <> struct FieldsOf<ApiServerFacts> { static constexpr Field kFields[] = {
    F<&ApiServerFacts::server>("server"), F<&ApiServerFacts::version>("version"),
    F<&ApiServerFacts::context>("context"), F<&ApiServerFacts::name_space>("namespace"),
    F<&ApiServerFacts::lists>("lists")}; };
template <> struct FieldsOf<ClusterFacts> { static constexpr Field kFields[] = {
    F<&ClusterFacts::ray_clusters>("rayClusters"), F<&ClusterFacts::pods>("pods"),
    F<&ClusterFacts::nodes>("nodes"), F<&ClusterFacts::api_server>("apiServer"),
    F<&ClusterFacts::dra>("dra")}; };

template <> struct FieldsOf<RayVersionAnswer> { static constexpr Field kFields[] = {
    F<&RayVersionAnswer::ray_version>("rayVersion"), F<&RayVersionAnswer::ray_commit>("rayCommit"),
    F<&RayVersionAnswer::jobs_api_version>("jobsApiVersion"),
    F<&RayVersionAnswer::session_name>("sessionName")}; };
template <> struct FieldsOf<RayNode> { static constexpr Field kFields[] = {
    F<&RayNode::node_id>("nodeId"), F<&RayNode::node_ip>("nodeIp"), F<&RayNode::node_name>("nodeName"),
    F<&RayNode::is_head>("isHead"), F<&RayNode::alive>("alive"), F<&RayNode::resources>("resources")}; };
template <> struct FieldsOf<PodVersions> { static constexpr Field kFields[] = {
    F<&PodVersions::pod>("pod"), F<&PodVersions::ray>("ray"), F<&PodVersions::python>("python"),
    F<&PodVersions::torch>("torch"), F<&PodVersions::nccl>("nccl"),
    F<&PodVersions::efa_installer>("efaInstaller"), F<&PodVersions::source>("source")}; };
template <> struct FieldsOf<RequestedPackage> { static constexpr Field kFields[] = {
    F<&RequestedPackage::installer>("installer"), F<&RequestedPackage::text>("text"),
    F<&RequestedPackage::name>("name"), F<&RequestedPackage::specifier>("specifier"),
    F<&RequestedPackage::is_option>("isOption")}; };
template <> struct FieldsOf<RuntimeEnv> { static constexpr Field kFields[] = {
    F<&RuntimeEnv::packages>("packages"), F<&RuntimeEnv::py_executable>("pyExecutable"),
    F<&RuntimeEnv::image_uri>("imageUri"), F<&RuntimeEnv::conda_env>("condaEnv"),
    F<&RuntimeEnv::working_dir>("workingDir"), F<&RuntimeEnv::env_vars>("envVars")}; };
template <> struct FieldsOf<RayJob> { static constexpr Field kFields[] = {
    F<&RayJob::submission_id>("submissionId"), F<&RayJob::status>("status"),
    F<&RayJob::entrypoint>("entrypoint"), F<&RayJob::runtime_env>("runtimeEnv"),
    F<&RayJob::source>("source")}; };
template <> struct FieldsOf<RayDashboardFacts> { static constexpr Field kFields[] = {
    F<&RayDashboardFacts::address>("address"), F<&RayDashboardFacts::route>("route"),
    F<&RayDashboardFacts::authentication>("authentication")}; };
template <> struct FieldsOf<RayFacts> { static constexpr Field kFields[] = {
    F<&RayFacts::version>("version"), F<&RayFacts::nodes>("nodes"),
    F<&RayFacts::pod_versions>("podVersions"), F<&RayFacts::jobs>("jobs"),
    F<&RayFacts::job_objects>("jobObjects"), F<&RayFacts::dashboard>("dashboard")}; };

template <> struct FieldsOf<InputFile> { static constexpr Field kFields[] = {
    F<&InputFile::role>("role"), F<&InputFile::name>("name"), F<&InputFile::digest>("digest"),
    F<&InputFile::size_bytes>("sizeBytes")}; };
template <> struct FieldsOf<Workload> { static constexpr Field kFields[] = {
    F<&Workload::model>("model"), F<&Workload::workers>("workers"),
    F<&Workload::gpus_per_worker>("gpusPerWorker"), F<&Workload::nodes>("nodes"),
    F<&Workload::steps>("steps")}; };
template <> struct FieldsOf<RunFacts> { static constexpr Field kFields[] = {
    F<&RunFacts::id>("id"), F<&RunFacts::mode>("mode"), F<&RunFacts::started_at>("startedAt"),
    F<&RunFacts::finished_at>("finishedAt"), F<&RunFacts::tool_version>("toolVersion"),
    F<&RunFacts::tool_commit>("toolCommit"), F<&RunFacts::tool_digest>("toolDigest"),
    F<&RunFacts::invocation>("invocation"), F<&RunFacts::stages>("stages"),
    F<&RunFacts::inputs>("inputs"), F<&RunFacts::workload>("workload"),
    F<&RunFacts::interrupted>("interrupted")}; };
template <> struct FieldsOf<Observations> { static constexpr Field kFields[] = {
    F<&Observations::run>("run"), F<&Observations::served_image>("servedImage"),
    F<&Observations::cluster>("cluster"), F<&Observations::ray>("ray"),
    F<&Observations::gpu_ranks>("gpuRanks"), F<&Observations::nccl_ranks>("ncclRanks"),
    F<&Observations::nccl_logs>("ncclLogs"), F<&Observations::nccl_tests>("ncclTests"),
    F<&Observations::fsdp_ranks>("fsdpRanks"),
    F<&Observations::checkpoint_ranks>("checkpointRanks"),
    F<&Observations::checkpoint_views>("checkpointViews")}; };
// clang-format on

}  // namespace wire

std::string ObservationsToJson(const Observations& observations, int indent) {
  wire::Json document = wire::Json::object();
  document.push_back({"apiVersion", kObservationsApiVersion});
  wire::Json body = wire::Write(observations);
  for (auto& [key, value] : body.items()) {
    document.push_back({key, std::move(value)});
  }
  return document.dump(indent, ' ', false, wire::Json::error_handler_t::replace);
}

Result<Observations> ParseObservations(std::string_view json, std::size_t max_bytes) {
  auto document = ParseStrictJson(json, {max_bytes, 64});
  if (!document) {
    return std::move(document).error();
  }
  const auto version = document->is_object() ? document->find("apiVersion") : document->end();
  if (version == document->end() || *version != kObservationsApiVersion) {
    return Error{
        ErrorCode::kInvalidInput,
        "not an observations document: apiVersion is not " + std::string(kObservationsApiVersion),
        "pass a file that `dlc-check snapshot` or a run's evidence holds"};
  }
  document->erase("apiVersion");
  Observations observations;
  wire::ReadState state;
  wire::Read(*document, observations, state);
  if (state.failed) {
    return state.error;
  }
  return observations;
}

}  // namespace dlc

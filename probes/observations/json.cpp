#include "probes/observations/json.h"

#include <nlohmann/json.hpp>

#include "probes/observations/json_fields.h"
#include "probes/observations/ranks_fields.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace wire {

// One table a struct. A key is the wire name and stable; the C++ member may be renamed.
// clang-format off
template <> struct FieldsOf<ImageConfig> { static constexpr auto kFields = std::tuple{
    Field{"digest", &ImageConfig::digest}, Field{"os", &ImageConfig::os},
    Field{"architecture", &ImageConfig::architecture}, Field{"created", &ImageConfig::created},
    Field{"labels", &ImageConfig::labels}, Field{"env", &ImageConfig::env},
    Field{"entrypoint", &ImageConfig::entrypoint}}; };
template <> struct FieldsOf<IndexMember> { static constexpr auto kFields = std::tuple{
    Field{"digest", &IndexMember::digest}, Field{"mediaType", &IndexMember::media_type}, Field{"os", &IndexMember::os},
    Field{"architecture", &IndexMember::architecture}, Field{"runnable", &IndexMember::runnable},
    Field{"configDigest", &IndexMember::config_digest}}; };
template <> struct FieldsOf<ServedImage> { static constexpr auto kFields = std::tuple{
    Field{"reference", &ServedImage::reference}, Field{"source", &ServedImage::source},
    Field{"digest", &ServedImage::digest}, Field{"mediaType", &ServedImage::media_type},
    Field{"sizeBytes", &ServedImage::size_bytes}, Field{"headerDigest", &ServedImage::header_digest},
    Field{"isIndex", &ServedImage::is_index}, Field{"members", &ServedImage::members},
    Field{"config", &ServedImage::config}}; };

template <> struct FieldsOf<Source> { static constexpr auto kFields = std::tuple{
    Field{"file", &Source::file}, Field{"line", &Source::line}}; };
template <> struct FieldsOf<EnvVar> { static constexpr auto kFields = std::tuple{
    Field{"name", &EnvVar::name}, Field{"value", &EnvVar::value}, Field{"valueFrom", &EnvVar::value_from}}; };
template <> struct FieldsOf<VolumeMount> { static constexpr auto kFields = std::tuple{
    Field{"volume", &VolumeMount::volume}, Field{"mountPath", &VolumeMount::mount_path},
    Field{"readOnly", &VolumeMount::read_only}}; };
template <> struct FieldsOf<ContainerSpec> { static constexpr auto kFields = std::tuple{
    Field{"name", &ContainerSpec::name}, Field{"image", &ContainerSpec::image},
    Field{"imagePullPolicy", &ContainerSpec::image_pull_policy}, Field{"limits", &ContainerSpec::limits},
    Field{"requests", &ContainerSpec::requests}, Field{"env", &ContainerSpec::env},
    Field{"mounts", &ContainerSpec::mounts}, Field{"command", &ContainerSpec::command},
    Field{"args", &ContainerSpec::args}, Field{"privileged", &ContainerSpec::privileged}}; };
template <> struct FieldsOf<Volume> { static constexpr auto kFields = std::tuple{
    Field{"name", &Volume::name}, Field{"kind", &Volume::kind}, Field{"detail", &Volume::detail}}; };
template <> struct FieldsOf<Toleration> { static constexpr auto kFields = std::tuple{
    Field{"key", &Toleration::key}, Field{"operator", &Toleration::op}, Field{"value", &Toleration::value},
    Field{"effect", &Toleration::effect}}; };
template <> struct FieldsOf<PodSpec> { static constexpr auto kFields = std::tuple{
    Field{"containers", &PodSpec::containers}, Field{"initContainers", &PodSpec::init_containers},
    Field{"volumes", &PodSpec::volumes}, Field{"nodeSelector", &PodSpec::node_selector},
    Field{"tolerations", &PodSpec::tolerations}, Field{"resourceClaims", &PodSpec::resource_claims},
    Field{"hostNetwork", &PodSpec::host_network}}; };
template <> struct FieldsOf<ContainerStatus> { static constexpr auto kFields = std::tuple{
    Field{"name", &ContainerStatus::name}, Field{"image", &ContainerStatus::image},
    Field{"imageID", &ContainerStatus::image_id}, Field{"state", &ContainerStatus::state},
    Field{"reason", &ContainerStatus::reason}, Field{"message", &ContainerStatus::message},
    Field{"ready", &ContainerStatus::ready}, Field{"restartCount", &ContainerStatus::restart_count}}; };
template <> struct FieldsOf<Pod> { static constexpr auto kFields = std::tuple{
    Field{"namespace", &Pod::name_space}, Field{"name", &Pod::name}, Field{"uid", &Pod::uid},
    Field{"node", &Pod::node}, Field{"phase", &Pod::phase}, Field{"podIP", &Pod::pod_ip},
    Field{"rayCluster", &Pod::ray_cluster}, Field{"rayNodeType", &Pod::ray_node_type},
    Field{"rayGroup", &Pod::ray_group}, Field{"deleting", &Pod::deleting}, Field{"spec", &Pod::spec},
    Field{"statuses", &Pod::statuses}, Field{"initStatuses", &Pod::init_statuses}, Field{"source", &Pod::source}}; };
template <> struct FieldsOf<Taint> { static constexpr auto kFields = std::tuple{
    Field{"key", &Taint::key}, Field{"value", &Taint::value}, Field{"effect", &Taint::effect}}; };
template <> struct FieldsOf<Node> { static constexpr auto kFields = std::tuple{
    Field{"name", &Node::name}, Field{"instanceType", &Node::instance_type}, Field{"zone", &Node::zone},
    Field{"architecture", &Node::architecture}, Field{"allocatable", &Node::allocatable},
    Field{"taints", &Node::taints}, Field{"ready", &Node::ready}, Field{"unschedulable", &Node::unschedulable},
    Field{"source", &Node::source}}; };
template <> struct FieldsOf<RayGroup> { static constexpr auto kFields = std::tuple{
    Field{"name", &RayGroup::name}, Field{"replicas", &RayGroup::replicas},
    Field{"minReplicas", &RayGroup::min_replicas}, Field{"maxReplicas", &RayGroup::max_replicas},
    Field{"hostsPerReplica", &RayGroup::hosts_per_replica}, Field{"suspended", &RayGroup::suspended},
    Field{"rayStartParams", &RayGroup::ray_start_params}, Field{"pod", &RayGroup::pod},
    Field{"source", &RayGroup::source}}; };
template <> struct FieldsOf<RayCluster> { static constexpr auto kFields = std::tuple{
    Field{"namespace", &RayCluster::name_space}, Field{"name", &RayCluster::name},
    Field{"rayVersion", &RayCluster::ray_version}, Field{"autoscaling", &RayCluster::autoscaling},
    Field{"suspended", &RayCluster::suspended}, Field{"authMode", &RayCluster::auth_mode},
    Field{"head", &RayCluster::head}, Field{"workers", &RayCluster::workers}, Field{"state", &RayCluster::state},
    Field{"headServiceName", &RayCluster::head_service_name}, Field{"source", &RayCluster::source}}; };
template <> struct FieldsOf<ClusterFacts> { static constexpr auto kFields = std::tuple{
    Field{"rayClusters", &ClusterFacts::ray_clusters}, Field{"pods", &ClusterFacts::pods},
    Field{"nodes", &ClusterFacts::nodes}}; };

template <> struct FieldsOf<RayVersionAnswer> { static constexpr auto kFields = std::tuple{
    Field{"rayVersion", &RayVersionAnswer::ray_version}, Field{"rayCommit", &RayVersionAnswer::ray_commit},
    Field{"jobsApiVersion", &RayVersionAnswer::jobs_api_version},
    Field{"sessionName", &RayVersionAnswer::session_name}}; };
template <> struct FieldsOf<RayNode> { static constexpr auto kFields = std::tuple{
    Field{"nodeId", &RayNode::node_id}, Field{"nodeIp", &RayNode::node_ip}, Field{"nodeName", &RayNode::node_name},
    Field{"isHead", &RayNode::is_head}, Field{"alive", &RayNode::alive}, Field{"resources", &RayNode::resources}}; };
template <> struct FieldsOf<PodVersions> { static constexpr auto kFields = std::tuple{
    Field{"pod", &PodVersions::pod}, Field{"ray", &PodVersions::ray}, Field{"python", &PodVersions::python},
    Field{"torch", &PodVersions::torch}, Field{"nccl", &PodVersions::nccl},
    Field{"efaInstaller", &PodVersions::efa_installer}, Field{"source", &PodVersions::source}}; };
template <> struct FieldsOf<RequestedPackage> { static constexpr auto kFields = std::tuple{
    Field{"installer", &RequestedPackage::installer}, Field{"text", &RequestedPackage::text},
    Field{"name", &RequestedPackage::name}, Field{"specifier", &RequestedPackage::specifier},
    Field{"isOption", &RequestedPackage::is_option}}; };
template <> struct FieldsOf<RuntimeEnv> { static constexpr auto kFields = std::tuple{
    Field{"packages", &RuntimeEnv::packages}, Field{"pyExecutable", &RuntimeEnv::py_executable},
    Field{"imageUri", &RuntimeEnv::image_uri}, Field{"condaEnv", &RuntimeEnv::conda_env},
    Field{"workingDir", &RuntimeEnv::working_dir}, Field{"envVars", &RuntimeEnv::env_vars}}; };
template <> struct FieldsOf<RayJob> { static constexpr auto kFields = std::tuple{
    Field{"submissionId", &RayJob::submission_id}, Field{"status", &RayJob::status},
    Field{"entrypoint", &RayJob::entrypoint}, Field{"runtimeEnv", &RayJob::runtime_env},
    Field{"source", &RayJob::source}}; };
template <> struct FieldsOf<RayFacts> { static constexpr auto kFields = std::tuple{
    Field{"version", &RayFacts::version}, Field{"nodes", &RayFacts::nodes},
    Field{"podVersions", &RayFacts::pod_versions}, Field{"jobs", &RayFacts::jobs}}; };

template <> struct FieldsOf<InputFile> { static constexpr auto kFields = std::tuple{
    Field{"role", &InputFile::role}, Field{"name", &InputFile::name}, Field{"digest", &InputFile::digest},
    Field{"sizeBytes", &InputFile::size_bytes}}; };
template <> struct FieldsOf<Workload> { static constexpr auto kFields = std::tuple{
    Field{"model", &Workload::model}, Field{"workers", &Workload::workers},
    Field{"gpusPerWorker", &Workload::gpus_per_worker}, Field{"nodes", &Workload::nodes},
    Field{"steps", &Workload::steps}}; };
template <> struct FieldsOf<RunFacts> { static constexpr auto kFields = std::tuple{
    Field{"id", &RunFacts::id}, Field{"mode", &RunFacts::mode}, Field{"startedAt", &RunFacts::started_at},
    Field{"finishedAt", &RunFacts::finished_at}, Field{"toolVersion", &RunFacts::tool_version},
    Field{"toolCommit", &RunFacts::tool_commit}, Field{"toolDigest", &RunFacts::tool_digest},
    Field{"invocation", &RunFacts::invocation}, Field{"stages", &RunFacts::stages},
    Field{"inputs", &RunFacts::inputs}, Field{"workload", &RunFacts::workload},
    Field{"interrupted", &RunFacts::interrupted}}; };
template <> struct FieldsOf<Observations> { static constexpr auto kFields = std::tuple{
    Field{"run", &Observations::run}, Field{"servedImage", &Observations::served_image},
    Field{"cluster", &Observations::cluster}, Field{"ray", &Observations::ray},
    Field{"ranks", &Observations::ranks}}; };
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

#include "probes/observations/ranks_json.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

NodeFabric SampleNodeFabric() {
  NodeFabric node;
  node.rdma_devices = {{"rdmap0s6", "0000:10:1b.0", "1d0f", "efa2", "uverbs0", true, "e"}};
  node.efa_functions = std::vector<EfaFunction>{{"0000:10:1b.0", "efa2", "efa"}};
  node.memlock = MemlockLimit{0, std::nullopt};  // 0 is not the same as unlimited
  node.huge_pages = {{2 << 20, 5120, 12}};
  node.efa_installer_version = Error{ErrorCode::kNotFound, "none", ""};
  node.libfabric = LoadedLibrary{"/opt/amazon/efa/lib64/libfabric.so.1", "2.4", "ab"};
  node.providers = std::vector<FabricProvider>{
      {"efa", "rdmap0s6-rdm", "efa", "204.0", "fi_addr_efa://1", "FI_PROTO_EFA", {"FI_MR_LOCAL"}}};
  node.fi_provider = "efa";
  return node;
}

FabricExperiment SampleExperiment() {
  FabricExperiment experiment;
  experiment.library = {"/usr/lib/libfabric.so.1", "1.17", ""};
  experiment.measured.ranks = {{1, "pod-1", "boot", "net:[1]", 8, {}}};
  experiment.measured.pairs = {
      {0, 1, true, 1 << 20, 200, 1e-5, 9e-6, 64, 1.5e9, 1.25e9, 4096, 1, 2}};
  experiment.measured.collectives = {{"all_gather",
                                      "float32",
                                      "",
                                      true,
                                      2,
                                      1,
                                      true,
                                      1 << 20,
                                      1048560,
                                      20,
                                      22,
                                      0.5,
                                      0.25,
                                      0.75,
                                      2e6,
                                      1e6,
                                      77,
                                      {0, 3},
                                      {3, 0}}};
  experiment.measured.stopped_by = Error{ErrorCode::kTimedOut, "rank 0 did not answer", "look"};
  experiment.interfaces_before = std::vector<InterfaceBytes>{{"eth0", 1, 2}, {"lo", 3, 4}};
  return experiment;
}

FsdpLayoutExperiment SampleFsdpLayout() {
  FsdpLayoutProof proof;
  proof.model = "qwen2-tiny";
  proof.layout = "hsdp";
  proof.shard_ranks = 2;
  proof.copies = 3;
  proof.type = "int32";
  proof.units = 4;
  proof.moved_units = 3;
  proof.whole_units = 1;
  proof.model_elements = 5'000'000'000;
  proof.moved_elements = 6;
  proof.filling_elements = 7;
  proof.compared_elements = 8;
  proof.wrong_elements = 9;
  proof.first_wrong = FsdpWrongElement{"all-gather", 1, "model.norm.weight", 2, 3, -4, 5};
  proof.all_gathers = 10;
  proof.reduce_scatters = 11;
  proof.all_reduces = 12;
  proof.sent_bytes = 13;
  proof.expected_bytes = 14;
  proof.step_bytes_bfloat16 = 15;
  proof.step_bytes_float32 = 16;
  proof.controls = {{"flipped-bit", true, false}, {"dropped-rank", true, true}};
  proof.seconds = 0.5;
  FsdpLayoutExperiment experiment;
  experiment.library = {"/usr/lib/libfabric.so.1", "1.17", ""};
  experiment.place = {1, "pod-1", "boot", "net:[1]", 8, {}};
  experiment.proofs = {proof};
  experiment.stopped_by = Error{ErrorCode::kTimedOut, "rank 0 did not answer", "look"};
  return experiment;
}

FsdpTrainingExperiment SampleFsdpTraining() {
  FsdpTrainingRun run;
  run.name = "training";
  run.model = "qwen2-tiny";
  run.compute = "bfloat16";
  run.gradients = "float32";
  run.ranks = 2;
  run.rows = 3;
  run.sequence = 4;
  run.micro_batches = 5;
  run.parameters = 6'000'000'000;
  run.padding = 7;
  run.needed_bytes = 8;
  run.taken_bytes = 9;
  run.free_bytes = 10;
  run.not_looked_at = "it does not fit";
  run.expected_bytes = 11;
  run.steps = {{6.25, 2.5, true, 1.0, 0.25, 0.125, -1}};
  run.own = {{"padding", "", 240, 1, 2, 3, 0}};
  run.reference = std::vector<FsdpComparison>{{"losses", "step 1", 1, 2, 3, 0.5, 0.25}};
  run.reference_seconds = 0.5;
  run.explanation = "skipped-shard: it was";
  run.hash = "00ff";
  run.controls = {{"stale-gather", true, true}};
  FsdpTrainingExperiment experiment;
  experiment.backend = "cpu";
  experiment.device = "none";
  experiment.transport = "libfabric tcp";
  experiment.runs = {run};
  experiment.gather_bytes_per_second = 1e9;
  experiment.reduce_bytes_per_second = 2e9;
  experiment.predictions = {{"qwen2.5-1.5b", 12, 0.5}};
  experiment.stopped_by = Error{ErrorCode::kTimedOut, "rank 0 did not answer", "look"};
  return experiment;
}

GpuNode SampleGpuNode() {
  NvmlGpu gpu;
  gpu.index = 1;
  gpu.uuid = std::string("GPU-1");
  gpu.memory = GpuMemory{10, 3};
  gpu.mig = GpuMigMode{true, true};
  gpu.mig_devices = std::vector<GpuMigDevice>{{"MIG-1", std::string("slice"), GpuMemory{5, 1}}};
  gpu.persistence = false;
  gpu.ecc = GpuEcc{true, 1, 2, 3, 4};
  gpu.remapped_rows = GpuRemappedRows{1, 2, true, true};
  gpu.retired_pages = GpuRetiredPages{1, 2, true};
  gpu.state.clocks_event_reasons = std::int64_t{0x80};
  gpu.nvlinks = std::vector<GpuNvLink>{{0, true}, {1, false}};
  gpu.fabric = GpuFabricState{"completed", 1, 2, "00ff", 3};
  gpu.processes = std::vector<GpuProcess>{{42, std::int64_t{0}}, {43, std::nullopt}};
  GpuNode node;
  node.device_files = std::vector<GpuDeviceFile>{{"/dev/nvidia0", 0, true, ""},
                                                 {"/dev/nvidiactl", std::nullopt, false, "EPERM"}};
  node.nvidia_visible_devices = {true, ""};
  node.cuda_visible_devices = {{true, "0,x"}, {{"0", ""}, {"x", "is not a number"}}, 0, "hidden"};
  node.kernel_module = Error{ErrorCode::kNotFound, "none", "look"};
  node.nvml.failure_code = 18;
  node.nvml.gpus = std::vector<NvmlGpu>{gpu};
  node.nvml.peers = std::vector<GpuPeer>{{0, 1, std::string("ok"), {}, {}, std::string("node")}};
  node.cuda.library = LoadedLibrary{"/x/compat/libcuda.so.580", "580", "ab"};
  node.cuda.mapped = {"/x/compat/libcuda.so.580"};
  node.cuda.compat = true;
  node.cuda.failure = {802, "CUDA_ERROR_SYSTEM_NOT_READY", "cuInit", "text", "meaning"};
  node.cuda.gpus = std::vector<CudaGpu>{{1, "GPU-1", "L4", "0000:30:00.0", "8.9", 10}};
  node.cuda.probe_runtime_version = 13000;
  return node;
}

GpuCompute SampleGpuCompute() {
  GpuWork work;
  work.ordinal = 1;
  work.uuid = "GPU-1";
  work.self_tests = {{"memory", true}, {"product", false}};
  work.memory = {{"random", 64, 1, 8, "0x1", "0x2", "0x3", 0.5, 0.25}};
  work.transfers = {{"copy", 128, 8, 1.5, 2.5, 1}};
  work.product = GpuProduct{256, "bfloat16", 3, 1.5, 2.5, 9, 1, 2, 3, 4, 5, 6, 7};
  work.during_copies = Error{ErrorCode::kUnsupported, "no", ""};
  work.failure = {719, "cudaErrorLaunchFailure", "a kernel", "text", "meaning"};
  work.seconds = 1.5;
  return {10, 0.25, "memory", 2, {100, "cudaErrorNoDevice", "c", "t", "m"}, {work}, 1.5};
}

NcclExperiment SampleNccl() {
  NcclExperiment nccl;
  nccl.library = {
      {"/venv/libnccl.so.2", "2.29.7", "ab"}, 22907, Digest{std::string(64, 'b')}, "torch"};
  nccl.gpu_name = "NVIDIA L4";
  nccl.gpu_pci_address = "0000:53:00.0";
  nccl.measured = SampleExperiment().measured;
  nccl.settings = {{"NCCL_DEBUG", "INFO", "dlc-probe"}};
  nccl.replaced_settings = {{"NCCL_DEBUG", "WARN", "/etc/nccl.conf"}};
  nccl.reached = {"timed", "all_reduce", 1 << 20, true, 7};
  nccl.ras = std::string("{}");
  NcclLog log;
  log.bytes = 1;
  log.lines = 2;
  log.processes = {"h:1"};
  log.version = "2.29.7+cuda13.0";
  log.communicators = {{"0xab", 1, 2, 2, 1, true}};
  log.networks = {"Libfabric"};
  log.connections = {{"NET", "Libfabric", 3, "d", true, true, true, true, 4, 5, 6}};
  log.interfaces = {"eth0:10.0.0.1"};
  log.plugin_not_loaded = "Could not find: /x.so";
  log.plugin_version = "1.20.0";
  log.libfabric_version = "2.4";
  log.providers = {"efa"};
  log.fabric = "efa-direct";
  log.nics = 32;
  log.protocol = "RDMA";
  log.dma_buf = false;
  log.plugin_failed = true;
  log.gpu_direct_refused = true;
  log.settings = {{"NCCL_PROTO", "simple", "plugin"}};
  log.warnings = {"w"};
  log.damaged_lines = 1;
  log.folded_lines = 2;
  log.unread_connections = 3;
  log.first_unread = "Channel";
  log.cut = true;
  log.dropped = 4;
  nccl.log = log;
  nccl.log_digest = Digest{std::string(64, 'c')};
  nccl.log_file = std::string("/logs/0.log");
  nccl.mapped_libraries = {"/lib/libnccl.so.2"};
  nccl.interfaces_before = std::vector<InterfaceBytes>{{"eth0", 1, 2}};
  nccl.interfaces_after = Error{ErrorCode::kNotFound, "gone", ""};
  nccl.efa_counters_before =
      std::vector<EfaPortCounters>{{"rdmap0s6", 10, 20, {{"send_bytes", 10}, {"send_wrs", 0}}}};
  nccl.efa_counters_after = NotLookedAt{"no EFA device", ""};
  return nccl;
}

RankRun SampleRun() {
  RankObservations seen;
  seen.facts = {1, 2, 0, "pod-1", "boot", 42, 1000, 1000, "6.1", "glibc 2.34", "0.1.0"};
  seen.rendezvous = std::string("10.0.0.1:29500");
  seen.planted_faults = {{1, "share", "other-directory", "/x"}};
  seen.meet = {{"meet",
                {"killed", -1, 9, "SIGKILL", true, true, "half way", 1.5},
                Error{ErrorCode::kUnavailable, "killed", "look"}}};
  seen.gpu_node = {{"gpus", {}, SampleGpuNode()}};
  seen.gpu_compute = {{"work", {}, SampleGpuCompute()}};
  seen.fabric_node = {{"node", {}, SampleNodeFabric()}};
  seen.fabric_pairs = {{"pairs", {}, SampleExperiment()}};
  seen.fabric_collectives = {{"collectives", {}, Error{ErrorCode::kTimedOut, "slow", ""}}};
  seen.nccl_collectives = {{"nccl", {}, SampleNccl()}};
  seen.fsdp_layout = {{"fsdp-layout", {}, SampleFsdpLayout()}};
  seen.fsdp_training = {{"fsdp-training", {}, SampleFsdpTraining()}};
  StorageShared shared;
  shared.path = "/fsx";
  shared.uid = 1000;
  shared.mount = MountFacts{"/fsx", "s", "nfs4", "/", "rw", "0:1", true};
  shared.space = Error{ErrorCode::kTimedOut, "slow", ""};
  shared.operations = {{"write", "ENOSPC", "No space left on device"}};
  shared.peers = std::vector<PeerFile>{{0, "pod-0", "boot", "absent", "ENOENT", 2.5, 7, 1, ""}};
  shared.leftovers = {"/fsx/.dlc-check-1: EACCES"};
  seen.storage_shared = {{"share", {}, shared}};
  StorageSpeed speed;
  speed.transfers = {{"read", 1, 2, true, 0.5, 1.5, "direct", -1, "EIO", "text"}};
  speed.transfers[0].alone = true;
  speed.transfers[0].sync_seconds = 0.25;
  speed.transfers[0].quarters = {{1, 0.5}, {2, 0.75}};
  speed.mount = MountFacts{"/fsx", "source", "lustre", "/", "rw", "0:52", true};
  speed.space = SpaceFacts{5, 4, 3, 2};
  speed.metadata = {{"list", 9, 8, 0.5, 1.5, true, "EIO", "text"}};
  seen.storage_speed = {{"speed", {}, speed}};
  CheckpointTree tree;
  tree.kind = "dcp";
  tree.shards = {{"__0_0.distcp", 0, 3, Digest{std::string(64, 'a')}, "model", 17}};
  tree.unfinished = {".metadata.tmp"};
  tree.passed_over = {"checkpoint_000001: older"};
  tree.ray_registered = "no";
  seen.checkpoint_tree = {{"tree", {}, tree}};
  seen.leftover_runs = {
      {"left", {}, LeftoverRuns{"/fsx", {{"0123456789abcdef", 1, 2, 3, true, 4.5, "there", "x"}}}}};
  seen.leftovers = {"x"};
  seen.interrupted = true;
  return {2,
          "local",
          {{1, "", "exit", ""}},
          {{0, Error{ErrorCode::kUnavailable, "rank 0 was lost", ""}}, {1, seen}}};
}

RankPlan SamplePlan() {
  return {"0123456789abcdef",
          1000,
          true,
          {{"share", "storage-shared", 500, R"({"path":"/fsx","visibleWithinMs":100})"},
           {"meet", "meet", 100, "{}"}},
          {{1, "share", "exit", ""}}};
}

TEST_CASE("rank run, plan and events: what is written reads back equal") {
  CHECK(ParseRankRun(RankRunToJson(SampleRun())).value() == SampleRun());
  CHECK(ParseRankRun(RankRunToJson({})).value() == RankRun{});
  CHECK(ParseRankPlan(RankPlanToJson(SamplePlan())).value() == SamplePlan());
  const RankEvent event{"progress", 3, "share", "text \xff"};
  CHECK(ParseRankEvent(RankEventToJson(event)).value() ==
        RankEvent{"progress", 3, "share", "text \xEF\xBF\xBD"});
  CHECK(RankRunToJson(SampleRun()).find('\n') == std::string::npos);
}

TEST_CASE("rank run: other versions and unknown keys are refused") {
  std::string other = RankRunToJson(SampleRun());
  other.replace(other.find("/v1"), 3, "/v2");
  CHECK(ParseRankRun(other).error().message == "apiVersion is not dlc-check/rank-observations/v1");
  CHECK(ParseRankRun("{}").error().message == "apiVersion is not dlc-check/rank-observations/v1");
  CHECK(ParseRankRun("[]").error().code == ErrorCode::kInvalidInput);
  CHECK(
      ParseRankRun(R"({"apiVersion":"dlc-check/rank-observations/v1","sise":2})").error().message ==
      "$: unknown key 'sise'");
}

TEST_CASE("rank plan: what no run could do is refused by name") {
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string text = RankPlanToJson(SamplePlan());
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto plan = ParseRankPlan(text);
    return plan ? "accepted" : plan.error().message;
  };
  CHECK(refusal("0123456789abcdef", "0123456789abcdeF") == "$.runId: expected 16 hex digits");
  CHECK(refusal("\"joinDeadlineMs\":1000", "\"joinDeadlineMs\":-1") ==
        "$.joinDeadlineMs: expected a positive number");
  CHECK(refusal("\"name\":\"meet\"", "\"name\":\"share\"") ==
        "$.steps: two steps are named 'share'");
  CHECK(refusal("\"deadlineMs\":500", "\"deadlineMs\":0") ==
        "$.steps[0]: a step needs a name, a kind and a positive deadlineMs");
  CHECK(refusal("\"step\":\"share\"", "\"step\":\"none\"") == "$.faults: no step is named 'none'");
  CHECK(refusal("\"gather\":true", "\"gather\":1") == "$.gather: expected true or false");
  CHECK(refusal("\"kind\":\"meet\"", "\"kind\":\"meet\",\"more\":1") ==
        "$.steps[1]: $: unknown key 'more'");
}

TEST_CASE("step parameters: strict") {
  const StorageSharedParameters parameters{"/fsx", 100};
  CHECK(ParseFacts<StorageSharedParameters>(FactsToJson(parameters)).value() == parameters);
  CHECK(ParseFacts<StorageSharedParameters>(R"({"path":1})").error().message ==
        "$.path: expected text");
  const FabricPairsParameters pairs{"net", {8, 64}, 1, 2, 3, 4};
  CHECK(ParseFacts<FabricPairsParameters>(FactsToJson(pairs)).value() == pairs);
  const FsdpLayoutParameters layout{"tcp", {"qwen2-tiny"}, {"fsdp2", "hsdp"}, 2, 3, true};
  CHECK(ParseFacts<FsdpLayoutParameters>(FactsToJson(layout)).value() == layout);
  FsdpTrainingParameters training;
  training.backend = "cpu";
  training.provider = "tcp";
  training.model = {"mine", 1, 2, 3, 4, 5, 6, 7, 8.5, 0.5, true};
  training.rows = 9;
  training.sequence = 10;
  training.micro_batches = 11;
  training.steps = 12;
  training.seed = 13;
  training.compute = "bfloat16";
  training.gradients = "float32";
  training.exact = true;
  training.reference = "auto";
  training.predict = {"qwen2.5-1.5b"};
  CHECK(ParseFacts<FsdpTrainingParameters>(FactsToJson(training)).value() == training);
  const FabricCollectivesParameters collectives{"", {"all_reduce"}, {8}, 1, 2};
  CHECK(ParseFacts<FabricCollectivesParameters>(FactsToJson(collectives)).value() == collectives);
}

}  // namespace
}  // namespace dlc

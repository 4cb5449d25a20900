#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <string_view>

#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

CheckpointTraining SampleTraining() {
  return {"cuda", "NVIDIA L4", "NCCL 2.28.9", "qwen2-tiny", 2, 6'000'000'000, 77};
}

CheckpointSave SampleSave() {
  CheckpointSave save;
  save.training = SampleTraining();
  save.not_looked_at = "it does not fit";
  save.refused = "unavailable: cannot write f: ENOSPC";
  save.strategy = "in-place";
  save.notes = {"directory fsync refused: EINVAL", "no rename"};
  save.step = 3;
  save.hash = "aa";
  save.tensors = 30;
  save.bytes = 5'000'000'000;
  save.published = true;
  save.seconds = 1.5;
  save.source_seconds = 0.25;
  save.write_seconds = 0.5;
  save.fsync_seconds = 0.125;
  save.publish_seconds = 0.0625;
  save.losses = {6.25, 0.1, 0};
  save.continued_hash = "bb";
  save.refusals = {{"partial", true, false, "it was taken"}, {"stale", false, true, "EPERM"}};
  save.stopped_by = Error{ErrorCode::kTimedOut, "rank 0 did not answer", "look"};
  return save;
}

CheckpointLoad SampleLoad() {
  CheckpointLoad load;
  load.training = SampleTraining();
  load.not_looked_at = "it does not fit";
  load.role = 1;
  load.other_node = true;
  load.step = 3;
  load.bytes = 5'000'000'000;
  load.seconds = 1.5;
  load.cold_because = "evicted";
  load.resident_fraction = -1;
  load.refused = "damaged: f has another sha256";
  load.hash = "aa";
  load.wrong = {"model.norm.weight", "exp_avg.model.norm.weight"};
  load.wrong_tensors = 9;
  load.reshards = {{1, "aa", ""}, {3, "", "cannot read f: EIO"}};
  load.reshard_not_looked_at = "the state has 9 bytes";
  load.losses = {6.25, 0.1};
  load.resumed_hash = "bb";
  load.stopped_by = Error{ErrorCode::kUnavailable, "no memory", "wait"};
  return load;
}

CheckpointTrainingParameters SampleParameters() {
  FsdpTrainingParameters training;
  training.backend = "cuda";
  training.library = "/x/libnccl.so.2";
  training.host_id_per_rank = true;
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
  training.predict_model = {"larger", 10, 20, 30, 40, 50, 60, 70, 80.5, 1.5, true};
  CheckpointTrainingParameters parameters;
  parameters.path = "/fsx";
  parameters.training = training;
  parameters.most_reshard_bytes = std::int64_t{1} << 40;
  parameters.visible_within_ms = 1500;
  return parameters;
}

template <class T>
std::string Refusal(const std::string& json) {
  const auto facts = ParseFacts<T>(json);
  return facts ? "accepted" : facts.error().message;
}

/// Of the sample, with one piece of its text replaced.
template <class T>
std::string RefusalOf(const T& sample, std::string_view from, const std::string& to) {
  std::string json = FactsToJson(sample);
  const auto at = json.find(from);
  CAPTURE(json);
  CAPTURE(from);
  REQUIRE(at != std::string::npos);
  return Refusal<T>(json.replace(at, from.size(), to));
}

struct Mistyped {
  const char* key;
  const char* value;
  const char* message;
};
constexpr const char* kText = "expected text";
constexpr const char* kWhole = "expected a whole number";
constexpr const char* kNumber = "expected a number";
constexpr const char* kFlag = "expected true or false";
constexpr const char* kList = "expected a list";
constexpr const char* kObject = "expected an object";

/// Each key alone beside `rest`, which is what must be there.
template <class T, std::size_t kCount>
void CheckMistyped(const Mistyped (&rows)[kCount], const std::string& rest) {
  for (const Mistyped& row : rows) {
    CAPTURE(row.key);
    CHECK(Refusal<T>("{" + rest + "\"" + row.key + "\":" + row.value + "}") ==
          std::string("$.") + row.key + ": " + row.message);
  }
}

TEST_CASE("checkpoint rows and parameters: what is written reads back equal") {
  CHECK(ParseFacts<CheckpointSave>(FactsToJson(SampleSave())).value() == SampleSave());
  CHECK(ParseFacts<CheckpointLoad>(FactsToJson(SampleLoad())).value() == SampleLoad());
  CHECK(ParseFacts<CheckpointTrainingParameters>(FactsToJson(SampleParameters())).value() ==
        SampleParameters());
  CHECK(ParseFacts<CheckpointSave>(FactsToJson(CheckpointSave{})).value() == CheckpointSave{});
  CHECK(ParseFacts<CheckpointLoad>(FactsToJson(CheckpointLoad{})).value() == CheckpointLoad{});
}

TEST_CASE("checkpoint rows: in a rank's observations, seen and not") {
  RankObservations seen;
  seen.checkpoint_save = {{"checkpoint-save", {}, SampleSave()},
                          {"again", {}, Error{ErrorCode::kUnavailable, "killed", "look"}}};
  seen.checkpoint_load = {{"checkpoint-load", {}, SampleLoad()},
                          {"again", {}, NotLookedAt{"no", "a finding"}}};
  const RankRun run{1, "local", {}, {{0, seen}}};
  CHECK(ParseRankRun(RankRunToJson(run)).value() == run);
  std::string json = RankRunToJson(run);
  json.replace(json.find("\"resumedHash\""), 13, "\"resumed_hash\"");
  CHECK(ParseRankRun(json).error().message ==
        "$.ranks[0].seen.value.checkpointLoad[0].seen.value: unknown key 'resumed_hash'");
  json = RankRunToJson(run);
  json.replace(json.find("\"continuedHash\""), 15, "\"continued_hash\"");
  CHECK(ParseRankRun(json).error().message ==
        "$.ranks[0].seen.value.checkpointSave[0].seen.value: unknown key 'continued_hash'");
}

TEST_CASE("checkpoint rows: names on the wire stay as they are") {
  CHECK(FactsToJson(SampleSave()) ==
        R"({"training":{"backend":"cuda","device":"NVIDIA L4","transport":"NCCL 2.28.9",)"
        R"("model":"qwen2-tiny","ranks":2,"parameters":6000000000,"process":77},)"
        R"("notLookedAt":"it does not fit","refused":"unavailable: cannot write f: ENOSPC",)"
        R"("strategy":"in-place","notes":["directory fsync refused: EINVAL","no rename"],)"
        R"("step":3,"hash":"aa","tensors":30,"bytes":5000000000,"published":true,)"
        R"("seconds":1.5,"sourceSeconds":0.25,"writeSeconds":0.5,"fsyncSeconds":0.125,)"
        R"("publishSeconds":0.0625,"losses":[6.25,0.1,0.0],"continuedHash":"bb",)"
        R"("refusals":[{"name":"partial","planted":true,"found":"it was taken"},)"
        R"({"name":"stale","caught":true,"found":"EPERM"}],)"
        R"("stoppedBy":{"code":"timed_out","message":"rank 0 did not answer","hint":"look"}})");
  CHECK(FactsToJson(SampleLoad()) ==
        R"({"training":{"backend":"cuda","device":"NVIDIA L4","transport":"NCCL 2.28.9",)"
        R"("model":"qwen2-tiny","ranks":2,"parameters":6000000000,"process":77},)"
        R"("notLookedAt":"it does not fit","role":1,"otherNode":true,"step":3,)"
        R"("bytes":5000000000,"seconds":1.5,"coldBecause":"evicted","residentFraction":-1.0,)"
        R"("refused":"damaged: f has another sha256","hash":"aa",)"
        R"("wrong":["model.norm.weight","exp_avg.model.norm.weight"],"wrongTensors":9,)"
        R"("reshards":[{"ranks":1,"hash":"aa"},{"ranks":3,"error":"cannot read f: EIO"}],)"
        R"("reshardNotLookedAt":"the state has 9 bytes","losses":[6.25,0.1],)"
        R"("resumedHash":"bb",)"
        R"("stoppedBy":{"code":"unavailable","message":"no memory","hint":"wait"}})");
}

TEST_CASE("checkpoint rows: unknown and missing keys are refused with their path") {
  CHECK(RefusalOf(SampleSave(), "\"strategy\"", "\"strategie\"") == "$: unknown key 'strategie'");
  CHECK(RefusalOf(SampleSave(), "\"device\"", "\"devise\"") == "$.training: unknown key 'devise'");
  CHECK(RefusalOf(SampleSave(), "\"caught\"", "\"cought\"") ==
        "$.refusals[1]: unknown key 'cought'");
  CHECK(RefusalOf(SampleSave(), "\"hint\"", "\"hints\"") == "$.stoppedBy: unknown key 'hints'");
  CHECK(RefusalOf(SampleLoad(), "\"role\"", "\"rolle\"") == "$: unknown key 'rolle'");
  CHECK(RefusalOf(SampleLoad(), "\"error\"", "\"errors\"") ==
        "$.reshards[1]: unknown key 'errors'");
  CHECK(RefusalOf(SampleParameters(), "\"mostReshardBytes\"", "\"most\"") ==
        "$: unknown key 'most'");
  CHECK(RefusalOf(SampleParameters(), "\"kvHeads\"", "\"kv_heads\"") ==
        "$.training.model: unknown key 'kv_heads'");
  CHECK(Refusal<CheckpointSave>("{}") == "$: missing key 'training'");
  CHECK(Refusal<CheckpointLoad>(R"({"role":1})") == "$: missing key 'training'");
  CHECK(Refusal<CheckpointTrainingParameters>("{}") == "$: missing key 'training'");
  CHECK(Refusal<CheckpointLoad>("[]") == "$: expected an object");
}

TEST_CASE("checkpoint rows: mistyped values are refused with their path, for every key") {
  const std::string training = R"("training":{},)";
  constexpr Mistyped kSave[] = {
      {"notLookedAt", "1", kText},        {"refused", "[]", kText},
      {"strategy", "true", kText},        {"notes", "\"one\"", kList},
      {"step", "\"2\"", kWhole},          {"hash", "1", kText},
      {"tensors", "1.5", kWhole},         {"bytes", "9223372036854775808", kWhole},
      {"published", "1", kFlag},          {"seconds", "\"1\"", kNumber},
      {"sourceSeconds", "true", kNumber}, {"writeSeconds", "[]", kNumber},
      {"fsyncSeconds", "{}", kNumber},    {"publishSeconds", "null", kNumber},
      {"losses", "6.25", kList},          {"continuedHash", "{}", kText},
      {"refusals", "{}", kList},          {"stoppedBy", "\"late\"", kObject}};
  CheckMistyped<CheckpointSave>(kSave, training);
  constexpr Mistyped kLoad[] = {
      {"notLookedAt", "1", kText},     {"role", "2147483648", "number out of range"},
      {"otherNode", "0", kFlag},       {"step", "true", kWhole},
      {"bytes", "1e3", kWhole},        {"seconds", "\"1\"", kNumber},
      {"coldBecause", "false", kText}, {"residentFraction", "\"-1\"", kNumber},
      {"refused", "1", kText},         {"hash", "[]", kText},
      {"wrong", "\"one\"", kList},     {"wrongTensors", "\"1\"", kWhole},
      {"reshards", "{}", kList},       {"reshardNotLookedAt", "1", kText},
      {"losses", "{}", kList},         {"resumedHash", "1", kText},
      {"stoppedBy", "[]", kObject}};
  CheckMistyped<CheckpointLoad>(kLoad, training);
  constexpr Mistyped kParameters[] = {{"path", "1", kText},
                                      {"visibleWithinMs", "1.5", kWhole},
                                      {"mostReshardBytes", "\"1\"", kWhole}};
  CheckMistyped<CheckpointTrainingParameters>(kParameters,
                                              R"("training":{"model":{},"predictModel":{}},)");
}

TEST_CASE("checkpoint rows: mistyped values further in") {
  const CheckpointSave save = SampleSave();
  CHECK(RefusalOf(save, "\"ranks\":2", "\"ranks\":\"2\"") ==
        "$.training.ranks: expected a whole number");
  CHECK(RefusalOf(save, "\"process\":77", "\"process\":7.5") ==
        "$.training.process: expected a whole number");
  CHECK(RefusalOf(save, "[6.25,0.1", "[6.25,\"0.1\"") == "$.losses[1]: expected a number");
  CHECK(RefusalOf(save, "\"planted\":true", "\"planted\":1") ==
        "$.refusals[0].planted: expected true or false");
  CHECK(RefusalOf(save, "\"no rename\"", "7") == "$.notes[1]: expected text");
  CHECK(RefusalOf(save, "\"timed_out\"", "\"late\"") == "$.stoppedBy.code: unknown error code");
  CHECK(RefusalOf(SampleLoad(), "\"ranks\":3", "\"ranks\":null") ==
        "$.reshards[1].ranks: expected a whole number");
  CHECK(RefusalOf(SampleParameters(), "\"steps\":12", "\"steps\":\"12\"") ==
        "$.training.steps: expected a whole number");
}

TEST_CASE("checkpoint rows: a loss that is no number does not read back as one") {
  for (const double loss :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CheckpointSave save = SampleSave();
    save.losses[1] = loss;
    CHECK(Refusal<CheckpointSave>(FactsToJson(save)) == "$.losses[1]: expected a number");
  }
}

}  // namespace
}  // namespace dlc

#include "probes/node/resume/sharded_state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/training/cpu_backend.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

/// Every tensor of the state, whole, by index.
using WholeState = std::vector<std::vector<float>>;

constexpr int kWorlds[] = {1, 2, 3, 5, 40};  // of 40, some have nothing

/// Small enough to change each element in turn, with rows that no world divides.
Qwen2Shape SmallModel() {
  return {4, 1, 2, 1, 2, 6, 7, 10000, 1e-6, false};
}

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(30));
}

WholeState WholeOf(const ShardPlan& plan) {
  WholeState whole;
  for (std::size_t index = 0; index < StateTensorCount(plan); ++index) {
    const ModelParameter& parameter = plan.parameters[index / 3];
    std::vector<float>& tensor = whole.emplace_back();
    for (std::int64_t i = 0; i < parameter.Elements(); ++i) {
      tensor.push_back(0.5F + static_cast<float>(index) + static_cast<float>(i) / 1024);
    }
  }
  return whole;
}

/// One rank's part on the CPU. Between the parts lies what no tensor has.
class Shard {
 public:
  Shard(const Qwen2Shape& model, int ranks, int rank)
      : backend_(OpenCpuTrainingBackend()),
        plan_(MakeShardPlan(model, ranks, rank)),
        tensors_(StateTensorsOf(plan_)) {
    std::int64_t taken = 0;
    for (TrainingMemory* memory : {&states_.master, &states_.m, &states_.v}) {
      REQUIRE(memory->Take(*backend_, plan_.total, DataType::kFloat32, taken));
    }
  }

  void AddTo(StateHashes& hashes, const WholeState& whole, float filling) const {
    for (const TrainingMemory* memory : {&states_.master, &states_.m, &states_.v}) {
      std::fill_n(memory->Floats(), plan_.total, filling);
    }
    for (const StateTensor& one : tensors_) {
      std::copy_n(&whole[one.index][static_cast<std::size_t>(one.first)], one.count,
                  PlaceOf(states_, one));
    }
    REQUIRE(AddStateHashes(*backend_, tensors_, states_, hashes));
  }

  const ShardPlan& Plan() const { return plan_; }
  const std::vector<StateTensor>& Tensors() const { return tensors_; }

 private:
  std::unique_ptr<TrainingBackend> backend_;
  ShardPlan plan_;
  std::vector<StateTensor> tensors_;
  ShardStates states_;
};

class World {
 public:
  World(const Qwen2Shape& model, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      shards_.push_back(std::make_unique<Shard>(model, ranks, rank));
    }
  }

  StateHashes Hashes(const WholeState& whole, float filling = -7) const {
    StateHashes hashes(whole.size(), 0);
    for (const auto& shard : shards_) {
      shard->AddTo(hashes, whole, filling);
    }
    return hashes;
  }
  const std::vector<std::unique_ptr<Shard>>& Shards() const { return shards_; }
  const ShardPlan& Plan() const { return shards_.front()->Plan(); }

 private:
  std::vector<std::unique_ptr<Shard>> shards_;
};

/// Which tensors have another hash.
std::vector<std::size_t> Changed(const StateHashes& before, const StateHashes& after) {
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i]) {
      changed.push_back(i);
    }
  }
  return changed;
}

void FlipLowestBit(float& value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits ^= 1U;
  std::memcpy(&value, &bits, sizeof bits);
}

TEST_CASE("every element of every tensor lies on one rank, under its name and rows") {
  for (const int ranks : kWorlds) {
    CAPTURE(ranks);
    const World world(SmallModel(), ranks);
    const ShardPlan& plan = world.Plan();
    WholeState seen = WholeOf(plan);
    for (auto& tensor : seen) {
      std::fill(tensor.begin(), tensor.end(), 0.0F);
    }
    for (const auto& shard : world.Shards()) {
      for (const StateTensor& one : shard->Tensors()) {
        const ModelParameter& parameter = plan.parameters[one.index / 3];
        CHECK(one.tensor.name == StateTensorName(plan, one.index));
        CHECK(one.tensor.shape == parameter.shape);
        CHECK(one.tensor.first_row * parameter.RowElements() == one.first);
        CHECK(one.tensor.rows * parameter.RowElements() == one.count);
        for (std::int64_t i = one.first; i < one.first + one.count; ++i) {
          seen[one.index][static_cast<std::size_t>(i)] += 1;
        }
      }
    }
    for (const auto& tensor : seen) {
      CHECK(std::all_of(tensor.begin(), tensor.end(), [](float times) { return times == 1; }));
    }
  }
}

TEST_CASE("names: three for each parameter, all different") {
  const ShardPlan plan = MakeShardPlan(SmallModel(), 2, 0);
  REQUIRE(StateTensorCount(plan) == 3 * plan.parameters.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < StateTensorCount(plan); ++i) {
    names.insert(StateTensorName(plan, i));
  }
  CHECK(names.size() == StateTensorCount(plan));
  const std::string name = plan.parameters[1].name;
  CHECK(StateTensorName(plan, 3) == name);
  CHECK(StateTensorName(plan, 4) == "exp_avg." + name);
  CHECK(StateTensorName(plan, 5) == "exp_avg_sq." + name);
}

TEST_CASE("the hash of the same values is the same on any number of ranks, whatever fills") {
  for (const Qwen2Shape& model : {SmallModel(), *Qwen2Preset("qwen2-tiny")}) {
    const World one(model, 1);
    const WholeState whole = WholeOf(one.Plan());
    const StateHashes expected = one.Hashes(whole);
    CHECK(std::set<std::uint64_t>(expected.begin(), expected.end()).size() == whole.size());
    for (const int ranks : kWorlds) {
      CAPTURE(ranks);
      const World world(model, ranks);
      CHECK(Changed(expected, world.Hashes(whole)).empty());
      CHECK(Changed(expected, world.Hashes(whole, 42)).empty());
      CHECK(StateHashOf(world.Hashes(whole)) == StateHashOf(expected));
    }
  }
}

TEST_CASE("one bit of any one element changes the hash of its tensor, and of no other") {
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    const World world(SmallModel(), ranks);
    WholeState whole = WholeOf(world.Plan());
    const StateHashes before = world.Hashes(whole);
    for (std::size_t index = 0; index < whole.size(); ++index) {
      for (float& value : whole[index]) {
        const float good = value;
        FlipLowestBit(value);
        const StateHashes after = world.Hashes(whole);
        REQUIRE(Changed(before, after) == std::vector<std::size_t>{index});
        REQUIRE(StateHashOf(after) != StateHashOf(before));
        value = good;
      }
    }
    CHECK(Changed(before, world.Hashes(whole)).empty());
  }
}

TEST_CASE("values that compare equal, or to nothing, are told apart by their bits") {
  const World world(SmallModel(), 2);
  WholeState whole = WholeOf(world.Plan());
  whole[0][0] = 0.0F;
  const StateHashes zero = world.Hashes(whole);
  whole[0][0] = -0.0F;
  CHECK(Changed(zero, world.Hashes(whole)).size() == 1);
  whole[0][0] = std::numeric_limits<float>::quiet_NaN();
  const StateHashes one_nan = world.Hashes(whole);
  CHECK(Changed(one_nan, world.Hashes(whole)).empty());
  FlipLowestBit(whole[0][0]);
  CHECK(Changed(one_nan, world.Hashes(whole)).size() == 1);
}

TEST_CASE("two elements that change places change the hash") {
  const World world(SmallModel(), 3);
  WholeState whole = WholeOf(world.Plan());
  const StateHashes before = world.Hashes(whole);
  const auto swapped = [&](float& a, float& b) {
    std::swap(a, b);
    const auto changed = Changed(before, world.Hashes(whole));
    std::swap(a, b);
    return changed;
  };
  for (std::size_t index = 0; index < whole.size(); ++index) {
    CAPTURE(index);
    auto& tensor = whole[index];
    // With each later element: in the same rank's part, and across the cuts.
    for (std::size_t i = 1; i < tensor.size(); ++i) {
      REQUIRE(swapped(tensor[0], tensor[i]) == std::vector<std::size_t>{index});
    }
    // With the same place of each other tensor: a moment is not a parameter.
    for (std::size_t other = index + 1; other < whole.size(); ++other) {
      REQUIRE(swapped(tensor[0], whole[other][0]) == std::vector<std::size_t>{index, other});
    }
  }
}

TEST_CASE("tensors that change places change the hash of all") {
  const World world(SmallModel(), 2);
  WholeState whole = WholeOf(world.Plan());
  const StateHashes before = world.Hashes(whole);
  std::swap(whole[1], whole[2]);  // the two moments
  const StateHashes after = world.Hashes(whole);
  CHECK(Changed(before, after) == std::vector<std::size_t>{1, 2});
  CHECK(StateHashOf(before) != StateHashOf(after));
}

TEST_CASE("the same values in another tensor, or moment, have another hash") {
  const World world(SmallModel(), 2);
  WholeState whole = WholeOf(world.Plan());
  for (auto& tensor : whole) {
    std::fill(tensor.begin(), tensor.end(), 0.0F);
  }
  const StateHashes hashes = world.Hashes(whole);
  CHECK(std::set<std::uint64_t>(hashes.begin(), hashes.end()).size() == hashes.size());
}

TEST_CASE("the text of hashes: 16 digits each, and the sha256 of all in their order") {
  CHECK(StateHashText(0) == "0000000000000000");
  CHECK(StateHashText(0x12ab) == "00000000000012ab");
  CHECK(StateHashText(~std::uint64_t{0}) == "ffffffffffffffff");
  // printf 0000000000000000 | sha256sum, and of ...1 and ...2.
  CHECK(StateHashOf({0}) == "fcdb4b423f4e5283afa249d762ef6aef150e91fccd810d43e5e719d14512dec7");
  CHECK(StateHashOf({1, 2}) == "c275ef8870757e3b5a4a547a9e4a595022e416e696b32ac0a26e387b1061cda4");
  CHECK(StateHashOf({2, 1}) != StateHashOf({1, 2}));
}

TEST_CASE("hashes are summed over all ranks, modulo 2^64, and are the same on all") {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const auto outcomes = RunRanks(ranks, [](Exchange& exchange) -> std::string {
      const auto rank = static_cast<std::uint64_t>(exchange.rank());
      const auto size = static_cast<std::uint64_t>(exchange.size());
      const auto sum = SumStateHashes({rank + 1, kHalf, ~rank}, exchange, Soon());
      if (!sum) {
        return sum.error().message;
      }
      const std::uint64_t numbers = size * (size + 1) / 2;
      const StateHashes expected = {numbers, size % 2 == 0 ? 0 : kHalf, std::uint64_t{0} - numbers};
      return *sum == expected ? "" : "another sum";
    });
    CHECK(Trouble(outcomes) == "");
  }
}

TEST_CASE("each rank's own part and the sum over real ranks are the unsharded hash") {
  const World one(SmallModel(), 1);
  const WholeState whole = WholeOf(one.Plan());
  const StateHashes expected = one.Hashes(whole);
  const auto outcomes = RunRanks(3, [&](Exchange& exchange) -> std::string {
    StateHashes mine(whole.size(), 0);
    Shard(SmallModel(), exchange.size(), exchange.rank()).AddTo(mine, whole, -7);
    const auto sum = SumStateHashes(mine, exchange, Soon());
    return sum && *sum == expected && mine != expected ? "" : "another hash";
  });
  CHECK(Trouble(outcomes) == "");
}

TEST_CASE("a rank with another number of tensors is named") {
  const auto outcomes = RunRanks(3, [](Exchange& exchange) -> std::string {
    const StateHashes mine(exchange.rank() == 1 ? 2 : 3, 5);
    const auto sum = SumStateHashes(mine, exchange, Soon());
    const std::string odd = exchange.rank() == 1 ? "rank 0" : "rank 1";
    return !sum && sum.error().message == odd + " has another number of tensors" ? "" : "no error";
  });
  CHECK(Trouble(outcomes) == "");
}

}  // namespace
}  // namespace dlc

#include "probes/node/fsdp/layout_proof.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fsdp/layout_parameters.h"
#include "probes/node/fsdp/observe_layout.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(60));
}

const FsdpLayoutParameters kTiny{"", {"qwen2-tiny"}, FsdpLayoutNames(), 0, 0, false};

std::string PlaceText(const FsdpLayoutProof& proof) {
  if (!proof.first_wrong) {
    return "none";
  }
  const FsdpWrongElement& wrong = *proof.first_wrong;
  return proof.layout + " " + wrong.where + " of rank " + std::to_string(wrong.owner) + " " +
         wrong.parameter + "[" + std::to_string(wrong.row) + "," + std::to_string(wrong.column) +
         "]";
}

/// Which controls were planted and missed, or not planted.
std::string ControlTrouble(const FsdpLayoutProof& proof) {
  std::string trouble;
  for (const FsdpControl& control : proof.controls) {
    const bool can = proof.shard_ranks > 1 || control.name != "swapped-shards";
    if (control.planted != can || control.caught != can) {
      trouble += " " + control.name;
    }
  }
  return trouble;
}

std::string GoodProofs(const FsdpLayoutExperiment& seen, std::size_t count) {
  if (seen.stopped_by) {
    return seen.stopped_by->message;
  }
  if (seen.proofs.size() != count) {
    return "proofs are missing";
  }
  for (const FsdpLayoutProof& proof : seen.proofs) {
    const std::string what = proof.model + " " + proof.layout + ": ";
    if (proof.wrong_elements != 0) {
      return what + PlaceText(proof);
    }
    if (std::string trouble = ControlTrouble(proof); !trouble.empty()) {
      return what + "controls" + trouble;
    }
    if (proof.compared_elements < proof.moved_elements) {
      return what + "too little was compared";
    }
  }
  return "";
}

/// Bytes of all ranks against the formula, by a sum over the exchange.
std::string BytesTrouble(const FsdpLayoutExperiment& seen, Exchange& exchange) {
  for (const FsdpLayoutProof& proof : seen.proofs) {
    const auto all = exchange.AllGather(std::to_string(proof.sent_bytes), Soon());
    if (!all) {
      return all.error().message;
    }
    std::int64_t sent = 0;
    for (const std::string& one : *all) {
      sent += std::stoll(one);
    }
    if (sent != proof.expected_bytes) {
      return proof.layout + " sent " + std::to_string(sent) + " bytes, expected " +
             std::to_string(proof.expected_bytes);
    }
  }
  return "";
}

TEST_CASE("every layout keeps every element of the awkward model, over any number of ranks") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    CAPTURE(ranks);
    const auto outcomes = RunRanks(ranks, [](Exchange& exchange) -> std::string {
      const auto seen = ObserveFsdpLayout(kTiny, false, exchange, Soon(), [](const auto&) {});
      if (!seen) {
        return seen.error().message;
      }
      for (const FsdpLayoutProof& proof : seen->proofs) {
        if (proof.moved_elements != proof.model_elements || proof.whole_units != proof.units) {
          return proof.layout + ": not all was moved";
        }
      }
      const std::string trouble = GoodProofs(*seen, 5);
      return trouble.empty() ? BytesTrouble(*seen, exchange) : trouble;
    });
    CHECK(Trouble(outcomes) == "");
  }
}

TEST_CASE("the real shapes around their cuts, padded by three ranks") {
  const auto outcomes = RunRanks(3, [](Exchange& exchange) -> std::string {
    FsdpLayoutParameters real = kTiny;
    real.models = {"qwen2.5-1.5b"};
    const auto seen = ObserveFsdpLayout(real, false, exchange, Soon(), [](const auto&) {});
    if (!seen) {
      return seen.error().message;
    }
    const FsdpLayoutProof& fsdp2 = seen->proofs.front();
    if (fsdp2.moved_units != 2 || fsdp2.whole_units != 0 || fsdp2.filling_elements == 0 ||
        fsdp2.model_elements != 1543714304) {
      return "the layer's and the root's cuts were not moved";
    }
    const std::string trouble = GoodProofs(*seen, 5);
    return trouble.empty() ? BytesTrouble(*seen, exchange) : trouble;
  });
  CHECK(Trouble(outcomes) == "");
}

TEST_CASE("whole units as long as there is room for them") {
  const auto outcomes = RunRanks(2, [](Exchange& exchange) -> std::string {
    FsdpLayoutParameters real = kTiny;
    real.models = {"qwen2.5-0.5b"};
    real.layouts = {"zero3", "fsdp2"};
    real.whole_elements = 15'000'000;  // a layer has 14.9 million
    const auto seen = ObserveFsdpLayout(real, false, exchange, Soon(), [](const auto&) {});
    if (!seen) {
      return seen.error().message;
    }
    if (seen->proofs[0].whole_units != 1 || seen->proofs[1].whole_units != 0) {
      return "another number of units was moved whole";
    }
    return GoodProofs(*seen, 2);
  });
  CHECK(Trouble(outcomes) == "");
}

TEST_CASE("a planted bit is found on all ranks, at the place of the rank that gave it") {
  const auto outcomes = RunRanks(3, [](Exchange& exchange) -> std::string {
    const bool mine = exchange.rank() == 1;
    const auto seen = ObserveFsdpLayout(kTiny, mine, exchange, Soon(), [](const auto&) {});
    if (!seen) {
      return seen.error().message;
    }
    const FsdpLayoutProof& first = seen->proofs.front();
    if (first.wrong_elements != 1 || first.first_wrong->owner != 1 ||
        PlaceText(first) !=
            "fsdp2 all-gather of rank 1 "
            "model.layers.0.self_attn.q_proj.weight[30,0]") {
      return PlaceText(first);
    }
    return seen->proofs.back().wrong_elements == 0 ? "" : PlaceText(seen->proofs.back());
  });
  CHECK(Trouble(outcomes) == "");
}

// What a wrong layout or a wrong collective does.

/// Does what it should, and then harm.
class HarmfulRanks : public Communicator {
 public:
  using Harm = std::function<void(Communicator&, std::uint32_t* data, std::size_t block)>;
  HarmfulRanks(Communicator& ranks, Harm gathered, Harm reduced)
      : ranks_(ranks), gathered_(std::move(gathered)), reduced_(std::move(reduced)) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  Result<void> AllReduce(const void* send, void* receive, std::size_t count, DataType type,
                         ReduceOp op, Deadline deadline) override {
    return ranks_.AllReduce(send, receive, count, type, op, deadline);
  }
  Result<void> AllGather(const void* send, void* receive, std::size_t send_count, DataType type,
                         Deadline deadline) override {
    auto done = ranks_.AllGather(send, receive, send_count, type, deadline);
    gathered_(ranks_, static_cast<std::uint32_t*>(receive), send_count);
    return done;
  }
  Result<void> ReduceScatter(const void* send, void* receive, std::size_t receive_count,
                             DataType type, ReduceOp op, Deadline deadline) override {
    auto done = ranks_.ReduceScatter(send, receive, receive_count, type, op, deadline);
    reduced_(ranks_, static_cast<std::uint32_t*>(receive), receive_count);
    return done;
  }
  Result<void> Broadcast(const void* send, void* receive, std::size_t count, DataType type,
                         int root, Deadline deadline) override {
    return ranks_.Broadcast(send, receive, count, type, root, deadline);
  }
  Result<void> Send(const void* send, std::size_t count, DataType type, int peer,
                    Deadline deadline) override {
    return ranks_.Send(send, count, type, peer, deadline);
  }
  Result<void> Receive(void* receive, std::size_t count, DataType type, int peer,
                       Deadline deadline) override {
    return ranks_.Receive(receive, count, type, peer, deadline);
  }
  Result<void> SendReceive(const void* send, int to, void* receive, int from, std::size_t count,
                           DataType type, Deadline deadline) override {
    return ranks_.SendReceive(send, to, receive, from, count, type, deadline);
  }
  Result<void> Barrier(Deadline deadline) override { return ranks_.Barrier(deadline); }
  void Abort() override { ranks_.Abort(); }
  Result<std::unique_ptr<Registration>> Register(void* data, std::size_t bytes) override {
    return ranks_.Register(data, bytes);
  }

 private:
  Communicator& ranks_;
  Harm gathered_;
  Harm reduced_;
};

void NoHarm(Communicator& /*ranks*/, std::uint32_t* /*data*/, std::size_t /*block*/) {}

struct WrongProof {
  ShardLayout cut = ShardLayout::kFsdp2;
  LayoutMaker make = MakeUnitLayout;
  HarmfulRanks::Harm gathered = NoHarm;
  HarmfulRanks::Harm reduced = NoHarm;
  std::string found;  ///< PlaceText on rank 0 has this in it
};

/// "" if rank 0 of three finds what it should.
std::string Find(const WrongProof& wrong) {
  return Trouble(RunRanks(3, [&](Exchange& exchange) -> std::string {
    auto opened = FabricCommunicator::Open({}, exchange, Soon());
    if (!opened) {
      return opened.error().message;
    }
    HarmfulRanks ranks(**opened, wrong.gathered, wrong.reduced);
    LayoutProofOptions options;
    options.parameters = Qwen2Parameters(*Qwen2Preset("qwen2-tiny"));
    options.model = "qwen2-tiny";
    options.layout = ShardLayoutName(wrong.cut);
    options.cut = wrong.cut;
    options.make = wrong.make;
    std::int64_t none = 0;
    const auto seen = ProveLayout(
        {ranks, nullptr, exchange.rank(), exchange.size(), [] { return std::int64_t{0}; }}, options,
        none, Soon());
    if (auto met = exchange.Barrier(Soon()); !met) {
      return met.error().message;
    }
    if (!seen) {
      return seen.error().message;
    }
    const std::string text = PlaceText(*seen);
    return exchange.rank() > 0 || text.find(wrong.found) != std::string::npos ? "" : text;
  }));
}

TEST_CASE("a wrong layout is found before anything is moved by it") {
  using Parameters = std::vector<ModelParameter>;
  WrongProof wrong;
  SUBCASE("shards that are not padded") {
    wrong.make = [](ShardLayout cut, const Parameters& parameters, int unit, int ranks, int rank) {
      // 509 rows over 3 ranks are 170 and 169: so many floor(rows / n) would lose.
      UnitLayout layout = MakeUnitLayout(cut, parameters, unit, ranks, rank);
      layout.shard_elements -= unit == 3 ? 60 : 0;
      return layout;
    };
    wrong.found = "fsdp2 layout of rank 0";
  }
  SUBCASE("ranks in another order") {
    wrong.make = [](ShardLayout cut, const Parameters& parameters, int unit, int ranks, int rank) {
      UnitLayout layout = MakeUnitLayout(cut, parameters, unit, ranks, ranks - 1 - rank);
      for (std::size_t i = 0; i < layout.unshard.size(); ++i) {
        Piece& piece = layout.unshard[i];
        const std::int64_t shard = ranks - 1 - piece.from / layout.shard_elements;
        piece.from = shard * layout.shard_elements + piece.from % layout.shard_elements;
        layout.pack_gradient[i].to = piece.from;
      }
      return layout;
    };
    wrong.found = "fsdp2 layout of rank 2 model.layers.0.self_attn.q_proj.weight[0,0]";
  }
  SUBCASE("another layout's cuts") {
    wrong.make = [](ShardLayout, const Parameters& parameters, int unit, int ranks, int rank) {
      return MakeUnitLayout(ShardLayout::kZero3, parameters, unit, ranks, rank);
    };
    wrong.found = "fsdp2 layout of rank";
  }
  SUBCASE("no filling for alignment") {
    wrong.cut = ShardLayout::kFsdp1Aligned;
    wrong.make = [](ShardLayout, const Parameters& parameters, int unit, int ranks, int rank) {
      return MakeUnitLayout(ShardLayout::kFsdp1, parameters, unit, ranks, rank);
    };
    wrong.found = "fsdp1-aligned layout of rank";
  }
  SUBCASE("a piece that is missing on the way back") {
    wrong.make = [](ShardLayout cut, const Parameters& parameters, int unit, int ranks, int rank) {
      UnitLayout layout = MakeUnitLayout(cut, parameters, unit, ranks, rank);
      layout.pack_gradient.pop_back();
      return layout;
    };
    wrong.found = "fsdp2 layout of rank 0";
  }
  SUBCASE("an element of another rank's taken for its own") {
    wrong.make = [](ShardLayout cut, const Parameters& parameters, int unit, int ranks, int rank) {
      UnitLayout layout = MakeUnitLayout(cut, parameters, unit, ranks, rank);
      layout.owned.front().first += 60;
      return layout;
    };
    wrong.found = "fsdp2 layout of rank 0 model.layers.0.self_attn.q_proj.weight[1,0]";
  }
  CHECK(Find(wrong) == "");
}

TEST_CASE("a wrong collective is found at the first place that it harms") {
  WrongProof wrong;
  SUBCASE("two ranks' shards in each other's place") {
    wrong.gathered = [](Communicator&, std::uint32_t* data, std::size_t block) {
      std::swap_ranges(data + block, data + 2 * block, data + 2 * block);
    };
    wrong.found = "all-gather of rank 1 model.layers.0.self_attn.q_proj.weight[20,0]";
  }
  SUBCASE("padding that leaks") {
    // Of the root, the last rank has one row of the embedding less; then come 20 elements of a
    // norm.
    wrong.gathered = [](Communicator&, std::uint32_t* data, std::size_t block) {
      std::uint32_t& padding = data[3 * block - 21];
      padding = padding == 0 ? 7 : padding;
    };
    wrong.found = "fsdp2 all-gather of rank 2 [10199,0]";
  }
  SUBCASE("a shard that did not arrive") {
    wrong.gathered = [](Communicator&, std::uint32_t* data, std::size_t block) {
      std::memset(data + 2 * block, 0, block * sizeof(*data));
    };
    wrong.found = "all-gather of rank 2";
  }
  SUBCASE("a sum in a neighbour's shard") {
    wrong.reduced = [](Communicator& ranks, std::uint32_t* data, std::size_t block) {
      std::vector<std::uint32_t> own(data, data + block);
      const int size = ranks.size();
      REQUIRE(ranks
                  .SendReceive(own.data(), (ranks.rank() + 1) % size, data,
                               (ranks.rank() + size - 1) % size, block, DataType::kInt32, Soon())
                  .has_value());
    };
    wrong.found = "reduce-scatter of rank 0";
  }
  SUBCASE("sums that were divided") {
    wrong.reduced = [](Communicator&, std::uint32_t* data, std::size_t block) {
      for (std::size_t i = 0; i < block; ++i) {
        data[i] /= 3;
      }
    };
    wrong.found = "reduce-scatter of rank 0 model.layers.0.self_attn.q_proj.weight[0,0]";
  }
  CHECK(Find(wrong) == "");
}

TEST_CASE("copies are of the ranks of one machine, else of the largest proper divisor") {
  const auto on = [](const std::vector<std::string>& machines) {
    std::vector<FabricRank> ranks;
    for (const std::string& machine : machines) {
      ranks.push_back({static_cast<int>(ranks.size()), "", machine, "", 1, {}});
    }
    return ranks;
  };
  CHECK(ChooseShardRanks(on({"a", "a", "b", "b", "c", "c"})) == 2);
  CHECK(ChooseShardRanks(on({"a", "b", "a", "b", "a", "b"})) == 3);
  CHECK(ChooseShardRanks(on({"a", "a", "a", "b", "b", "c"})) == 3);
  CHECK(ChooseShardRanks(on({"a", "a", "a", "a"})) == 2);
  CHECK(ChooseShardRanks(on({"a", "a", "a"})) == 1);
  CHECK(ChooseShardRanks(on({"a"})) == 1);
}

}  // namespace
}  // namespace dlc

#include "probes/node/fabric/ring.h"

#include <algorithm>
#include <cstring>

#include "kernels/reduction.h"
#include "probes/node/fabric/pipeline.h"

namespace dlc {
namespace {

struct Range {
  std::size_t first = 0;  ///< element
  std::size_t count = 0;
};

/// The order in which pieces go round: groups of pieces; in a group, hop after hop; in a hop, piece
/// after piece. Item i of a rank's sends needs item i - group of its receives, except in a group's
/// first hop.
struct Round {
  std::size_t ranks;
  std::size_t rank;
  std::size_t hops;
  std::size_t group;
  std::size_t groups;

  struct Item {
    std::size_t hop;
    std::size_t piece;  ///< number within its block
  };
  std::size_t Items() const { return groups * hops * group; }
  Item At(std::size_t i) const {
    const std::size_t per_group = hops * group;
    return {i % per_group / group, i / per_group * group + i % group};
  }
  /// Block that this rank sends in a hop, when it starts with its own; and the one it receives.
  std::size_t SendBlock(std::size_t hop) const { return (rank + 2 * ranks - hop % ranks) % ranks; }
  std::size_t ReceiveBlock(std::size_t hop) const { return SendBlock(hop + 1); }
  std::size_t SendAfter(std::size_t i) const { return At(i).hop == 0 ? 0 : i - group + 1; }
};

/// Blocks of `count` elements: equal but for a remainder that the first blocks take.
struct Layout {
  std::size_t count;
  std::size_t blocks;
  std::size_t piece;  ///< elements

  Range Block(std::size_t block) const {
    const std::size_t base = count / blocks;
    const std::size_t rest = count % blocks;
    return {block * base + std::min(block, rest), base + (block < rest ? 1 : 0)};
  }
  Range Piece(std::size_t block, std::size_t number) const {
    const Range whole = Block(block);
    const std::size_t skip = std::min(number * piece, whole.count);
    return {whole.first + skip, std::min(piece, whole.count - skip)};
  }
  std::size_t PiecesPerBlock() const { return (Block(0).count + piece - 1) / piece; }
};

Round MakeRound(const FabricTransport& transport, const Layout& layout, std::size_t hops,
                std::size_t max_group) {
  const std::size_t pieces = std::max<std::size_t>(layout.PiecesPerBlock(), 1);
  const std::size_t group = std::min(max_group, pieces);
  return {static_cast<std::size_t>(transport.size()), static_cast<std::size_t>(transport.rank()),
          hops, group, (pieces + group - 1) / group};
}

PipelinePlan NeighbourPlan(const FabricTransport& transport, const Round& round) {
  PipelinePlan plan;
  const int size = transport.size();
  plan.to = (transport.rank() + 1) % size;
  plan.from = (transport.rank() + size - 1) % size;
  plan.sends = round.Items();
  plan.receives = round.Items();
  plan.window = 2 * round.group;
  plan.send_after = [round](std::size_t i) { return round.SendAfter(i); };
  return plan;
}

Layout MakeLayout(std::size_t count, std::size_t blocks, std::size_t element_bytes,
                  const RingTuning& tuning) {
  return {count, blocks, std::max<std::size_t>(tuning.piece_bytes / element_bytes, 1)};
}

}  // namespace

Result<void> RingAllReduce(FabricTransport& transport, const RingTuning& tuning, const void* send,
                           void* receive, std::size_t count, DataType type, ReduceOp op) {
  const std::size_t element = ElementBytes(type);
  const auto size = static_cast<std::size_t>(transport.size());
  const Layout layout = MakeLayout(count, size, element, tuning);
  // Reduce-scatter in the first size - 1 hops, all-gather of the results in the others.
  const Round round = MakeRound(transport, layout, 2 * (size - 1), tuning.group);
  PipelinePlan plan = NeighbourPlan(transport, round);
  const bool in_place = send == receive;
  const std::size_t slot_bytes = layout.piece * element;
  auto scratch = transport.Scratch(in_place ? plan.window * slot_bytes : 0);
  if (!scratch) {
    return std::move(scratch).error();
  }
  const auto* mine = static_cast<const std::byte*>(send);
  auto* out = static_cast<std::byte*>(receive);
  plan.send = [&, round](std::size_t i) -> PipelinePlan::Source {
    const Round::Item item = round.At(i);
    const Range piece = layout.Piece(round.SendBlock(item.hop), item.piece);
    return {(item.hop == 0 ? mine : out) + piece.first * element, piece.count * element};
  };
  plan.receive = [&, round](std::size_t i) -> PipelinePlan::Target {
    const Round::Item item = round.At(i);
    const Range piece = layout.Piece(round.ReceiveBlock(item.hop), item.piece);
    const bool aside = in_place && item.hop < size - 1;
    return {aside ? *scratch + i % plan.window * slot_bytes : out + piece.first * element,
            piece.count * element};
  };
  plan.received = [&, round](std::size_t i, PipelinePlan::Target target) {
    const Round::Item item = round.At(i);
    if (item.hop >= size - 1) {
      return;
    }
    const Range piece = layout.Piece(round.ReceiveBlock(item.hop), item.piece);
    std::byte* to = out + piece.first * element;
    Reduce(type, op, to, target.memory, mine + piece.first * element, piece.count);
    if (op == ReduceOp::kAvg && item.hop == size - 2) {
      DivideBy(type, to, piece.count, transport.size());
    }
  };
  return RunPipeline(transport, plan);
}

Result<void> RingReduceScatter(FabricTransport& transport, const RingTuning& tuning,
                               const void* send, void* receive, std::size_t receive_count,
                               DataType type, ReduceOp op) {
  const std::size_t element = ElementBytes(type);
  const auto size = static_cast<std::size_t>(transport.size());
  const Layout layout = MakeLayout(receive_count * size, size, element, tuning);
  Round round = MakeRound(transport, layout, size - 1, tuning.group);
  // Each rank starts with its predecessor's block, so that its own arrives in the last hop.
  round.rank = (round.rank + size - 1) % size;
  PipelinePlan plan = NeighbourPlan(transport, round);
  const std::size_t slots = 2 * plan.window;
  const std::size_t slot_bytes = layout.piece * element;
  auto scratch = transport.Scratch(slots * slot_bytes);
  if (!scratch) {
    return std::move(scratch).error();
  }
  const auto* mine = static_cast<const std::byte*>(send);
  auto* out = static_cast<std::byte*>(receive);
  const auto slot = [&, slots](std::size_t i) { return *scratch + i % slots * slot_bytes; };
  plan.send = [&, round](std::size_t i) -> PipelinePlan::Source {
    const Round::Item item = round.At(i);
    const Range piece = layout.Piece(round.SendBlock(item.hop), item.piece);
    return {item.hop == 0 ? mine + piece.first * element : slot(i - round.group),
            piece.count * element};
  };
  plan.receive = [&, round](std::size_t i) -> PipelinePlan::Target {
    const Round::Item item = round.At(i);
    return {slot(i), layout.Piece(round.ReceiveBlock(item.hop), item.piece).count * element};
  };
  // Receive i reuses the slot of receive i - slots, which send i - slots + group may still read.
  plan.receive_after = [&, round, slots](std::size_t i) -> std::size_t {
    if (i < slots || round.At(i - slots).hop == round.hops - 1) {
      return 0;
    }
    return i - slots + round.group + 1;
  };
  plan.received = [&, round](std::size_t i, PipelinePlan::Target target) {
    const Round::Item item = round.At(i);
    const Range piece = layout.Piece(round.ReceiveBlock(item.hop), item.piece);
    const bool last = item.hop == round.hops - 1;
    std::byte* to =
        last ? out + (piece.first - layout.Block(round.ReceiveBlock(item.hop)).first) * element
             : target.memory;
    Reduce(type, op, to, target.memory, mine + piece.first * element, piece.count);
    if (last && op == ReduceOp::kAvg) {
      DivideBy(type, to, piece.count, transport.size());
    }
  };
  return RunPipeline(transport, plan);
}

Result<void> RingAllGather(FabricTransport& transport, const RingTuning& tuning, const void* send,
                           void* receive, std::size_t block_bytes) {
  const auto size = static_cast<std::size_t>(transport.size());
  const Layout layout = MakeLayout(block_bytes * size, size, 1, tuning);
  const Round round = MakeRound(transport, layout, size - 1, tuning.group);
  PipelinePlan plan = NeighbourPlan(transport, round);
  auto* out = static_cast<std::byte*>(receive);
  std::byte* own = out + static_cast<std::size_t>(transport.rank()) * block_bytes;
  if (own != send) {
    std::memcpy(own, send, block_bytes);
  }
  plan.send = [&, round](std::size_t i) -> PipelinePlan::Source {
    const Round::Item item = round.At(i);
    const Range piece = layout.Piece(round.SendBlock(item.hop), item.piece);
    return {out + piece.first, piece.count};
  };
  plan.receive = [&, round](std::size_t i) -> PipelinePlan::Target {
    const Round::Item item = round.At(i);
    const Range piece = layout.Piece(round.ReceiveBlock(item.hop), item.piece);
    return {out + piece.first, piece.count};
  };
  return RunPipeline(transport, plan);
}

Result<void> ChainBroadcast(FabricTransport& transport, const RingTuning& tuning, const void* send,
                            void* receive, std::size_t bytes, int root) {
  const int size = transport.size();
  const int place = (transport.rank() - root + size) % size;
  const std::size_t pieces = (bytes + tuning.piece_bytes - 1) / tuning.piece_bytes;
  PipelinePlan plan;
  plan.to = (transport.rank() + 1) % size;
  plan.from = (transport.rank() + size - 1) % size;
  plan.sends = place == size - 1 ? 0 : pieces;
  plan.receives = place == 0 ? 0 : pieces;
  plan.window = 2 * tuning.group;
  auto* out = static_cast<std::byte*>(receive);
  const auto* source = place == 0 ? static_cast<const std::byte*>(send) : out;
  const auto length = [&](std::size_t i) {
    return std::min(tuning.piece_bytes, bytes - i * tuning.piece_bytes);
  };
  plan.send = [&](std::size_t i) -> PipelinePlan::Source {
    return {source + i * tuning.piece_bytes, length(i)};
  };
  plan.receive = [&](std::size_t i) -> PipelinePlan::Target {
    return {out + i * tuning.piece_bytes, length(i)};
  };
  if (place > 0) {
    plan.send_after = [](std::size_t i) { return i + 1; };
  }
  if (place == 0 && send != receive) {
    std::memcpy(receive, send, bytes);
  }
  return RunPipeline(transport, plan);
}

}  // namespace dlc

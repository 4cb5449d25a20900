#include "probes/node/fabric/pipeline.h"

namespace dlc {
namespace {

/// One direction: pieces [done, started) are on their way, in a ring of `window` requests.
struct Direction {
  std::size_t total;
  std::vector<FabricRequest*> requests;
  std::size_t started = 0;
  std::size_t done = 0;

  Direction(std::size_t total_in, std::size_t window) : total(total_in), requests(window) {}
  bool Finished() const { return done == total; }
  bool MayStart() const { return started < total && started < done + requests.size(); }
  /// nullptr stands for an empty piece.
  FabricRequest*& At(std::size_t i) { return requests[i % requests.size()]; }
  bool OldestIsDone() { return done < started && (At(done) == nullptr || At(done)->done); }
};

class Pipeline {
 public:
  Pipeline(FabricTransport& transport, const PipelinePlan& plan)
      : transport_(transport),
        plan_(plan),
        sends_(plan.sends, plan.window),
        receives_(plan.receives, plan.window),
        targets_(plan.window) {}

  Result<void> Run() {
    while (!sends_.Finished() || !receives_.Finished()) {
      if (auto started = StartReceives(); !started) {
        return started;
      }
      if (auto started = StartSends(); !started) {
        return started;
      }
      if (!TakeDone()) {
        // The sender before us is blamed as long as we lack something of its.
        if (auto step = transport_.Step(receives_.Finished() ? plan_.to : plan_.from); !step) {
          return step;
        }
      }
    }
    return {};
  }

 private:
  Result<void> StartReceives() {
    while (receives_.MayStart() &&
           (!plan_.receive_after || sends_.done >= plan_.receive_after(receives_.started))) {
      const std::size_t i = receives_.started;
      const PipelinePlan::Target target = plan_.receive(i);
      FabricRequest* request = nullptr;
      if (target.bytes > 0) {
        auto started = transport_.StartReceive(plan_.from, target.memory, target.bytes);
        if (!started) {
          return std::move(started).error();
        }
        request = *started;
      }
      targets_[i % targets_.size()] = target;
      receives_.At(i) = request;
      ++receives_.started;
    }
    return {};
  }

  Result<void> StartSends() {
    while (sends_.MayStart() &&
           (!plan_.send_after || receives_.done >= plan_.send_after(sends_.started))) {
      const PipelinePlan::Source source = plan_.send(sends_.started);
      FabricRequest* request = nullptr;
      if (source.bytes > 0) {
        auto started = transport_.StartSend(plan_.to, source.memory, source.bytes);
        if (!started) {
          return std::move(started).error();
        }
        request = *started;
      }
      sends_.At(sends_.started) = request;
      ++sends_.started;
    }
    return {};
  }

  /// True when something was done. One received piece at a time, so that what depends on it is sent
  /// before the next is looked at.
  bool TakeDone() {
    bool any = false;
    while (sends_.OldestIsDone()) {
      Release(sends_);
      any = true;
    }
    if (receives_.OldestIsDone()) {
      const std::size_t i = receives_.done;
      Release(receives_);
      if (plan_.received) {
        plan_.received(i, targets_[i % targets_.size()]);
      }
      any = true;
    }
    return any;
  }

  void Release(Direction& direction) {
    if (FabricRequest* request = direction.At(direction.done); request != nullptr) {
      transport_.Release(request);
    }
    ++direction.done;
  }

  FabricTransport& transport_;
  const PipelinePlan& plan_;
  Direction sends_;
  Direction receives_;
  std::vector<PipelinePlan::Target> targets_;
};

}  // namespace

Result<void> RunPipeline(FabricTransport& transport, const PipelinePlan& plan) {
  return Pipeline(transport, plan).Run();
}

}  // namespace dlc

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/sha256/sha256.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void DemandManifest(std::string_view text) {
  const auto manifest = dlc::ParseCheckpointManifest(text, "m");
  if (!manifest) {
    const auto fault = manifest.error().fault;
    dlc::Demand(fault == dlc::CheckpointFault::kPartial || fault == dlc::CheckpointFault::kDamaged);
    return;
  }
  dlc::Demand(manifest->shards.size() == static_cast<std::size_t>(manifest->identity.ranks));
  const auto written = dlc::WriteCheckpointManifest(*manifest);
  dlc::Demand(written.has_value());
  const auto again = dlc::ParseCheckpointManifest(*written, "m");
  dlc::Demand(again.has_value() && *again == *manifest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = dlc::FuzzText(data, size);
  DemandManifest(text);
  // Sealed, or no invented text would ever get past the sha256.
  dlc::Sha256 hash;
  hash.Add(text);
  DemandManifest(std::string(text) + ",\"manifest_sha256\":\"" + hash.FinishDigest().hex + "\"}\n");
  return 0;
}

#include "probes/observations/json.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto observations = dlc::ParseObservations(dlc::FuzzText(data, size), 1U << 16U);
  if (observations) {
    const auto again = dlc::ParseObservations(dlc::ObservationsToJson(*observations, -1));
    dlc::Demand(again.has_value() && *again == *observations);
  } else {
    dlc::Demand(observations.error().code == dlc::ErrorCode::kInvalidInput);
  }
  return 0;
}

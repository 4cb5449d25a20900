#include "checks/policy_yaml.h"
#include "cmd/dlc-check/config.h"
#include "tests/fuzz/fuzz_target.h"

namespace dlc {
namespace {

template <class T>
void DemandNamedError(const Result<T>& result) {
  if (!result) {
    Demand(result.error().code == ErrorCode::kInvalidInput);
    Demand(result.error().message.starts_with("f.yaml: "));
  }
}

}  // namespace
}  // namespace dlc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = dlc::FuzzText(data, size);
  const auto policy = dlc::ParsePolicy(bytes, "f.yaml");
  dlc::DemandNamedError(policy);
  const auto config = dlc::ParseConfig(bytes, "f.yaml");
  dlc::DemandNamedError(config);
  // A config that is accepted is a policy too: `judge` reads it again from the evidence.
  dlc::Demand(!config || policy);
  return 0;
}

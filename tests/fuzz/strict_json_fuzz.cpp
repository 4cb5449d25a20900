#include <nlohmann/json.hpp>

#include "probes/observations/strict_json.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = dlc::ParseStrictJson(dlc::FuzzText(data, size), {1U << 16U, 32});
  if (document) {
    // What was read says the same when it is written and read again.
    const auto again = dlc::ParseStrictJson(document->dump());
    dlc::Demand(again.has_value() && *again == *document);
  } else {
    dlc::Demand(document.error().code == dlc::ErrorCode::kInvalidInput);
  }
  return 0;
}

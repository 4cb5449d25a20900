#include <string>

#include "checks/check.h"
#include "reports/evidence/contents.h"
#include "reports/evidence/envelope.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = dlc::FuzzText(data, size);
  const auto contents = dlc::ReadEvidence(bytes);
  if (!contents) {
    dlc::Demand(contents.error().code == dlc::ErrorCode::kInvalidInput);
    dlc::Demand(!contents.error().message.empty());
    return 0;
  }
  // Nobody's word is taken for a signature, and the outcome is what the findings give.
  dlc::Demand(contents->signature == "unsigned" || contents->signature == "not verified");
  dlc::Demand(dlc::Aggregate(contents->findings, contents->observations.run.interrupted) ==
              contents->outcome);
  if (contents->signature == "unsigned") {
    // A statement says the same in a bundle.
    const auto wrapped = dlc::ReadEvidence(dlc::BundleJson(bytes, {"key", "signature"}));
    dlc::Demand(wrapped.has_value() && wrapped->signature == "not verified");
    dlc::Demand(wrapped->observations == contents->observations &&
                wrapped->outcome == contents->outcome);
  }
  return 0;
}

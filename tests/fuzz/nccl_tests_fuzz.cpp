#include "probes/observations/nccl_tests.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = dlc::FuzzText(data, size);
  const dlc::NcclTestsOutput output = dlc::ReadNcclTests(text);
  dlc::Demand(output.rows.size() <= 4096 && output.ranks.size() <= 4096);
  dlc::Demand(dlc::ReadNcclTests(text) == output);
  return 0;
}

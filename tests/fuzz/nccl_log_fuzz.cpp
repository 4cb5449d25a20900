#include "probes/observations/nccl_log.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = dlc::FuzzText(data, size);
  const dlc::NcclLog whole = dlc::ReadNcclLog(text);
  dlc::Demand(whole.bytes == static_cast<std::int64_t>(size));
  dlc::Demand(whole.connections.size() <= 64 && whole.warnings.size() <= 64);
  // Where the pieces end makes no difference.
  dlc::NcclLogReader pieces;
  const std::size_t step = size == 0 ? 1 : 1 + data[0] % 64;
  for (std::size_t at = 0; at < size; at += step) {
    pieces.Feed(text.substr(at, step));
  }
  dlc::Demand(pieces.Finish() == whole);
  return 0;
}

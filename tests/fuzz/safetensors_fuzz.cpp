#include "probes/node/safetensors/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file = dlc::FuzzText(data, size);
  const auto file_bytes = static_cast<std::int64_t>(size);
  const auto length =
      dlc::ParseSafetensorsLength(file.substr(0, dlc::kSafetensorsLengthBytes), file_bytes);
  if (!length) {
    dlc::Demand(length.error().code == dlc::ErrorCode::kInvalidInput);
    return 0;
  }
  const std::int64_t data_bytes = file_bytes - dlc::kSafetensorsLengthBytes - *length;
  const auto header = dlc::ParseSafetensorsHeader(
      file.substr(dlc::kSafetensorsLengthBytes, static_cast<std::size_t>(*length)), data_bytes);
  if (!header) {
    dlc::Demand(header.error().code == dlc::ErrorCode::kInvalidInput);
    return 0;
  }
  // Every byte of the data is one tensor's.
  std::int64_t end = 0;
  for (const auto& tensor : header->tensors) {
    dlc::Demand(tensor.begin == end && tensor.end >= tensor.begin);
    end = tensor.end;
  }
  dlc::Demand(end == data_bytes);
  // What was read says the same when it is written and read again.
  const auto written = dlc::WriteSafetensorsHeader(*header);
  dlc::Demand(written.has_value());
  auto again = dlc::ParseSafetensorsHeader(
      std::string_view(*written).substr(dlc::kSafetensorsLengthBytes), data_bytes);
  dlc::Demand(again.has_value());
  again->data_begin = header->data_begin;
  dlc::Demand(*again == *header);
  return 0;
}

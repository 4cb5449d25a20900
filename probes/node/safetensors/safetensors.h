#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// The header of a file as https://github.com/huggingface/safetensors defines it (README "Format",
/// safetensors/src/tensor.rs): u64 little-endian length, JSON of that length, data.
inline constexpr std::int64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::int64_t kSafetensorsLengthBytes = 8;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;                ///< as in the file: "F32", "BF16"
  std::vector<std::int64_t> shape;  ///< row-major; empty: a scalar
  std::int64_t begin = 0;           ///< bytes, from the start of the data
  std::int64_t end = 0;

  bool operator==(const SafetensorsTensor&) const = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
  std::vector<SafetensorsTensor> tensors;       ///< in the order of their bytes
  std::int64_t data_begin = 0;                  ///< bytes, from the start of the file

  bool operator==(const SafetensorsHeader&) const = default;
};

/// Of one element: 32 for "F32", 4 for "F4"; nothing for a type that the format does not have.
std::optional<int> SafetensorsBitsOf(std::string_view dtype);

/// Bytes of all elements. kInvalidInput, without the tensor's name: unknown type, a negative
/// dimension, a product over 63 bits, no whole number of bytes.
Result<std::int64_t> SafetensorsBytesOf(std::string_view dtype,
                                        const std::vector<std::int64_t>& shape);

/// The length that the first 8 bytes give, held against the size of the whole file.
Result<std::int64_t> ParseSafetensorsLength(std::string_view first_bytes, std::int64_t file_bytes);

/// `json` is what stands between the length and the data (`data_bytes` long), with its padding.
/// kInvalidInput names the tensor: overlap, hole, unknown type, a shape that does not fill its
/// offsets, duplicate key, a number that is no whole one, data that no tensor has, text that is not
/// UTF-8 or does not start with '{'. A header with more than kMaxKeysPerObject tensors is refused.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, std::int64_t data_bytes);

/// Of an open file, by pread. kInvalidInput as above; kUnavailable with the errno's name. Errors
/// have no file name in them.
Result<SafetensorsHeader> ReadSafetensorsHeader(int fd);

/// The bytes before the data: length, JSON, spaces so that data begins at a multiple of 8. Refuses
/// what ParseSafetensorsHeader would not read back; `data_begin` is not looked at.
Result<std::string> WriteSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace dlc

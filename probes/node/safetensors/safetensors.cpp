#include "probes/node/safetensors/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

namespace dlc {
namespace {

Error Malformed(std::string message) {
  return {ErrorCode::kInvalidInput, std::move(message), ""};
}

/// Until `size` bytes are there or the file ends.
Result<std::string> ReadFrom(int fd, std::int64_t offset, std::int64_t size) {
  std::string bytes(static_cast<std::size_t>(size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pread(fd, bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (count < 0 && errno != EINTR) {
      return Error{ErrorCode::kUnavailable, strerrorname_np(errno), ""};
    }
    if (count == 0) {
      return Malformed("the file ends inside of its header");
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return bytes;
}

}  // namespace

std::optional<int> SafetensorsBitsOf(std::string_view dtype) {
  // tensor.rs: enum Dtype and bitsize().
  static constexpr std::array<std::pair<std::string_view, int>, 22> kTypes = {{
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64},
  }};
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& type) { return type.first == dtype; });
  return found != kTypes.end() ? std::optional<int>(found->second) : std::nullopt;
}

Result<std::int64_t> SafetensorsBytesOf(std::string_view dtype,
                                        const std::vector<std::int64_t>& shape) {
  const auto bits = SafetensorsBitsOf(dtype);
  if (!bits) {
    return Malformed("unknown type '" + std::string(dtype) + "'");
  }
  std::int64_t total = *bits;
  // The format's own reader multiplies in this order too: a dimension of 0 does not excuse an
  // overflow before it.
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) {
      return Malformed("dimension " + std::to_string(dimension));
    }
    if (__builtin_mul_overflow(total, dimension, &total)) {
      return Malformed("its size does not fit 63 bits");
    }
  }
  if (total % 8 != 0) {
    return Malformed("its " + std::to_string(total) + " bits are no whole number of bytes");
  }
  return total / 8;
}

Result<std::int64_t> ParseSafetensorsLength(std::string_view first_bytes, std::int64_t file_bytes) {
  if (first_bytes.size() < static_cast<std::size_t>(kSafetensorsLengthBytes) ||
      file_bytes < kSafetensorsLengthBytes) {
    return Malformed("a file of " + std::to_string(file_bytes) + " bytes has no header");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(first_bytes[i])) << (8 * i);
  }
  if (length > static_cast<std::uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return Malformed("a header of " + std::to_string(length) + " bytes is over the limit of " +
                     std::to_string(kMaxSafetensorsHeaderBytes));
  }
  const auto header_bytes = static_cast<std::int64_t>(length);
  if (header_bytes > file_bytes - kSafetensorsLengthBytes) {
    return Malformed("a header of " + std::to_string(header_bytes) +
                     " bytes does not fit a file of " + std::to_string(file_bytes));
  }
  return header_bytes;
}

Result<SafetensorsHeader> ReadSafetensorsHeader(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return Error{ErrorCode::kUnavailable, strerrorname_np(errno), ""};
  }
  const std::int64_t file_bytes = info.st_size;
  if (file_bytes < kSafetensorsLengthBytes) {
    return Malformed("a file of " + std::to_string(file_bytes) + " bytes has no header");
  }
  const auto first = ReadFrom(fd, 0, kSafetensorsLengthBytes);
  if (!first) {
    return first.error();
  }
  const auto length = ParseSafetensorsLength(*first, file_bytes);
  if (!length) {
    return length.error();
  }
  const auto json = ReadFrom(fd, kSafetensorsLengthBytes, *length);
  if (!json) {
    return json.error();
  }
  return ParseSafetensorsHeader(*json, file_bytes - kSafetensorsLengthBytes - *length);
}

}  // namespace dlc

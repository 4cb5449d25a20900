// The only file of this folder that knows nlohmann/json.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "probes/node/safetensors/safetensors.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kMetadataKey = "__metadata__";

Error Malformed(std::string message) {
  return {ErrorCode::kInvalidInput, std::move(message), ""};
}

Error OfTensor(const std::string& name, const std::string& problem) {
  return Malformed("tensor '" + name + "': " + problem);
}

/// A whole number written as one: no sign, no point, no exponent.
std::optional<std::int64_t> WholeNumber(const Json& value) {
  if (!value.is_number_unsigned()) {
    return std::nullopt;
  }
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

Result<std::vector<std::int64_t>> WholeNumbers(const Json& value, const std::string& what) {
  if (!value.is_array()) {
    return Malformed(what + " is no list");
  }
  std::vector<std::int64_t> numbers;
  for (const Json& element : value) {
    const auto number = WholeNumber(element);
    if (!number) {
      return Malformed(what + " has an element that is no whole number of 0 to 2^63-1");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<void> ReadMetadata(const Json& value, SafetensorsHeader& header) {
  if (!value.is_object()) {
    return Malformed("__metadata__ is no object");
  }
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return Malformed("__metadata__ '" + key + "' is no text");
    }
    header.metadata[key] = text.get<std::string>();
  }
  return {};
}

/// The values of the three keys that a tensor has; nullptr for what is not there.
struct TensorFields {
  const Json* dtype = nullptr;
  const Json* shape = nullptr;
  const Json* offsets = nullptr;
};

Result<TensorFields> FieldsOf(const Json& value) {
  if (!value.is_object()) {
    return Malformed("is no object");
  }
  TensorFields fields;
  for (const auto& [key, field] : value.items()) {
    if (key == "dtype") {
      fields.dtype = &field;
    } else if (key == "shape") {
      fields.shape = &field;
    } else if (key == "data_offsets") {
      fields.offsets = &field;
    } else {
      return Malformed("unknown key '" + key + "'");
    }
  }
  if (fields.dtype == nullptr || fields.shape == nullptr || fields.offsets == nullptr) {
    return Malformed("dtype, shape and data_offsets are needed");
  }
  return fields;
}

Result<SafetensorsTensor> ReadTensor(const std::string& name, const Json& value) {
  const auto fields = FieldsOf(value);
  if (!fields) {
    return OfTensor(name, fields.error().message);
  }
  if (!fields->dtype->is_string()) {
    return OfTensor(name, "dtype is no text");
  }
  auto shape = WholeNumbers(*fields->shape, "shape");
  const auto offsets = WholeNumbers(*fields->offsets, "data_offsets");
  if (!shape || !offsets) {
    return OfTensor(name, (shape ? offsets.error() : shape.error()).message);
  }
  if (offsets->size() != 2 || (*offsets)[1] < (*offsets)[0]) {
    return OfTensor(name, "data_offsets are no begin and end");
  }
  SafetensorsTensor tensor{name, fields->dtype->get<std::string>(), std::move(*shape),
                           (*offsets)[0], (*offsets)[1]};
  const auto bytes = SafetensorsBytesOf(tensor.dtype, tensor.shape);
  if (!bytes) {
    return OfTensor(name, bytes.error().message);
  }
  if (*bytes != tensor.end - tensor.begin) {
    return OfTensor(name, "its shape takes " + std::to_string(*bytes) +
                              " bytes, its data_offsets " +
                              std::to_string(tensor.end - tensor.begin));
  }
  return tensor;
}

/// In order, without hole and overlap, up to the end of the file. Sorts.
Result<void> CheckLayout(std::vector<SafetensorsTensor>& tensors, std::int64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::int64_t end = 0;
  const std::string* before = nullptr;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin < end) {
      return OfTensor(tensor.name, "begins at " + std::to_string(tensor.begin) +
                                       " and overlaps tensor '" + *before + "', which ends at " +
                                       std::to_string(end));
    }
    if (tensor.begin > end) {
      return OfTensor(tensor.name, "begins at " + std::to_string(tensor.begin) +
                                       " after a hole that begins at " + std::to_string(end));
    }
    end = tensor.end;
    before = &tensor.name;
  }
  if (end != data_bytes) {
    return Malformed((before != nullptr ? "tensor '" + *before + "': the last one ends at "
                                        : std::string("no tensor, which ends at ")) +
                     std::to_string(end) + ", the file's data at " + std::to_string(data_bytes));
  }
  return {};
}

}  // namespace

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, std::int64_t data_bytes) {
  if (!json.starts_with('{')) {
    return Malformed("the header does not start with '{'");
  }
  const auto document =
      ParseStrictJson(json, {static_cast<std::size_t>(kMaxSafetensorsHeaderBytes), 4});
  if (!document) {
    return Malformed("header: " + document.error().message);
  }
  SafetensorsHeader header;
  header.data_begin = kSafetensorsLengthBytes + static_cast<std::int64_t>(json.size());
  for (const auto& [key, value] : document->items()) {
    if (key == kMetadataKey) {
      if (auto read = ReadMetadata(value, header); !read) {
        return read.error();
      }
      continue;
    }
    auto tensor = ReadTensor(key, value);
    if (!tensor) {
      return tensor.error();
    }
    header.tensors.push_back(std::move(*tensor));
  }
  if (auto layout = CheckLayout(header.tensors, data_bytes); !layout) {
    return layout.error();
  }
  return header;
}

Result<std::string> WriteSafetensorsHeader(const SafetensorsHeader& header) {
  std::string json;
  // Only dump() throws, on text that is not UTF-8.
  try {
    Json::object_t document;
    if (!header.metadata.empty()) {
      document.emplace_back(std::string(kMetadataKey), Json(header.metadata));
    }
    for (const SafetensorsTensor& tensor : header.tensors) {
      document.emplace_back(tensor.name, Json{{"dtype", tensor.dtype},
                                              {"shape", tensor.shape},
                                              {"data_offsets", {tensor.begin, tensor.end}}});
    }
    json = Json(std::move(document)).dump();
  } catch (const Json::exception&) {
    return Malformed("a name or a value of the header is not UTF-8");
  }
  json.append((8 - json.size() % 8) % 8, ' ');
  const std::int64_t data_bytes = header.tensors.empty() ? 0 : header.tensors.back().end;
  if (const auto again = ParseSafetensorsHeader(json, data_bytes); !again) {
    return again.error();
  }
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(json.size()) >> shift & 0xFFU));
  }
  return bytes + json;
}

}  // namespace dlc

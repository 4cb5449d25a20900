#include "probes/node/safetensors/safetensors.h"

#include <fcntl.h>

#include "probes/node/unique_fd.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

std::string Length(std::uint64_t length) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(length >> shift & 0xFFU));
  }
  return bytes;
}

std::string RefusalOf(const std::string& json, std::int64_t data_bytes) {
  const auto header = ParseSafetensorsHeader(json, data_bytes);
  REQUIRE_FALSE(header.has_value());
  CHECK(header.error().code == ErrorCode::kInvalidInput);
  return header.error().message;
}

TEST_CASE("safetensors: a header reads back as it was written, its data on an 8-byte border") {
  SafetensorsHeader header;
  header.metadata = {{"step", "5"}, {"quoted", "\"\\\n\xC3\xA9"}};
  header.tensors = {{"a", "F32", {2, 3}, 0, 24},
                    {"empty", "BF16", {0, 7}, 24, 24},
                    {"scalar", "I64", {}, 24, 32},
                    {"halves", "F4", {4}, 32, 34}};
  const auto bytes = WriteSafetensorsHeader(header);
  REQUIRE(bytes.has_value());
  CHECK(bytes->size() % 8 == 0);
  const TemporaryDirectory directory;
  const UniqueFd fd(
      open(directory.Write("f", *bytes + std::string(34, 'x')).c_str(), O_RDONLY | O_CLOEXEC));
  const auto again = ReadSafetensorsHeader(fd.get());
  REQUIRE(again.has_value());
  header.data_begin = static_cast<std::int64_t>(bytes->size());
  CHECK(*again == header);
}

TEST_CASE("safetensors: no tensor and no metadata is a file too") {
  const auto bytes = WriteSafetensorsHeader({});
  REQUIRE(bytes.has_value());
  CHECK(*bytes == Length(8) + "{}      ");
}

TEST_CASE("safetensors: tensors come in the order of their bytes, whatever the order of the text") {
  const auto header =
      ParseSafetensorsHeader(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                             R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                             3);
  REQUIRE(header.has_value());
  CHECK(header->tensors[0].name == "a");
  CHECK(header->tensors[1].name == "b");
}

TEST_CASE("safetensors: what is malformed is refused, and the tensor named") {
  struct Row {
    const char* json;
    std::int64_t data_bytes;
    const char* message;
  };
  const Row rows[] = {
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[3],"data_offsets":[3,6]}})",
       6, "tensor 'b': begins at 3 and overlaps tensor 'a', which ends at 4"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})",
       6, "tensor 'b': begins at 5 after a hole that begins at 4"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5,
       "tensor 'a': begins at 1 after a hole that begins at 0"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5,
       "tensor 'a': the last one ends at 4, the file's data at 5"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3,
       "tensor 'a': the last one ends at 4, the file's data at 3"},
      {R"({})", 1, "no tensor, which ends at 0, the file's data at 1"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4,
       "tensor 'a': unknown type 'F31'"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "tensor 'a': its shape takes 8 bytes, its data_offsets 4"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
       "tensor 'a': its size does not fit 63 bits"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775807,2,0],"data_offsets":[0,0]}})", 0,
       "tensor 'a': its size does not fit 63 bits"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1,
       "tensor 'a': its 12 bits are no whole number of bytes"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4,
       "tensor 'a': data_offsets are no begin and end"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})", 4,
       "tensor 'a': data_offsets are no begin and end"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1,
       "tensor 'a': shape has an element that is no whole number of 0 to 2^63-1"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1,
       "tensor 'a': shape has an element that is no whole number of 0 to 2^63-1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1e0]}})", 1,
       "tensor 'a': data_offsets has an element that is no whole number of 0 to 2^63-1"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1,
       "tensor 'a': shape has an element that is no whole number of 0 to 2^63-1"},
      {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "tensor 'a': shape is no list"},
      {R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1, "tensor 'a': dtype is no text"},
      {R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1,
       "tensor 'a': dtype, shape and data_offsets are needed"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}})", 1,
       "tensor 'a': unknown key 'x'"},
      {R"({"a":7})", 1, "tensor 'a': is no object"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "header: duplicate key 'a'"},
      {R"({"__metadata__":{"k":1}})", 0, "__metadata__ 'k' is no text"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", 0, "header: duplicate key 'k'"},
      {R"({"__metadata__":[]})", 0, "__metadata__ is no object"},
      {R"( {})", 0, "the header does not start with '{'"},
      {R"([])", 0, "the header does not start with '{'"},
      {"", 0, "the header does not start with '{'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    CHECK(RefusalOf(row.json, row.data_bytes) == row.message);
  }
  CHECK(RefusalOf("{\"\xFF\":{}}", 0).starts_with("header: "));
  CHECK(RefusalOf("{} x", 0).starts_with("header: "));
  CHECK(RefusalOf("{", 0).starts_with("header: "));
}

TEST_CASE("safetensors: the length is held against the limit and the file") {
  const auto refusal = [](const std::string& first, std::int64_t file_bytes) {
    const auto length = ParseSafetensorsLength(first, file_bytes);
    return length ? "taken: " + std::to_string(*length) : length.error().message;
  };
  CHECK(refusal(Length(92), 100) == "taken: 92");
  CHECK(refusal(Length(93), 100) == "a header of 93 bytes does not fit a file of 100");
  CHECK(refusal(Length(100'000'000), 200'000'000) == "taken: 100000000");
  CHECK(refusal(Length(100'000'001), 200'000'000) ==
        "a header of 100000001 bytes is over the limit of 100000000");
  CHECK(refusal(std::string(8, '\xFF'), 200).find("over the limit") != std::string::npos);
  CHECK(refusal("1234567", 7) == "a file of 7 bytes has no header");
}

TEST_CASE("safetensors: a file that ends in its header, and one that cannot be read") {
  const TemporaryDirectory directory;
  for (const std::string& bytes : {std::string(), std::string("abc"), Length(10) + "{}"}) {
    const UniqueFd fd(open(directory.Write("f", bytes).c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(ReadSafetensorsHeader(fd.get()).error().code == ErrorCode::kInvalidInput);
  }
  CHECK(ReadSafetensorsHeader(-1).error().message == "EBADF");
}

TEST_CASE("safetensors: what could not be read back is not written") {
  const auto refusal = [](SafetensorsHeader header) {
    const auto bytes = WriteSafetensorsHeader(header);
    return bytes ? std::string() : bytes.error().message;
  };
  CHECK(refusal({{}, {{"a", "F32", {2}, 0, 4}}, 0}).find("tensor 'a'") == 0);
  CHECK(refusal({{}, {{"a", "U8", {1}, 0, 1}, {"a", "U8", {1}, 1, 2}}, 0}).find("duplicate") !=
        std::string::npos);
  CHECK(refusal({{}, {{"\xFF", "U8", {1}, 0, 1}}, 0}).find("not UTF-8") != std::string::npos);
  CHECK(refusal({{}, {{"__metadata__", "U8", {1}, 0, 1}}, 0}) != "");
}

}  // namespace
}  // namespace dlc

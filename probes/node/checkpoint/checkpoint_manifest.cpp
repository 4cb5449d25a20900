// The only file of this folder that knows nlohmann/json.
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/sha256/sha256.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::string_view kSealKey = ",\"manifest_sha256\":\"";
constexpr std::string_view kEnd = "\"}\n";
constexpr std::size_t kHexDigits = 64;

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return hash.FinishDigest().hex;
}

/// Why the manifest is none; empty when it is one.
std::string ProblemOf(const CheckpointManifest& manifest) {
  const CheckpointIdentity& identity = manifest.identity;
  if (identity.step < 0 || identity.ranks < 1) {
    return "step " + std::to_string(identity.step) + " of " + std::to_string(identity.ranks) +
           " ranks";
  }
  if (manifest.shards.size() != static_cast<std::size_t>(identity.ranks)) {
    return std::to_string(manifest.shards.size()) + " shards of " + std::to_string(identity.ranks) +
           " ranks";
  }
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank) {
    const CheckpointFile& file = manifest.shards[rank];
    if (file.name != CheckpointShardName(static_cast<int>(rank), identity.ranks)) {
      return "shard " + std::to_string(rank) + " is '" + file.name + "'";
    }
    if (file.bytes < 0 || !Digest::Parse(file.sha256.ToString())) {
      return "shard '" + file.name + "' has no length or sha256";
    }
  }
  return "";
}

/// The wire form's readers: each clears `ok` for good when the value is not there or of another
/// type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) { ok_ = object.is_object(); }

  const Json* At(const char* key, bool (*fits)(const Json&)) {
    ++read_;
    const auto found = ok_ ? object_.find(key) : object_.end();
    ok_ = ok_ && found != object_.end() && fits(*found);
    return ok_ ? &*found : nullptr;
  }
  std::string Text(const char* key) {
    const Json* value = At(key, [](const Json& json) { return json.is_string(); });
    return value != nullptr ? value->get<std::string>() : "";
  }
  std::int64_t Number(const char* key, std::int64_t most) {
    const Json* value = At(key, [](const Json& json) { return json.is_number_unsigned(); });
    if (value == nullptr) {
      return 0;
    }
    ok_ = value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
    return ok_ ? value->get<std::int64_t>() : 0;
  }
  /// And nothing else was there.
  bool AllRead() const { return ok_ && object_.size() == read_; }

 private:
  const Json& object_;
  std::size_t read_ = 0;
  bool ok_ = false;
};

bool IsObject(const Json& json) {
  return json.is_object();
}
bool IsArray(const Json& json) {
  return json.is_array();
}

/// False: not what WriteCheckpointManifest writes.
bool ReadFields(const Json& document, CheckpointManifest& manifest) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMostRanks = std::numeric_limits<int>::max();
  Fields fields(document);
  if (fields.Number("format", kMost) != kFormat) {
    return false;
  }
  manifest.identity.run_id = fields.Text("run_id");
  manifest.identity.step = fields.Number("step", kMost);
  manifest.identity.ranks = static_cast<int>(fields.Number("ranks", kMostRanks));
  if (const Json* extra = fields.At("extra", IsObject); extra != nullptr) {
    for (const auto& [key, value] : extra->items()) {
      if (!value.is_string()) {
        return false;
      }
      manifest.extra[key] = value.get<std::string>();
    }
  }
  if (const Json* shards = fields.At("shards", IsArray); shards != nullptr) {
    for (const Json& shard : *shards) {
      Fields of(shard);
      CheckpointFile file{of.Text("file"), of.Number("bytes", kMost), {of.Text("sha256")}};
      if (!of.AllRead()) {
        return false;
      }
      manifest.shards.push_back(std::move(file));
    }
  }
  fields.Text("manifest_sha256");
  return fields.AllRead();
}

}  // namespace

Result<std::string> WriteCheckpointManifest(const CheckpointManifest& manifest) {
  if (const std::string problem = ProblemOf(manifest); !problem.empty()) {
    return Error{ErrorCode::kInternal, "this is no manifest: " + problem, ""};
  }
  Json shards = Json::array();
  for (const CheckpointFile& file : manifest.shards) {
    shards.push_back(Json{{"file", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256.hex}});
  }
  Json document{{"format", kFormat},
                {"run_id", manifest.identity.run_id},
                {"step", manifest.identity.step},
                {"ranks", manifest.identity.ranks}};
  // Not in the list above, where an empty map would become null.
  document["extra"] = Json::object();
  for (const auto& [key, value] : manifest.extra) {
    document["extra"][key] = value;
  }
  document["shards"] = std::move(shards);
  std::string text;
  try {
    text = document.dump();
  } catch (const Json::exception&) {
    return Error{ErrorCode::kInternal, "this is no manifest: a text in it is not UTF-8", ""};
  }
  text.pop_back();  // the closing brace comes after the seal
  return text + std::string(kSealKey) + Sha256Hex(text) + std::string(kEnd);
}

CheckpointResult<CheckpointManifest> ParseCheckpointManifest(std::string_view text,
                                                             const std::string& file) {
  const auto fault = [&](CheckpointFault kind, const std::string& message) {
    return CheckpointFailure{kind, file + ": " + message, file, ""};
  };
  if (!text.ends_with(kEnd)) {
    return fault(CheckpointFault::kPartial, "the manifest stops before its end");
  }
  const std::size_t tail = kSealKey.size() + kHexDigits + kEnd.size();
  const std::size_t sealed = text.size() > tail ? text.size() - tail : 0;
  const std::string_view seal = text.substr(sealed);
  if (!seal.starts_with(kSealKey)) {
    return fault(CheckpointFault::kDamaged, "the manifest has no sha256 of itself");
  }
  const std::string found = Sha256Hex(text.substr(0, sealed));
  const std::string_view expected = seal.substr(kSealKey.size(), kHexDigits);
  if (found != expected) {
    return fault(CheckpointFault::kDamaged,
                 "the manifest's own sha256 is " + found + ", it says " + std::string(expected));
  }
  const auto document = ParseStrictJson(text, {64U << 20U, 4});
  if (!document) {
    return fault(CheckpointFault::kDamaged, "the manifest: " + document.error().message);
  }
  CheckpointManifest manifest;
  if (!ReadFields(*document, manifest)) {
    return fault(CheckpointFault::kDamaged, "the manifest has other keys or types than format 1");
  }
  if (const std::string problem = ProblemOf(manifest); !problem.empty()) {
    return fault(CheckpointFault::kDamaged, "the manifest says " + problem);
  }
  return manifest;
}

}  // namespace dlc

#include "probes/control/registry/manifest.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits{8U << 20U, 64};

/// An empty object stands for what is absent or of another type, so that look-ups chain.
const Json& Member(const Json& object, const char* key) {
  static const Json nothing = Json::object();
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it == object.end() ? nothing : *it;
}

std::string Text(const Json& object, const char* key) {
  const Json& value = Member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

Error NotAManifest(const std::string& what, const std::string& why) {
  return {ErrorCode::kUnavailable, what + " is not an image manifest: " + why, ""};
}

bool IsIndexType(const std::string& media_type) {
  return media_type == kOciIndexType || media_type == kDockerListType;
}

bool IsImageConfigType(const std::string& media_type) {
  return media_type == "application/vnd.oci.image.config.v1+json" ||
         media_type == "application/vnd.docker.container.image.v1+json";
}

bool IsRunnable(const Json& entry, const IndexMember& member) {
  const bool attestation = member.os == "unknown" || member.architecture == "unknown" ||
                           !Text(Member(entry, "annotations"), "vnd.docker.reference.type").empty();
  return !attestation && Text(entry, "artifactType").empty();
}

Result<IndexMember> ParseMember(const Json& entry, const std::string& what, std::size_t position) {
  const std::string name = what + ", member " + std::to_string(position);
  auto digest = Digest::Parse(Text(entry, "digest"));
  if (!digest) {
    return NotAManifest(name, digest.error().message);
  }
  IndexMember member;
  member.digest = *digest;
  member.media_type = Text(entry, "mediaType");
  member.os = Text(Member(entry, "platform"), "os");
  member.architecture = Text(Member(entry, "platform"), "architecture");
  member.runnable = IsRunnable(entry, member);
  if (!member.runnable) {
    member.config_digest = NotLookedAt{"not a runnable image", ""};
  } else if (IsIndexType(member.media_type)) {
    return Error{ErrorCode::kUnsupported,
                 name + " (" + digest->ToString() + ") is an index inside an index",
                 "name the inner index by its digest"};
  }
  return member;
}

Result<ManifestDocument> ParseIndex(const Json& document, ManifestDocument result,
                                    const std::string& what) {
  const Json& entries = Member(document, "manifests");
  if (!entries.is_array()) {
    return NotAManifest(what, "'manifests' is not a list");
  }
  result.is_index = true;
  for (const Json& entry : entries) {
    auto member = ParseMember(entry, what, result.members.size());
    if (!member) {
      return std::move(member).error();
    }
    result.members.push_back(std::move(*member));
  }
  return result;
}

std::map<std::string, std::string> ParseLabels(const Json& labels) {
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : labels.items()) {
    if (labels.is_object() && value.is_string()) {
      result[key] = value.get<std::string>();
    }
  }
  return result;
}

std::vector<std::string> ParseTexts(const Json& list) {
  std::vector<std::string> result;
  for (const Json& entry : list) {
    if (entry.is_string()) {
      result.push_back(entry.get<std::string>());
    }
  }
  return result;
}

}  // namespace

Result<ManifestDocument> ParseManifest(std::string_view bytes, const std::string& what) {
  auto document = ParseStrictJson(bytes, kLimits);
  if (!document) {
    return NotAManifest(what, document.error().message);
  }
  if (!document->is_object()) {
    return NotAManifest(what, "not a JSON object");
  }
  const bool has_members = document->contains("manifests");
  const bool has_config = document->contains("config");
  ManifestDocument result;
  result.media_type = Text(*document, "mediaType");
  if (Member(*document, "schemaVersion") == 1) {
    return Error{ErrorCode::kUnsupported, what + " is a docker schema 1 manifest",
                 "push the image again with a current docker or skopeo"};
  }
  // CVE-2021-41190: a document that is both is read differently by different clients.
  if (has_members && (has_config || document->contains("layers"))) {
    return NotAManifest(what, "it is both an index and a manifest");
  }
  if (!has_members && !has_config) {
    return NotAManifest(what, "it has neither 'manifests' nor 'config'");
  }
  if (!result.media_type.empty() && IsIndexType(result.media_type) != has_members) {
    return NotAManifest(what, "its mediaType '" + result.media_type + "' contradicts its content");
  }
  if (has_members) {
    return ParseIndex(*document, std::move(result), what);
  }
  const Json& config = Member(*document, "config");
  auto digest = Digest::Parse(Text(config, "digest"));
  if (!digest) {
    return NotAManifest(what, "config: " + digest.error().message);
  }
  result.config_digest = *digest;
  result.artifact_type = Text(*document, "artifactType");
  // OCI image-spec, manifest.md: without artifactType the config's media type is the artifact's.
  if (result.artifact_type.empty() && !IsImageConfigType(Text(config, "mediaType"))) {
    result.artifact_type = Text(config, "mediaType");
  }
  return result;
}

Result<ImageConfig> ParseImageConfig(std::string_view bytes, const Digest& digest) {
  const auto document = ParseStrictJson(bytes, kLimits);
  const bool shaped = document && document->is_object();
  if (!shaped || Text(*document, "os").empty() || Text(*document, "architecture").empty()) {
    return Error{ErrorCode::kUnavailable,
                 "blob " + digest.ToString() + " is not an image config: " +
                     (!document ? document.error().message : "it names no os and architecture"),
                 ""};
  }
  const Json& inner = Member(*document, "config");
  ImageConfig config;
  config.digest = digest;
  config.os = Text(*document, "os");
  config.architecture = Text(*document, "architecture");
  config.created = Text(*document, "created");
  config.labels = ParseLabels(Member(inner, "Labels"));
  for (const std::string& entry : ParseTexts(Member(inner, "Env"))) {
    const auto sign = entry.find('=');
    config.env[entry.substr(0, sign)] =
        sign == std::string::npos ? std::string() : entry.substr(sign + 1);
  }
  config.entrypoint = ParseTexts(Member(inner, "Entrypoint"));
  return config;
}

int FindLinuxAmd64(const std::vector<IndexMember>& members) {
  int unnamed = -1;
  int runnable = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const IndexMember& member = members[i];
    if (!member.runnable) {
      continue;
    }
    if (member.os == "linux" && member.architecture == "amd64") {
      return static_cast<int>(i);
    }
    ++runnable;
    if (member.os.empty() && member.architecture.empty()) {
      unnamed = static_cast<int>(i);
    }
  }
  return runnable == 1 ? unnamed : -1;
}

Result<std::vector<LayoutEntry>> ParseLayoutIndex(std::string_view bytes, const std::string& file) {
  const auto bad = [&file](const std::string& why) {
    return Error{ErrorCode::kInvalidInput, "'" + file + "': " + why, ""};
  };
  const auto document = ParseStrictJson(bytes, kLimits);
  if (!document) {
    return bad(document.error().message);
  }
  const Json& entries = Member(*document, "manifests");
  if (!entries.is_array()) {
    return bad("it has no list 'manifests'");
  }
  std::vector<LayoutEntry> result;
  for (const Json& entry : entries) {
    auto digest = Digest::Parse(Text(entry, "digest"));
    if (!digest) {
      return bad("manifests[" + std::to_string(result.size()) + "]: " + digest.error().message);
    }
    result.push_back({Text(Member(entry, "annotations"), "org.opencontainers.image.ref.name"),
                      Text(entry, "mediaType"), *digest});
  }
  return result;
}

Result<void> CheckLayoutVersion(std::string_view bytes, const std::string& file) {
  const auto document = ParseStrictJson(bytes, kLimits);
  if (!document) {
    return Error{ErrorCode::kInvalidInput, "'" + file + "': " + document.error().message, ""};
  }
  const std::string version = Text(*document, "imageLayoutVersion");
  if (version != "1.0.0") {
    return Error{ErrorCode::kUnsupported,
                 "'" + file + "': image layout version '" + version + "' is not 1.0.0", ""};
  }
  return {};
}

}  // namespace dlc

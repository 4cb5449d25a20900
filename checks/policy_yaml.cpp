#include "checks/policy_yaml.h"

#include <algorithm>
#include <utility>

#include "checks/check.h"
#include "checks/policy_fabric.h"
#include "checks/policy_fsdp.h"
#include "checks/policy_gpu.h"
#include "checks/policy_nccl.h"
#include "checks/policy_storage.h"
#include "probes/documents/strict_map.h"
#include "probes/observations/package_name.h"

namespace dlc {
namespace {

Error Invalid(std::string message, std::string hint = "") {
  return Error{ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsAlphanumeric(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// How many numbers stand at the start of `text`, with dots between them; `rest` is what follows.
int LeadingNumbers(std::string_view text, std::string_view& rest) {
  int count = 0;
  std::size_t i = 0;
  while (i < text.size() && IsDigit(text[i])) {
    ++count;
    while (i < text.size() && IsDigit(text[i])) {
      ++i;
    }
    if (i + 1 >= text.size() || text[i] != '.' || !IsDigit(text[i + 1])) {
      break;
    }
    ++i;
  }
  rest = text.substr(i);
  return count;
}

Result<std::string> ScalarText(const DocNode& node) {
  if (!node.IsScalar()) {
    return Invalid("must be text, not " + node.Describe());
  }
  if (node.text.empty()) {
    return Invalid("must not be empty", "remove the key to demand nothing");
  }
  return node.text;
}

Result<Digest> ReadDigest(const DocNode& node) {
  auto text = ScalarText(node);
  if (!text) {
    return std::move(text).error();
  }
  return Digest::Parse(*text);
}

/// PEP 503. `pattern` allows a trailing *.
Result<std::string> PackageName(std::string_view written, bool pattern) {
  std::string_view stem = written;
  const bool star = pattern && stem.ends_with('*');
  if (star) {
    stem.remove_suffix(1);
  }
  const bool named = std::all_of(stem.begin(), stem.end(), [](char c) {
    return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
  });
  if (!named) {
    return Invalid("'" + std::string(written) + "' is not a package name",
                   pattern ? "a name, or a prefix and *; no version" : "a name without version");
  }
  const std::string name = NormalizePackageName(stem);
  if (name.empty() && !star) {
    return Invalid("a package name must not be empty");
  }
  return star ? name + "*" : name;
}

void ReadPackageNames(StrictMap& map, std::string_view key, std::vector<std::string>& out) {
  if (map.Has(key)) {
    out.clear();
  }
  map.Items(key, [&](const DocNode& node) -> Result<void> {
    auto text = ScalarText(node);
    auto name = text ? PackageName(*text, true) : std::move(text);
    if (!name) {
      return std::move(name).error();
    }
    out.push_back(*name);
    return {};
  });
}

void ReadImagePackages(StrictMap& map, std::map<std::string, std::string>& out) {
  std::map<std::string, std::string> all_texts;
  map.TextMap("imagePackages", all_texts);
  map.Each("imagePackages", [&](const DocNode& node) -> Result<void> {
    for (const DocNode::Entry& entry : node.entries) {
      const auto name = PackageName(entry.key, false);
      if (!name) {
        return map.At(entry.value, name.error().message, name.error().hint);
      }
      if (entry.value.text.empty()) {
        return map.At(entry.value, "version of '" + entry.key + "' must not be empty");
      }
      if (!out.emplace(*name, entry.value.text).second) {
        return map.At(entry.value, "package '" + entry.key + "' is given twice",
                      "'" + *name + "' is the same package (PEP 503)");
      }
    }
    return {};
  });
}

class PolicyReader {
 public:
  PolicyReader(std::string file, std::string where)
      : file_(std::move(file)), where_(std::move(where)) {}

  /// Reads everything but apiVersion and kind into policy().
  void Body(StrictMap& map);
  Policy& policy() { return policy_; }

 private:
  StrictMap Part(const DocNode& node, const std::string& name) const {
    return {file_, node, where_.empty() ? name : where_ + "." + name};
  }

  Result<void> Metadata(const DocNode& node);
  Result<void> StageName(const DocNode& node);
  Result<void> Image(const DocNode& node);
  Result<void> Release(const DocNode& node);
  Result<void> Ray(const DocNode& node);
  Result<void> JobPackages(const DocNode& node);
  Result<void> Gpu(const DocNode& node);
  Result<void> Fabric(const DocNode& node);
  Result<void> Nccl(const DocNode& node);
  Result<void> Fsdp(const DocNode& node);
  Result<void> Storage(const DocNode& node);
  Result<void> Severities(const DocNode& node);

  std::string file_;
  std::string where_;
  Policy policy_;
};

void PolicyReader::Body(StrictMap& map) {
  map.Each("metadata", [this](const DocNode& node) { return Metadata(node); });
  map.Items("stages", [this](const DocNode& node) { return StageName(node); });
  map.Each("image", [this](const DocNode& node) { return Image(node); });
  map.Each("ray", [this](const DocNode& node) { return Ray(node); });
  map.Each("jobPackages", [this](const DocNode& node) { return JobPackages(node); });
  map.Each("gpu", [this](const DocNode& node) { return Gpu(node); });
  map.Each("fabric", [this](const DocNode& node) { return Fabric(node); });
  map.Each("nccl", [this](const DocNode& node) { return Nccl(node); });
  map.Each("fsdp", [this](const DocNode& node) { return Fsdp(node); });
  map.Each("storage", [this](const DocNode& node) { return Storage(node); });
  map.Each("checkpoint", [this](const DocNode& node) {
    return ReadCheckpointPolicy(file_, node, where_.empty() ? "checkpoint" : where_ + ".checkpoint",
                                policy_.checkpoint);
  });
  map.Each("severity", [this](const DocNode& node) { return Severities(node); });
}

Result<void> PolicyReader::Metadata(const DocNode& node) {
  StrictMap map = Part(node, "metadata");
  map.Text("name", policy_.name);
  return map.Finish();
}

Result<void> PolicyReader::StageName(const DocNode& node) {
  const auto text = ScalarText(node);
  if (!text) {
    return text.error();
  }
  const auto stage = ParseStage(*text);
  if (!stage) {
    return stage.error();
  }
  if (std::find(policy_.stages.begin(), policy_.stages.end(), *stage) != policy_.stages.end()) {
    return Invalid("stage '" + *text + "' is given twice");
  }
  policy_.stages.push_back(*stage);
  return {};
}

Result<void> PolicyReader::Image(const DocNode& node) {
  ImagePolicy& image = policy_.image;
  StrictMap map = Part(node, "image");
  const auto add_digest = [&image](const DocNode& item) -> Result<void> {
    const auto digest = ReadDigest(item);
    if (!digest) {
      return digest.error();
    }
    image.digests.push_back(*digest);
    return {};
  };
  map.Each("digest", add_digest);
  map.Each("digests", [&](const DocNode& list) -> Result<void> {
    if (map.Has("digest")) {
      return Invalid("cannot stand beside 'digest'", "put all of them in 'digests'");
    }
    if (list.IsSequence() && list.items.empty()) {
      return Invalid("must not be empty", "remove the key to demand no digest");
    }
    return {};
  });
  map.Items("digests", add_digest);
  map.Each("platform", [&](const DocNode& text) -> Result<void> {
    const auto platform = ScalarText(text);
    if (!platform) {
      return platform.error();
    }
    const auto slash = platform->find('/');
    if (slash == 0 || slash == std::string::npos || slash + 1 == platform->size()) {
      return Invalid("must be OS/ARCHITECTURE, not " + text.Describe(), "usually linux/amd64");
    }
    image.platform = *platform;
    return {};
  });
  map.TextMap("labels", image.labels);
  map.Demand("containerType", image.container_type);
  map.Demand("efaInstaller", image.efa_installer);
  map.Items("releases", [this](const DocNode& item) { return Release(item); });
  return map.Finish();
}

Result<void> PolicyReader::Release(const DocNode& node) {
  KnownRelease release;
  StrictMap map =
      Part(node, "image.releases[" + std::to_string(policy_.image.releases.size()) + "]");
  map.Require("name");
  map.Require("digest");
  map.Demand("name", release.name);
  map.Each("digest", [&](const DocNode& text) -> Result<void> {
    const auto digest = ReadDigest(text);
    if (!digest) {
      return digest.error();
    }
    release.digest = *digest;
    return {};
  });
  map.TextMap("contents", release.contents);
  map.TextList("knownProblems", release.known_problems);
  policy_.image.releases.push_back(std::move(release));
  return map.Finish();
}

Result<void> PolicyReader::Ray(const DocNode& node) {
  StrictMap map = Part(node, "ray");
  map.Demand("version", policy_.ray.version);
  map.Each("version", [](const DocNode& text) -> Result<void> {
    std::string_view rest;
    const int numbers = LeadingNumbers(text.text, rest);
    // What runs reports all parts ("2.58.0", "3.0.0.dev0"): a shorter text could equal none of
    // them.
    if (numbers < 3 || rest.find_first_of(" <>=~!*,") != std::string_view::npos) {
      return Invalid("must be one full version, not " + text.Describe(),
                     "write all parts: 2.58.0; ranges are not supported");
    }
    return {};
  });
  map.Demand("python", policy_.ray.python);
  map.Each("python", [](const DocNode& text) -> Result<void> {
    std::string_view rest;
    const int numbers = LeadingNumbers(text.text, rest);
    if (numbers < 2 || numbers > 3 || !rest.empty()) {
      return Invalid("must be a version of two or three numbers, not " + text.Describe(),
                     "3.13 matches any patch level, 3.13.2 exactly that");
    }
    return {};
  });
  return map.Finish();
}

Result<void> PolicyReader::JobPackages(const DocNode& node) {
  StrictMap map = Part(node, "jobPackages");
  ReadPackageNames(map, "protected", policy_.job_packages.protected_names);
  ReadImagePackages(map, policy_.job_packages.image_packages);
  ReadPackageNames(map, "allowed", policy_.job_packages.allowed);
  return map.Finish();
}

Result<void> PolicyReader::Gpu(const DocNode& node) {
  return ReadGpuPolicy(file_, node, where_.empty() ? "gpu" : where_ + ".gpu", policy_.gpu);
}

Result<void> PolicyReader::Fabric(const DocNode& node) {
  return ReadFabricPolicy(file_, node, where_.empty() ? "fabric" : where_ + ".fabric",
                          policy_.fabric);
}

Result<void> PolicyReader::Nccl(const DocNode& node) {
  return ReadNcclPolicy(file_, node, where_.empty() ? "nccl" : where_ + ".nccl", policy_.nccl);
}

Result<void> PolicyReader::Fsdp(const DocNode& node) {
  return ReadFsdpPolicy(file_, node, where_.empty() ? "fsdp" : where_ + ".fsdp", policy_.fsdp);
}

Result<void> PolicyReader::Storage(const DocNode& node) {
  return ReadStoragePolicy(file_, node, where_.empty() ? "storage" : where_ + ".storage",
                           policy_.storage);
}

Error UnknownRule(const StrictMap& map, const DocNode::Entry& entry) {
  std::vector<std::string> ids;
  for (const Check* check : AllChecks()) {
    ids.emplace_back(check->id);
    for (const Rule& rule : check->rules) {
      ids.emplace_back(rule.id);
    }
  }
  const std::string nearest = NearestName(entry.key, ids);
  return DocumentError(
      map.file(), entry.line, "unknown check or rule '" + entry.key + "'",
      nearest.empty() ? "`dlc-check checks` lists them" : "did you mean '" + nearest + "'?");
}

/// The check that keeps what nobody looked at from being green, or a rule of it.
bool TellsWhatWasCovered(std::string_view id) {
  constexpr std::string_view kCoverage = "coverage";
  return id == kCoverage || id.starts_with(std::string(kCoverage) + "/");
}

Result<void> PolicyReader::Severities(const DocNode& node) {
  StrictMap map = Part(node, "severity");
  for (const DocNode::Entry& entry : node.entries) {
    if (FindCheck(entry.key) == nullptr && FindRule(entry.key) == nullptr) {
      return UnknownRule(map, entry);
    }
    if (const Rule* rule = FindRule(entry.key); rule != nullptr && rule->fixed) {
      return DocumentError(map.file(), entry.line, "rule '" + entry.key + "' cannot be changed",
                           "it keeps a run from being taken for what it is not");
    }
    std::string name;
    map.Choice(entry.key, name, {"required", "warn", "off"});
    if (TellsWhatWasCovered(entry.key) && (name == "warn" || name == "off")) {
      return map.At(entry.value,
                    "'severity." + entry.key + "' cannot be '" + name +
                        "': a run that left out what was asked for would be green",
                    "ask for less instead: list the stages that matter under `stages:`");
    }
    for (const Severity severity : {Severity::kRequired, Severity::kWarn, Severity::kOff}) {
      if (name == SeverityName(severity)) {
        policy_.severity[entry.key] = severity;
      }
    }
  }
  return map.Finish();
}

}  // namespace

Result<DocNode> ParseVersionedFile(std::string_view bytes, const std::string& file,
                                   const std::vector<std::string>& kinds) {
  auto document = ParseDocument(bytes, file);
  if (!document) {
    return std::move(document).error();
  }
  if (document->roots.empty()) {
    return DocumentError(file, 0, "holds nothing",
                         "start with 'apiVersion: " + std::string(kFileApiVersion) +
                             "' and 'kind: " + kinds.front() + "'");
  }
  if (document->roots.size() > 1) {
    return DocumentError(file, document->roots[1].line, "a second document starts here",
                         "keep one document in the file");
  }
  DocNode root = std::move(document->roots.front());
  StrictMap map(file, root, "");
  std::string text;
  map.Require("apiVersion");
  map.Choice("apiVersion", text, {std::string(kFileApiVersion)});
  map.Require("kind");
  map.Choice("kind", text, kinds);
  if (map.failed()) {
    return map.error();
  }
  return root;
}

Result<Policy> ReadPolicyNode(const std::string& file, const DocNode& node) {
  PolicyReader reader(file, "policy");
  StrictMap map(file, node, "policy");
  reader.Body(map);
  if (const auto done = map.Finish(); !done) {
    return done.error();
  }
  return std::move(reader.policy());
}

Result<Policy> ParsePolicy(std::string_view bytes, const std::string& file) {
  const auto root = ParseVersionedFile(bytes, file, {"Policy", "Config"});
  if (!root) {
    return root.error();
  }
  if (root->TextOf("kind") == "Config") {
    const DocNode* inline_policy = root->Find("policy");
    return inline_policy == nullptr ? Policy{} : ReadPolicyNode(file, *inline_policy);
  }
  PolicyReader reader(file, "");
  StrictMap map(file, *root, "");
  std::string checked_before;
  map.Text("apiVersion", checked_before);
  map.Text("kind", checked_before);
  reader.Body(map);
  if (const auto done = map.Finish(); !done) {
    return done.error();
  }
  return std::move(reader.policy());
}

}  // namespace dlc

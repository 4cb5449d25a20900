#include "probes/control/registry/observe_image.h"

#include <memory>
#include <utility>
#include <vector>

#include "probes/control/registry/image_source.h"
#include "probes/control/registry/manifest.h"
#include "probes/control/registry/oci_layout.h"
#include "probes/control/registry/registry_client.h"
#include "probes/control/sha256/sha256.h"

namespace dlc {
namespace {

Error Disagree(const std::string& what, const Digest& received, const std::string& claim) {
  return {ErrorCode::kUnavailable,
          what + ": the bytes received have sha256 " + received.ToString() + ", but " + claim,
          "a proxy, mirror or cache on the way may have changed or damaged the document"};
}

/// The digest from the bytes, agreeing with what was asked for and what the server says.
Result<Digest> VerifiedDigest(const TopManifest& top, const ImageReference& reference) {
  const std::string name = reference.ToString();
  Digest digest = Sha256Of(top.bytes);
  if (!reference.digest.empty() && reference.digest != digest) {
    return Disagree(name, digest, reference.digest.ToString() + " was asked for");
  }
  if (!top.header_digest.empty() && top.header_digest != digest.ToString()) {
    return Disagree(name, digest, "Docker-Content-Digest says " + top.header_digest);
  }
  return digest;
}

Result<void> Verify(const std::string& bytes, const Digest& digest, const std::string& what) {
  if (const Digest received = Sha256Of(bytes); received != digest) {
    return Disagree(what, received, digest.ToString() + " was asked for");
  }
  return {};
}

Result<ManifestDocument> FetchChild(ImageSource& source, const Digest& digest, Deadline deadline) {
  const std::string what = "manifest " + digest.ToString();
  const auto bytes = source.FetchManifest(digest, deadline);
  if (!bytes) {
    return bytes.error();
  }
  if (auto verified = Verify(*bytes, digest, what); !verified) {
    return std::move(verified).error();
  }
  auto child = ParseManifest(*bytes, what);
  if (child && child->is_index) {
    return Error{ErrorCode::kUnsupported, what + " is an index inside an index", ""};
  }
  return child;
}

Result<ImageConfig> FetchConfig(ImageSource& source, const ManifestDocument& manifest,
                                Deadline deadline) {
  if (!manifest.artifact_type.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "not a container image but an artifact of type '" + manifest.artifact_type + "'",
                 ""};
  }
  const auto bytes = source.FetchBlob(manifest.config_digest, deadline);
  if (!bytes) {
    return bytes.error();
  }
  const std::string what = "config blob " + manifest.config_digest.ToString();
  if (auto verified = Verify(*bytes, manifest.config_digest, what); !verified) {
    return std::move(verified).error();
  }
  return ParseImageConfig(*bytes, manifest.config_digest);
}

/// Fills what the member's own manifest says, and returns that.
Result<ManifestDocument> LookIntoMember(ImageSource& source, IndexMember& member,
                                        Deadline deadline) {
  auto child = FetchChild(source, member.digest, deadline);
  if (!child) {
    member.config_digest = child.error();
  } else if (!child->artifact_type.empty()) {
    // An artifact (SOCI index, signature) whose index entry carries no artifactType.
    member.runnable = false;
    member.config_digest = NotLookedAt{"not a runnable image", ""};
  } else {
    member.config_digest = child->config_digest;
  }
  return child;
}

std::string Platforms(const std::vector<IndexMember>& members) {
  std::string text;
  for (const IndexMember& member : members) {
    if (member.runnable) {
      text += (text.empty() ? "" : ", ") + member.os + "/" + member.architecture;
    }
  }
  return text.empty() ? "no runnable member" : text;
}

/// The manifests of all runnable members first: only they tell an artifact from an image.
void LookIntoIndex(ImageSource& source, ServedImage& image, Deadline deadline) {
  std::vector<Observed<ManifestDocument>> children(image.members.size());
  for (std::size_t i = 0; i < image.members.size(); ++i) {
    if (image.members[i].runnable) {
      children[i] = LookIntoMember(source, image.members[i], deadline);
    }
  }
  const int chosen = FindLinuxAmd64(image.members);
  if (chosen < 0) {
    image.config = Error{ErrorCode::kNotFound, "the index has no linux/amd64 member",
                         "it has " + Platforms(image.members)};
    return;
  }
  const auto& child = children[static_cast<std::size_t>(chosen)];
  image.config = child.seen() ? Observed<ImageConfig>(FetchConfig(source, child.value(), deadline))
                              : Observed<ImageConfig>(child.error());
}

Result<ServedImage> Assemble(ImageSource& source, const ImageReference& reference,
                             Deadline deadline) {
  const auto top = source.FetchTop(deadline);
  if (!top) {
    return top.error();
  }
  auto digest = VerifiedDigest(*top, reference);
  if (!digest) {
    return std::move(digest).error();
  }
  auto manifest = ParseManifest(top->bytes, reference.ToString());
  if (!manifest) {
    return std::move(manifest).error();
  }
  ServedImage image;
  image.reference = reference.ToString();
  image.source = source.Kind();
  image.digest = *digest;
  image.media_type = manifest->media_type.empty() ? top->media_type : manifest->media_type;
  image.size_bytes = static_cast<std::int64_t>(top->bytes.size());
  image.header_digest = top->header_digest;
  image.is_index = manifest->is_index;
  if (manifest->is_index) {
    image.members = std::move(manifest->members);
    LookIntoIndex(source, image, deadline);
  } else {
    image.config = FetchConfig(source, *manifest, deadline);
  }
  return image;
}

/// An interrupt inside leaves the rest unlooked at; the whole says so.
Result<ServedImage> UnlessInterrupted(Result<ServedImage> image,
                                      const std::atomic<bool>* interrupted) {
  if (image && interrupted != nullptr && *interrupted) {
    return Error{ErrorCode::kInterrupted, "interrupted", ""};
  }
  return image;
}

}  // namespace

Result<ServedImage> ObserveImage(const ImageReference& reference, const RegistryOptions& options,
                                 Deadline deadline, const RegistryLog& log) {
  if (reference.oci_layout) {
    OciLayoutSource layout(reference);
    return Assemble(layout, reference, deadline);
  }
  if (reference.tag.empty() && reference.digest.empty()) {
    return Error{ErrorCode::kInvalidInput,
                 "image reference '" + reference.ToString() + "' has neither tag nor digest",
                 "add :TAG or @sha256:...; no 'latest' is made up here"};
  }
  RegistryClient registry(reference, options, log);
  return UnlessInterrupted(Assemble(registry, reference, deadline), options.interrupted);
}

}  // namespace dlc

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/image.h"
#include "probes/observations/result.h"

namespace dlc {

inline constexpr std::string_view kOciIndexType = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view kDockerListType =
    "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr std::string_view kOciManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kDockerManifestType =
    "application/vnd.docker.distribution.manifest.v2+json";

/// A manifest or an index, told apart by its members, not by what its media type claims.
struct ManifestDocument {
  std::string media_type;  ///< as the document says; OCI allows it to be absent
  bool is_index = false;

  std::vector<IndexMember> members;  ///< index: config_digest not looked at

  Digest config_digest;  ///< manifest
  /// Manifest: what it is if not an image (an attestation, a SOCI index), or empty.
  std::string artifact_type;
};

/// kUnavailable when the bytes are no manifest; kUnsupported for docker's schema 1 and a nested
/// index. `what` names the document in errors.
Result<ManifestDocument> ParseManifest(std::string_view bytes, const std::string& what);

/// `digest` is the blob's, already verified. kUnavailable when the bytes are no image config.
Result<ImageConfig> ParseImageConfig(std::string_view bytes, const Digest& digest);

/// Position of the linux/amd64 member, or of the only runnable one when it names no platform; -1
/// when there is none.
int FindLinuxAmd64(const std::vector<IndexMember>& members);

/// One entry of an OCI layout's index.json.
struct LayoutEntry {
  std::string tag;  ///< org.opencontainers.image.ref.name, or empty
  std::string media_type;
  Digest digest;

  bool operator==(const LayoutEntry&) const = default;
};

/// kInvalidInput naming `file`.
Result<std::vector<LayoutEntry>> ParseLayoutIndex(std::string_view bytes, const std::string& file);

/// The "imageLayoutVersion" of an oci-layout file: kInvalidInput naming `file`, or kUnsupported
/// unless it is 1.0.0.
Result<void> CheckLayoutVersion(std::string_view bytes, const std::string& file);

}  // namespace dlc

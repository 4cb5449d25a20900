#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/observed.h"

namespace dlc {

/// The part of an image's config blob that says what is inside (OCI image-spec, config.md).
struct ImageConfig {
  Digest digest;  ///< of the raw config blob: what a runtime reports for an image loaded by hand
  std::string os;
  std::string architecture;
  std::string created;  ///< as written; reproducible builds carry 1970
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> env;
  std::vector<std::string> entrypoint;

  bool operator==(const ImageConfig&) const = default;
};

/// One entry of an image index.
struct IndexMember {
  Digest digest;
  std::string media_type;
  std::string os;
  std::string architecture;
  /// False for BuildKit attestations (platform unknown/unknown) and entries with an artifactType:
  /// they can never run.
  bool runnable = false;
  /// Config digest of this member, for the bare "sha256:" form of imageID. Runnable members only.
  Observed<Digest> config_digest;

  bool operator==(const IndexMember&) const = default;
};

/// What a registry (or an OCI layout on disk) serves for a reference.
struct ServedImage {
  std::string reference;  ///< as asked for
  std::string source;     ///< "registry" or "oci-layout"
  Digest digest;          ///< sha256 of the raw manifest bytes as received
  std::string media_type;
  std::int64_t size_bytes = 0;  ///< of those bytes
  /// Docker-Content-Digest, empty when the server sent none (older specs made it optional; ECR has
  /// been seen without).
  std::string header_digest;
  bool is_index = false;
  std::vector<IndexMember> members;  ///< index only
  /// Config of the manifest itself, or of the index's linux/amd64 member (the only platform this
  /// image has).
  Observed<ImageConfig> config;

  bool operator==(const ServedImage&) const = default;
};

}  // namespace dlc

#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "probes/observations/result.h"

namespace dlc {

/// Two lower-case hex digits for each byte.
std::string HexText(std::span<const std::uint8_t> bytes);

/// A sha256 digest as registries write it: "sha256:" and 64 lower-case hex digits. Empty (`hex`
/// empty) means none. Other algorithms are refused by Parse: no registry that serves this image
/// uses one.
struct Digest {
  std::string hex;

  static Result<Digest> Parse(std::string_view text);
  /// "sha256:<hex>", or "" when empty.
  std::string ToString() const { return hex.empty() ? std::string() : "sha256:" + hex; }
  bool empty() const { return hex.empty(); }

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the spaceship's 0 for a pointer
  auto operator<=>(const Digest&) const = default;
  bool operator==(const Digest&) const = default;
};

/// "[host[:port]/]repository[:tag][@sha256:...]", or "oci:DIR[:tag]" for an OCI image layout on
/// disk.
struct ImageReference {
  std::string registry;  ///< host[:port]; "docker.io" when the text names none; empty for a layout
  std::string repository;  ///< path below the registry; the directory for a layout
  std::string tag;         ///< empty when absent. No "latest" is made up here
  Digest digest;           ///< empty when not pinned
  bool oci_layout = false;

  static Result<ImageReference> Parse(std::string_view text);
  std::string ToString() const;
  /// Registry and repository without tag and digest.
  std::string Name() const;

  bool operator==(const ImageReference&) const = default;
};

/// The digest at the end of a pod's `imageID`, whatever stands before it:
/// "docker-pullable://repo@sha256:..", "docker://sha256:..", "repo@sha256:..", "sha256:..". Not
/// found when there is none (a container that never started has an empty imageID). The forms:
/// kubernetes issues 95968, 108689, 115199; containerd 8408.
Result<Digest> DigestOfImageId(std::string_view image_id);

}  // namespace dlc

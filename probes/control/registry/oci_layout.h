#pragma once

#include <string>

#include "probes/control/registry/image_source.h"

namespace dlc {

/// An image of an OCI image layout (image-spec, image-layout.md), by tag or, without one, the only
/// one there. Blobs are found by their digest's hex digits alone, so that no name in the layout can
/// lead elsewhere; symbolic links are followed. A file system that hangs is not bounded by the
/// deadline.
class OciLayoutSource : public ImageSource {
 public:
  explicit OciLayoutSource(const ImageReference& reference)
      : directory_(reference.repository), tag_(reference.tag) {}

  const char* Kind() const override { return "oci-layout"; }
  /// kNotFound (no such layout or tag), kInvalidInput (several images and no tag: lists them),
  /// kUnsupported (layout version).
  Result<TopManifest> FetchTop(Deadline deadline) override;
  Result<std::string> FetchManifest(const Digest& digest, Deadline deadline) override;
  Result<std::string> FetchBlob(const Digest& digest, Deadline deadline) override;

 private:
  std::string directory_;
  std::string tag_;
};

}  // namespace dlc

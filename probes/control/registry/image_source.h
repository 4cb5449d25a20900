#pragma once

#include <cstddef>
#include <string>

#include "probes/observations/deadline.h"
#include "probes/observations/digest.h"
#include "probes/observations/result.h"

namespace dlc {

inline constexpr std::size_t kMaxManifestBytes = 4U << 20U;
inline constexpr std::size_t kMaxConfigBytes = 8U << 20U;

/// What a reference names, before it is read.
struct TopManifest {
  std::string bytes;          ///< raw, as received
  std::string media_type;     ///< as the server or the layout declares it; may be empty
  std::string header_digest;  ///< Docker-Content-Digest as sent; empty for a layout
};

/// Where an image's documents come from: a registry, or an OCI layout on disk. Longer documents
/// than the limits above are refused.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  /// "registry" or "oci-layout".
  virtual const char* Kind() const = 0;
  virtual Result<TopManifest> FetchTop(Deadline deadline) = 0;
  /// The bytes are what was sent under that digest; the caller verifies.
  virtual Result<std::string> FetchManifest(const Digest& digest, Deadline deadline) = 0;
  virtual Result<std::string> FetchBlob(const Digest& digest, Deadline deadline) = 0;

 protected:
  ImageSource() = default;
  ImageSource(const ImageSource&) = default;
  ImageSource& operator=(const ImageSource&) = default;
};

}  // namespace dlc

#include "probes/control/registry/oci_layout.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "probes/control/registry/manifest.h"
#include "probes/control/sha256/sha256.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

/// "v1, v2, sha256:... (no tag)"
std::string Names(const std::vector<LayoutEntry>& entries) {
  std::string text;
  for (const LayoutEntry& entry : entries) {
    text += text.empty() ? "" : ", ";
    text += entry.tag.empty() ? entry.digest.ToString() + " (no tag)" : entry.tag;
  }
  return text;
}

Result<LayoutEntry> Choose(const std::vector<LayoutEntry>& entries, const std::string& directory,
                           const std::string& tag) {
  if (entries.empty()) {
    return Error{ErrorCode::kNotFound, "image layout '" + directory + "' holds no image", ""};
  }
  std::vector<LayoutEntry> fitting;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(fitting),
               [&tag](const LayoutEntry& entry) { return tag.empty() || entry.tag == tag; });
  if (fitting.empty()) {
    return Error{ErrorCode::kNotFound, "image layout '" + directory + "' has no tag '" + tag + "'",
                 "it holds " + Names(entries)};
  }
  const bool same_digest = std::all_of(
      fitting.begin(), fitting.end(),
      [&fitting](const LayoutEntry& entry) { return entry.digest == fitting.front().digest; });
  if (!same_digest) {
    return Error{ErrorCode::kInvalidInput,
                 "image layout '" + directory + "' holds several images" +
                     (tag.empty() ? "" : " tagged '" + tag + "'") + ": " + Names(fitting),
                 tag.empty() ? "choose one: oci:" + directory + ":TAG" : ""};
  }
  return fitting.front();
}

std::string BlobPath(const std::string& directory, const Digest& digest) {
  return directory + "/blobs/sha256/" + digest.hex;
}

}  // namespace

Result<TopManifest> OciLayoutSource::FetchTop(Deadline deadline) {
  const std::string marker = directory_ + "/oci-layout";
  const auto version = ReadFileBytes(marker, kMaxManifestBytes, PipeInput::kRefuse);
  if (!version) {
    Error error = version.error();
    if (error.code == ErrorCode::kNotFound) {
      error.hint = "'" + directory_ + "' is not an OCI image layout";
    }
    return error;
  }
  if (auto checked = CheckLayoutVersion(*version, marker); !checked) {
    return std::move(checked).error();
  }
  const std::string index_file = directory_ + "/index.json";
  const auto index = ReadFileBytes(index_file, kMaxManifestBytes, PipeInput::kRefuse);
  if (!index) {
    return index.error();
  }
  const auto entries = ParseLayoutIndex(*index, index_file);
  if (!entries) {
    return entries.error();
  }
  auto entry = Choose(*entries, directory_, tag_);
  if (!entry) {
    return std::move(entry).error();
  }
  auto bytes = FetchManifest(entry->digest, deadline);
  if (!bytes) {
    return std::move(bytes).error();
  }
  if (Sha256Of(*bytes) != entry->digest) {
    return Error{ErrorCode::kInvalidInput,
                 "'" + BlobPath(directory_, entry->digest) + "' is damaged: its sha256 is " +
                     Sha256Of(*bytes).ToString(),
                 "copy the image into the layout again"};
  }
  return TopManifest{std::move(*bytes), entry->media_type, ""};
}

Result<std::string> OciLayoutSource::FetchManifest(const Digest& digest, Deadline deadline) {
  if (deadline.Passed()) {
    return Error{ErrorCode::kTimedOut, "no time left to read '" + directory_ + "'", ""};
  }
  return ReadFileBytes(BlobPath(directory_, digest), kMaxManifestBytes, PipeInput::kRefuse);
}

Result<std::string> OciLayoutSource::FetchBlob(const Digest& digest, Deadline deadline) {
  if (deadline.Passed()) {
    return Error{ErrorCode::kTimedOut, "no time left to read '" + directory_ + "'", ""};
  }
  return ReadFileBytes(BlobPath(directory_, digest), kMaxConfigBytes, PipeInput::kRefuse);
}

}  // namespace dlc

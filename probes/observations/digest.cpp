#include "probes/observations/digest.h"

#include <algorithm>
#include <string>
#include <utility>

namespace dlc {
namespace {

constexpr std::string_view kAlgorithm = "sha256:";
constexpr std::size_t kHexDigits = 64;

bool IsHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

Error BadReference(std::string_view text, const std::string& why) {
  return Error{ErrorCode::kInvalidInput, "image reference '" + std::string(text) + "': " + why,
               "expected [host[:port]/]repository[:tag][@sha256:...] or oci:DIRECTORY[:tag]"};
}

bool IsRepositoryChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '_' ||
         c == '-';
}

bool IsTagChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool IsTag(std::string_view tag) {
  // OCI distribution-spec: [a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}
  return !tag.empty() && tag.size() <= 128 && tag.front() != '.' && tag.front() != '-' &&
         std::all_of(tag.begin(), tag.end(), IsTagChar);
}

/// Of `rest`, a part of `text`: what follows a colon after the last slash. Before it, directories
/// and hosts may hold colons.
Result<void> TakeTag(std::string_view text, std::string_view& rest, ImageReference& ref) {
  const auto slash = rest.rfind('/');
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || (slash != std::string_view::npos && colon < slash)) {
    return {};
  }
  ref.tag = std::string(rest.substr(colon + 1));
  rest = rest.substr(0, colon);
  if (!IsTag(ref.tag)) {
    return BadReference(text, "'" + ref.tag + "' is not a tag");
  }
  return {};
}

Result<ImageReference> ParseLayout(std::string_view text) {
  ImageReference ref;
  ref.oci_layout = true;
  std::string_view rest = text.substr(4);
  if (auto taken = TakeTag(text, rest, ref); !taken) {
    return std::move(taken).error();
  }
  if (rest.empty()) {
    return BadReference(text, "no directory after 'oci:'");
  }
  ref.repository = std::string(rest);
  return ref;
}

}  // namespace

std::string HexText(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

Result<Digest> Digest::Parse(std::string_view text) {
  const bool shaped = text.size() == kAlgorithm.size() + kHexDigits &&
                      text.starts_with(kAlgorithm) &&
                      std::all_of(text.begin() + kAlgorithm.size(), text.end(), IsHexDigit);
  if (!shaped) {
    return Error{ErrorCode::kInvalidInput, "'" + std::string(text) + "' is not a digest",
                 "a digest is 'sha256:' and 64 lower-case hex digits"};
  }
  return Digest{std::string(text.substr(kAlgorithm.size()))};
}

Result<ImageReference> ImageReference::Parse(std::string_view text) {
  if (text.starts_with("oci:")) {
    return ParseLayout(text);
  }
  ImageReference ref;
  std::string_view rest = text;
  if (const auto at = rest.find('@'); at != std::string_view::npos) {
    auto digest = Digest::Parse(rest.substr(at + 1));
    if (!digest) {
      return BadReference(text, digest.error().message);
    }
    ref.digest = *digest;
    rest = rest.substr(0, at);
  }
  if (auto taken = TakeTag(text, rest, ref); !taken) {
    return std::move(taken).error();
  }
  // docker's rule: the first part is a host if it has a dot or a port or is localhost.
  const auto first = rest.find('/');
  const std::string_view head = rest.substr(0, first);
  if (first != std::string_view::npos &&
      (head.find_first_of(".:") != std::string_view::npos || head == "localhost")) {
    ref.registry = std::string(head);
    rest = rest.substr(first + 1);
  } else {
    ref.registry = "docker.io";
  }
  if (rest.empty() || !std::all_of(rest.begin(), rest.end(), IsRepositoryChar) ||
      rest.front() == '/' || rest.back() == '/' || rest.find("//") != std::string_view::npos) {
    return BadReference(
        text, "'" + std::string(rest) + "' is not a repository name (lower case, digits, . _ - /)");
  }
  ref.repository = std::string(rest);
  return ref;
}

std::string ImageReference::Name() const {
  return oci_layout ? "oci:" + repository : registry + "/" + repository;
}

std::string ImageReference::ToString() const {
  std::string text = Name();
  if (!tag.empty()) {
    text += ":" + tag;
  }
  if (!digest.empty()) {
    text += "@" + digest.ToString();
  }
  return text;
}

Result<Digest> DigestOfImageId(std::string_view image_id) {
  const auto at = image_id.rfind(kAlgorithm);
  if (at == std::string_view::npos) {
    return Error{ErrorCode::kNotFound, "imageID '" + std::string(image_id) + "' holds no digest",
                 ""};
  }
  return Digest::Parse(image_id.substr(at));
}

}  // namespace dlc

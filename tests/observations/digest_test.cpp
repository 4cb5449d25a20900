#include "probes/observations/digest.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

const std::string kHex(64, 'a');

TEST_CASE("hex text: two lower-case digits for each byte") {
  CHECK(HexText({}) == "");
  const std::uint8_t bytes[] = {0x00, 0x0f, 0xa9, 0xff};
  CHECK(HexText(bytes) == "000fa9ff");
}

TEST_CASE("digest: only sha256 and 64 lower-case hex digits") {
  CHECK(Digest::Parse("sha256:" + kHex).value().hex == kHex);
  for (const std::string& bad : {kHex, "sha256:" + kHex.substr(1), "sha256:" + std::string(64, 'A'),
                                 "sha512:" + kHex, "sha256:" + kHex + "0", std::string()}) {
    CAPTURE(bad);
    CHECK_FALSE(Digest::Parse(bad).has_value());
  }
}

TEST_CASE("image reference: registry, repository, tag and digest") {
  struct Row {
    const char* text;
    const char* registry;
    const char* repository;
    const char* tag;
  };
  const Row rows[] = {
      {"public.ecr.aws/deep-learning-containers/ray:train-ml-cuda", "public.ecr.aws",
       "deep-learning-containers/ray", "train-ml-cuda"},
      {"localhost/ray", "localhost", "ray", ""},
      {"127.0.0.1:5000/a/b:1", "127.0.0.1:5000", "a/b", "1"},
      {"ray:1", "docker.io", "ray", "1"},
      {"team/ray", "docker.io", "team/ray", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto ref = ImageReference::Parse(row.text);
    REQUIRE(ref.has_value());
    CHECK(ref->registry == row.registry);
    CHECK(ref->repository == row.repository);
    CHECK(ref->tag == row.tag);
    CHECK(ref->digest.empty());
  }
  const auto pinned = ImageReference::Parse("r.example/x:v1@sha256:" + kHex);
  REQUIRE(pinned.has_value());
  CHECK(pinned->tag == "v1");
  CHECK(pinned->digest.hex == kHex);
  CHECK(pinned->ToString() == "r.example/x:v1@sha256:" + kHex);
}

TEST_CASE("image reference: OCI layouts on disk") {
  const auto plain = ImageReference::Parse("oci:examples/local/image");
  REQUIRE(plain.has_value());
  CHECK(plain->oci_layout);
  CHECK(plain->repository == "examples/local/image");
  CHECK(plain->tag.empty());
  const auto tagged = ImageReference::Parse("oci:/a:b/image:v1");
  REQUIRE(tagged.has_value());
  CHECK(tagged->repository == "/a:b/image");
  CHECK(tagged->tag == "v1");
}

TEST_CASE("image reference: what is none is refused") {
  for (const char* bad :
       {"", "oci:", "UPPER/x:1", "a//b", "x:", "x:-t", "x@sha256:12", "r.example/", "x y"}) {
    CAPTURE(bad);
    CHECK_FALSE(ImageReference::Parse(bad).has_value());
  }
}

TEST_CASE("imageID: every form that runtimes write names the same digest") {
  const std::string digest = "sha256:" + kHex;
  for (const std::string& form : {"docker-pullable://r.example/x@" + digest, "docker://" + digest,
                                  "r.example/x@" + digest, digest}) {
    CAPTURE(form);
    CHECK(DigestOfImageId(form).value().hex == kHex);
  }
  CHECK(DigestOfImageId("").error().code == ErrorCode::kNotFound);
  CHECK_FALSE(DigestOfImageId("r.example/x:tag").has_value());
}

}  // namespace
}  // namespace dlc

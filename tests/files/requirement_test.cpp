#include "probes/control/files/requirement.h"

#include <doctest/doctest.h>

#include <string>

#include "probes/control/files/secret_text.h"

namespace dlc {
namespace {

TEST_CASE("requirement: every form gives its name, specifier and whether it is an option") {
  struct Row {
    const char* text;
    const char* name;
    const char* specifier;
    bool option;
  };
  const Row rows[] = {
      {"requests", "requests", "", false},
      {"  torch==2.9.0  ", "torch", "==2.9.0", false},
      {"Torch == 2.9.0", "torch", "==2.9.0", false},
      {"nvidia_nccl_cu13", "nvidia-nccl-cu13", "", false},
      {"Flash.-_Attn>=2,<3", "flash-attn", ">=2,<3", false},
      {"ray[train,default]>=2.58 ; python_version > '3.9'", "ray", ">=2.58", false},
      {"ray [train]", "ray", "", false},
      {"numpy (>=1.20)", "numpy", ">=1.20", false},
      {"numpy~=2.0 # why", "numpy", "~=2.0", false},
      {"numpy==2.0 --hash=sha256:abc", "numpy", "==2.0", false},
      {"torch @ https://x.test/torch.whl", "torch", "@ https://x.test/torch.whl", false},
      {"torch@https://x.test/torch.whl ; marker", "torch", "@ https://x.test/torch.whl", false},
      {"https://x.test/whl/torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl", "torch",
       "==2.4.0+cu121", false},
      {"https://x.test/nvidia_nccl_cu13-2.1-py3-none-any.whl#sha256=00", "nvidia-nccl-cu13",
       "==2.1", false},
      {"git+https://x.test/t.git@main#egg=Torch&subdirectory=a", "torch", "", false},
      {"git+https://x.test/t.git@main", "", "", false},
      {"./wheels/torch-2.9.0-cp313-none-any.whl", "torch", "==2.9.0", false},
      {"torch-2.9.0-cp313-none-any.whl", "torch", "==2.9.0", false},
      {"./src", "", "", false},
      {"--extra-index-url https://x.test/whl", "", "", true},
      {"-r requirements.txt", "", "", true},
      {"-e .", "", "", true},
      {"-e git+https://x.test/t.git#egg=torch", "torch", "", true},
      {"what is this", "", "", false},
      {"", "", "", false},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const RequestedPackage package = ParseRequirement(row.text, "pip");
    CHECK(package.installer == "pip");
    CHECK(package.name == row.name);
    CHECK(package.specifier == row.specifier);
    CHECK(package.is_option == row.option);
  }
}

TEST_CASE("requirement: credentials in URLs do not reach the observations") {
  const auto option =
      ParseRequirement("--extra-index-url https://me:s3cret@pypi.test/simple", "pip");
  CHECK(option.text == "--extra-index-url https://(redacted)@pypi.test/simple");
  const auto url = ParseRequirement("torch @ https://s3cret@x.test/torch.whl", "uv");
  CHECK(url.text == "torch @ https://(redacted)@x.test/torch.whl");
  CHECK(url.specifier == "@ https://(redacted)@x.test/torch.whl");
  CHECK(WithoutUrlCredentials("a://b@c d://e@f/g@h") == "a://(redacted)@c d://(redacted)@f/g@h");
  CHECK(WithoutUrlCredentials("https://x.test/@scope") == "https://x.test/@scope");
}

TEST_CASE("conda dependency: name, version and channel") {
  struct Row {
    const char* text;
    const char* name;
    const char* specifier;
  };
  const Row rows[] = {{"numpy", "numpy", ""},
                      {"numpy=1.26=py313_0", "numpy", "=1.26=py313_0"},
                      {"numpy >=1.2,<2", "numpy", ">=1.2,<2"},
                      {"conda-forge::PyTorch==2.9", "pytorch", "==2.9"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const RequestedPackage package = ParseCondaDependency(row.text);
    CHECK(package.installer == "conda");
    CHECK(package.name == row.name);
    CHECK(package.specifier == row.specifier);
    CHECK_FALSE(package.is_option);
  }
}

TEST_CASE("secret names: found in any case, part of a word is enough") {
  for (const char* name : {"HF_TOKEN", "aws_secret_access_key", "DbPassword", "API_KEY",
                           "GOOGLE_APPLICATION_CREDENTIALS"}) {
    CAPTURE(std::string(name));
    CHECK(LooksSecret(name));
  }
  for (const char* name : {"NCCL_DEBUG", "FI_PROVIDER", ""}) {
    CAPTURE(std::string(name));
    CHECK_FALSE(LooksSecret(name));
  }
}

}  // namespace
}  // namespace dlc

#include "checks/package_names.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

namespace dlc {
namespace {

TEST_CASE("package names: PEP 503 makes one spelling") {
  CHECK(NormalizePackageName("Flash_Attn") == "flash-attn");
  CHECK(NormalizePackageName("a-_.b") == "a-b");
  CHECK(PackageNameMatches("nvidia-*", "NVIDIA_nccl.cu13"));
  CHECK_FALSE(PackageNameMatches("nvidia-*", "nvidia"));
  CHECK(PackageNameMatches("Torch", "torch"));
  CHECK_FALSE(PackageNameMatches("torch", "torchvision"));
}

TEST_CASE("package names: what a request installs, where its text tells") {
  struct Row {
    RequestedPackage package;
    std::optional<std::string> name;
  };
  const Row rows[] = {
      {{"pip", "Torch>=2", "Torch", ">=2", false}, "torch"},
      {{"pip", "https://h/x/Torch_x-1.0-py3-none-any.whl#sha256=1", "", "", false}, "torch-x"},
      {{"pip", "git+https://h/x#egg=Y_z&subdirectory=a", "", "", false}, "y-z"},
      {{"pip", "git+https://h/torch.git", "", "", false}, std::nullopt},
      {{"pip", "./local", "", "", false}, std::nullopt},
      {{"pip", "-r torch.whl", "torch", "", true}, std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.package.text);
    CHECK(InstalledName(row.package) == row.name);
  }
}

TEST_CASE("package names: which options bring packages in") {
  for (const char* option :
       {"-r x", "-rx", "--requirement x", "--requirement=x", "-e .", "--editable ."}) {
    CAPTURE(option);
    CHECK(OptionBringsPackages(option));
  }
  for (const char* option :
       {"--extra-index-url https://x", "-i x", "--pre", "-c constraints.txt"}) {
    CAPTURE(option);
    CHECK_FALSE(OptionBringsPackages(option));
  }
}

TEST_CASE("package names: credentials of a URL are not shown") {
  CHECK(WithoutCredentials("--index-url https://me:p@ss@h.example/simple") ==
        "--index-url https://***@h.example/simple");
  CHECK(WithoutCredentials("https://h.example/a@b and git+ssh://git@h/x") ==
        "https://h.example/a@b and git+ssh://***@h/x");
  CHECK(WithoutCredentials("torch==2.13.0") == "torch==2.13.0");
  CHECK(WithoutCredentials("://") == "://");
}

}  // namespace
}  // namespace dlc

#include "kernels/training/cublas_lt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

TEST_CASE("libcublasLt is looked for by the loader, then beside torch") {
  const TemporaryDirectory directory;
  const std::filesystem::path prefix = directory.Path();
  const auto lib = prefix / "lib/python3.12/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(lib);
  std::filesystem::create_directories(prefix / "bin");
  std::ofstream(prefix / "bin/python3") << "";
  std::ofstream(lib / "libcublasLt.so.13") << "not a library";
  const std::string expected = (lib / "libcublasLt.so.13").string();

  const auto by_path = CublasLtCandidates("", (prefix / "bin").string(), "", "");
  CHECK(by_path == std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12", expected});
  CHECK(CublasLtCandidates("", "", prefix.string(), "").back() == expected);
  const auto packages = prefix / "lib/python3.12/site-packages";
  CHECK(CublasLtCandidates("", "", "", packages.string()).back() == expected);
  CHECK(CublasLtCandidates("/given", "", prefix.string(), "") ==
        std::vector<std::string>{"/given"});

  CublasLt library;
  std::string reasons;
  CHECK_FALSE(LoadCublasLt({expected, "/nowhere/libcublasLt.so.12"}, library, reasons));
  CHECK(reasons.find(expected) != std::string::npos);
  CHECK(reasons.find("/nowhere/libcublasLt.so.12") != std::string::npos);
}

TEST_CASE("a library without cuBLASLt's functions is refused by the first that is missing") {
  CublasLt library;
  std::string reasons;
  CHECK_FALSE(LoadCublasLt({"libm.so.6"}, library, reasons));
  CHECK(reasons == "libm.so.6 has no cublasLtCreate");
}

}  // namespace
}  // namespace dlc

#include "probes/node/nccl/find_nccl.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

using Found = std::vector<std::pair<std::string, std::string>>;

Found Find(const std::string& search_path, const std::string& virtual_env = "",
           const std::string& python_path = "", const std::string& path = "") {
  Found found;
  for (const NcclCandidate& one : NcclCandidates(path, search_path, virtual_env, python_path)) {
    found.emplace_back(one.path, one.found_by);
  }
  return found;
}

const std::string kWheel = "lib/python3.13/site-packages/nvidia/nccl/lib/libnccl.so.2";

TEST_CASE("find nccl: the path that was given, alone") {
  CHECK(Find("/usr/bin", "", "", "/x/libnccl.so.2") == Found{{"/x/libnccl.so.2", "parameter"}});
}

TEST_CASE("find nccl: nothing there leaves the loader's search") {
  CHECK(Find("/nowhere/bin") == Found{{"libnccl.so.2", "loader"}});
  CHECK(Find("") == Found{{"libnccl.so.2", "loader"}});
}

TEST_CASE("find nccl: beside the torch of the Python on PATH") {
  const TemporaryDirectory tree;
  tree.Write("venv/bin/python3");
  const std::string wheel = tree.Write("venv/" + kWheel);
  CHECK(Find(tree / "venv/bin") == Found{{wheel, "python"}, {"libnccl.so.2", "loader"}});
  tree.Write("venv/lib/python3.13/site-packages/torch/lib/libtorch.so");
  CHECK(Find(tree / "venv/bin") == Found{{wheel, "torch"}, {"libnccl.so.2", "loader"}});
  // A folder without a Python says nothing of a job's.
  tree.Write("other/" + kWheel);
  CHECK(Find(tree / "other/bin" + ":" + tree / "venv/bin").front().first == wheel);
}

TEST_CASE("find nccl: a Python that is a link leads to its own packages") {
  const TemporaryDirectory tree;
  tree.Write("real/bin/python3.13");
  const std::string wheel = tree.Write("real/" + kWheel);
  std::filesystem::create_directories(tree / "link/bin");
  std::filesystem::create_symlink(tree / "real/bin/python3.13", tree / "link/bin/python3");
  CHECK(Find(tree / "link/bin").front().first == wheel);
}

TEST_CASE("find nccl: torch's own copy before the wheel, a copy beside torch before others") {
  const TemporaryDirectory tree;
  tree.Write("a/bin/python3");
  const std::string lone = tree.Write("a/" + kWheel);
  const std::string wheel = tree.Write("b/" + kWheel);
  const std::string own = tree.Write("b/lib/python3.13/site-packages/torch/lib/libnccl.so.2");
  CHECK(Find(tree / "a/bin", tree / "b") ==
        Found{{own, "torch"}, {wheel, "torch"}, {lone, "python"}, {"libnccl.so.2", "loader"}});
  CHECK(Find(tree / "a/bin", "", tree / "b/lib/python3.13/site-packages").front().first == own);
}

}  // namespace
}  // namespace dlc

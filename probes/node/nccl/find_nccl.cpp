#include "probes/node/nccl/find_nccl.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "kernels/python_packages.h"

namespace dlc {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

class Search {
 public:
  /// Copies in one folder of packages: torch's own, else the wheel's.
  void Look(const fs::path& packages) {
    const bool torch = Exists(packages / "torch/lib");
    for (const char* name : {"torch/lib/libnccl.so.2", "nvidia/nccl/lib/libnccl.so.2"}) {
      if (Exists(packages / name)) {
        Add((packages / name).string(), torch ? "torch" : "python");
      }
    }
  }
  void Add(const std::string& path, const char* found_by) {
    const auto same = [&](const NcclCandidate& known) { return known.path == path; };
    if (std::none_of(found_.begin(), found_.end(), same)) {
      found_.push_back({path, found_by});
    }
  }
  std::vector<NcclCandidate> Take() {
    // A copy beside torch is torch's; another package folder's may come before it on the path.
    std::stable_partition(found_.begin(), found_.end(),
                          [](const NcclCandidate& one) { return one.found_by == "torch"; });
    return std::move(found_);
  }

 private:
  std::vector<NcclCandidate> found_;
};

}  // namespace

std::vector<NcclCandidate> NcclCandidates(const std::string& path, const std::string& search_path,
                                          const std::string& virtual_env,
                                          const std::string& python_path) {
  if (!path.empty()) {
    return {{path, "parameter"}};
  }
  Search search;
  for (const std::string& folder : PythonPackageFolders(search_path, virtual_env, python_path)) {
    search.Look(folder);
  }
  search.Add("libnccl.so.2", "loader");
  return search.Take();
}

}  // namespace dlc

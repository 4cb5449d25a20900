#include "probes/node/nccl/find_nccl.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

namespace dlc {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Parts(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream in(list);
  for (std::string part; std::getline(in, part, ':');) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  return parts;
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// site-packages and dist-packages of a Python's prefix.
std::vector<fs::path> PackageFolders(const fs::path& prefix) {
  std::vector<fs::path> folders;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    std::error_code error;
    for (fs::directory_iterator it(prefix / lib, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().filename().string().starts_with("python3")) {
        folders.push_back(it->path() / "site-packages");
        folders.push_back(it->path() / "dist-packages");
      }
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
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
  void LookBelow(const fs::path& prefix) {
    for (const fs::path& packages : PackageFolders(prefix)) {
      Look(packages);
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
  for (const std::string& folder : Parts(python_path)) {
    search.Look(folder);
  }
  if (!virtual_env.empty()) {
    search.LookBelow(virtual_env);
  }
  for (const std::string& folder : Parts(search_path)) {
    for (const char* python : {"python3", "python"}) {
      const fs::path program = fs::path(folder) / python;
      if (Exists(program)) {
        search.LookBelow(fs::path(folder).parent_path());
        std::error_code error;
        const fs::path real = fs::canonical(program, error);
        if (!error) {
          search.LookBelow(real.parent_path().parent_path());
        }
      }
    }
  }
  search.Add("libnccl.so.2", "loader");
  return search.Take();
}

}  // namespace dlc

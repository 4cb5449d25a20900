#include "kernels/python_packages.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
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

/// Of a Python's prefix.
void AddBelow(const fs::path& prefix, std::vector<std::string>& folders) {
  std::vector<fs::path> own;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    std::error_code error;
    for (fs::directory_iterator it(prefix / lib, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().filename().string().starts_with("python3")) {
        own.push_back(it->path() / "site-packages");
        own.push_back(it->path() / "dist-packages");
      }
    }
  }
  std::sort(own.begin(), own.end());
  for (const fs::path& folder : own) {
    folders.push_back(folder.string());
  }
}

}  // namespace

std::vector<std::string> PythonPackageFolders(const std::string& search_path,
                                              const std::string& virtual_env,
                                              const std::string& python_path) {
  std::vector<std::string> folders = Parts(python_path);
  if (!virtual_env.empty()) {
    AddBelow(virtual_env, folders);
  }
  for (const std::string& folder : Parts(search_path)) {
    for (const char* python : {"python3", "python"}) {
      const fs::path program = fs::path(folder) / python;
      std::error_code error;
      if (!fs::exists(program, error)) {
        continue;
      }
      AddBelow(fs::path(folder).parent_path(), folders);
      const fs::path real = fs::canonical(program, error);
      if (!error) {
        AddBelow(real.parent_path().parent_path(), folders);
      }
    }
  }
  return folders;
}

}  // namespace dlc

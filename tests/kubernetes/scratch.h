#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dlc {

/// A fresh directory, removed at the end.
class KubeScratch {
 public:
  KubeScratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dlc-kube-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~KubeScratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  KubeScratch(const KubeScratch&) = delete;
  KubeScratch& operator=(const KubeScratch&) = delete;

  /// The path of a file with that text.
  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }
  /// A shell script that can be run.
  std::string Script(const std::string& name, const std::string& body) const {
    const std::string path = Write(name, "#!/bin/sh\n" + body);
    REQUIRE(chmod(path.c_str(), 0755) == 0);
    return path;
  }
  const std::string& Path() const { return path_; }

 private:
  std::string path_;
};

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace dlc

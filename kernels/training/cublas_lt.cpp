#include "kernels/training/cublas_lt.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "kernels/python_packages.h"

namespace dlc {
namespace {

namespace fs = std::filesystem;

class CublasSearch {
 public:
  void Look(const fs::path& packages) {
    for (const char* name :
         {"nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cublas/lib/libcublasLt.so.13",
          "nvidia/cublas/lib/libcublasLt.so.12"}) {
      std::error_code ignored;
      if (fs::exists(packages / name, ignored)) {
        Add((packages / name).string());
      }
    }
  }
  void Add(const std::string& path) {
    if (std::find(found_.begin(), found_.end(), path) == found_.end()) {
      found_.push_back(path);
    }
  }
  std::vector<std::string> Take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

std::string LoaderWords() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the text per thread
  const char* text = dlerror();
  return text == nullptr ? "no reason given" : text;
}

/// Looks functions up and keeps the first name that is missing.
class CublasSymbols {
 public:
  explicit CublasSymbols(void* handle) : handle_(handle) {}
  template <class Function>
  void Find(const char* name, Function*& to) {
    to = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (to == nullptr && missing_.empty()) {
      missing_ = name;
    }
  }
  const std::string& Missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

std::string FindFunctions(void* handle, CublasLt& library) {
  CublasSymbols symbols(handle);
  symbols.Find("cublasLtCreate", library.create);
  symbols.Find("cublasLtDestroy", library.destroy);
  symbols.Find("cublasLtGetStatusName", library.status_name);
  symbols.Find("cublasLtGetVersion", library.version);
  symbols.Find("cublasLtMatmulDescCreate", library.description_create);
  symbols.Find("cublasLtMatmulDescDestroy", library.description_destroy);
  symbols.Find("cublasLtMatmulDescSetAttribute", library.description_set);
  symbols.Find("cublasLtMatrixLayoutCreate", library.layout_create);
  symbols.Find("cublasLtMatrixLayoutDestroy", library.layout_destroy);
  symbols.Find("cublasLtMatmulPreferenceCreate", library.preference_create);
  symbols.Find("cublasLtMatmulPreferenceDestroy", library.preference_destroy);
  symbols.Find("cublasLtMatmulPreferenceSetAttribute", library.preference_set);
  symbols.Find("cublasLtMatmulAlgoGetHeuristic", library.heuristic);
  symbols.Find("cublasLtMatmul", library.matmul);
  return symbols.Missing();
}

}  // namespace

std::vector<std::string> CublasLtCandidates(const std::string& path, const std::string& search_path,
                                            const std::string& virtual_env,
                                            const std::string& python_path) {
  if (!path.empty()) {
    return {path};
  }
  CublasSearch search;
  search.Add("libcublasLt.so.13");
  search.Add("libcublasLt.so.12");
  for (const std::string& folder : PythonPackageFolders(search_path, virtual_env, python_path)) {
    search.Look(folder);
  }
  return search.Take();
}

bool LoadCublasLt(const std::vector<std::string>& candidates, CublasLt& library,
                  std::string& reasons) {
  for (const std::string& candidate : candidates) {
    reasons += reasons.empty() ? "" : "; ";
    void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      reasons += LoaderWords();
      continue;
    }
    const std::string missing = FindFunctions(handle, library);
    if (missing.empty()) {
      library.path = candidate;
      return true;
    }
    reasons += candidate + " has no " + missing;
  }
  return false;
}

}  // namespace dlc

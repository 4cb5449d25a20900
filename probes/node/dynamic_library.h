#pragma once

#include <string>
#include <utility>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// A library loaded at run time. Never unloaded: libfabric, CUDA and NCCL leave threads and exit
/// handlers behind that would run unmapped code.
class DynamicLibrary {
 public:
  /// The first of `candidates` that loads; a name without a slash goes through the loader's own
  /// search. kNotFound lists each candidate with the loader's reason. `global` makes its symbols
  /// visible to libraries loaded later (RTLD_GLOBAL). Signal handlers that a library installs while
  /// it is loaded are taken back.
  static Result<DynamicLibrary> Open(const std::vector<std::string>& candidates,
                                     bool global = false);

  /// Sets `to` to the function `name`, or returns kUnsupported naming the symbol and the file. With
  /// `version` ("FABRIC_1.3") exactly that one: plain dlsym gives the newest, whose structs may be
  /// longer than those of the headers built against.
  template <class Function>
  Result<void> Find(const char* name, const char* version, Function*& to) const {
    auto address = Address(name, version);
    if (!address) {
      return std::move(address).error();
    }
    to = reinterpret_cast<Function*>(*address);
    return {};
  }

  /// The file that is mapped, symbolic links resolved.
  const std::string& Path() const { return path_; }
  /// The GNU build id in hex from the mapped ELF notes, or "" when there is none.
  std::string BuildId() const;

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Result<void*> Address(const char* name, const char* version) const;

  void* handle_;
  std::string path_;
};

}  // namespace dlc

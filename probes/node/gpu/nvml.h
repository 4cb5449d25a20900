#pragma once

#include <string>
#include <utility>

#include "probes/node/dynamic_library.h"
#include "probes/node/gpu/nvml_abi.h"
#include "probes/observations/fabric.h"
#include "probes/observations/result.h"

namespace dlc {

/// libnvidia-ml as this process finds it. Its own errors become ours: not supported by the GPU is
/// kUnsupported, forbidden is kPermissionDenied, a function that this NVML lacks is kNotFound.
class Nvml {
 public:
  /// The library that the loader finds; not yet initialised.
  static Result<Nvml> Open();

  /// nvmlInit. `code` is its return code also when it fails.
  Result<void> Initialize(int& code) const;

  /// Calls nvml<name>. The arguments' types are the function's, exactly: nothing checks them.
  template <class... Arguments>
  Result<void> Call(const char* name, Arguments... arguments) const {
    int (*function)(Arguments...) = nullptr;
    if (auto found = Find(name, function); !found) {
      return found;
    }
    return Told(name, function(arguments...));
  }
  /// The return code as it is; -1 where this NVML has no such function.
  template <class... Arguments>
  int Code(const char* name, Arguments... arguments) const {
    int (*function)(Arguments...) = nullptr;
    return Find(name, function) ? function(arguments...) : -1;
  }

  LoadedLibrary Describe() const;

 private:
  explicit Nvml(DynamicLibrary library) : library_(std::move(library)) {}

  template <class Function>
  Result<void> Find(const char* name, Function*& to) const {
    return library_.Find(name, nullptr, to) ? Result<void>() : Missing(name);
  }
  Result<void> Missing(const char* name) const;
  Result<void> Told(const char* name, int code) const;

  DynamicLibrary library_;
};

}  // namespace dlc

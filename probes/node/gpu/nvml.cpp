#include "probes/node/gpu/nvml.h"

namespace dlc {
namespace {

ErrorCode KindOf(int code) {
  switch (code) {
    case nvml::kNotSupported:
      return ErrorCode::kUnsupported;
    case nvml::kNoPermission:
      return ErrorCode::kPermissionDenied;
    case nvml::kNotFound:
    case nvml::kFunctionNotFound:
      return ErrorCode::kNotFound;
    case nvml::kTimeout:
      return ErrorCode::kTimedOut;
    default:
      return ErrorCode::kUnavailable;
  }
}

/// What to do about the ones that people meet.
const char* HintFor(int code) {
  switch (code) {
    case nvml::kDriverNotLoaded:
      return "the node has no NVIDIA driver loaded, or the container was given no device files";
    case nvml::kGpuIsLost:
      return "the GPU has fallen off the bus (Xid 79): drain the node, reboot or replace it";
    case nvml::kResetRequired:
      return "the GPU must be reset: drain the node and reboot it";
    case nvml::kLibRmVersionMismatch:
      return "the driver was changed under running containers: reboot the node, then recreate the "
             "pod";
    case nvml::kUnknown:
      return "device permissions were taken away while the container ran (a systemd reload does "
             "that): recreate the pod";
    default:
      return "";
  }
}

}  // namespace

Result<Nvml> Nvml::Open() {
  auto library = DynamicLibrary::Open({"libnvidia-ml.so.1"});
  if (!library) {
    Error error = std::move(library).error();
    error.hint =
        "the container runtime puts it into pods that ask for nvidia.com/gpu; look at the pod's "
        "runtime class and NVIDIA_VISIBLE_DEVICES";
    return error;
  }
  return Nvml(std::move(library).value());
}

Result<void> Nvml::Initialize(int& code) const {
  code = -1;
  int (*init)() = nullptr;
  if (auto found = Find("nvmlInit_v2", init); !found) {
    return found;
  }
  code = init();
  return Told("nvmlInit_v2", code);
}

Result<void> Nvml::Missing(const char* name) const {
  return Error{ErrorCode::kNotFound, library_.Path() + " has no " + name, "the driver is older"};
}

Result<void> Nvml::Told(const char* name, int code) const {
  if (code == nvml::kSuccess) {
    return {};
  }
  const char* (*text)(int) = nullptr;
  std::string words = "error";
  if (library_.Find("nvmlErrorString", nullptr, text)) {
    const char* given = text(code);
    words = given == nullptr ? words : given;
  }
  return Error{KindOf(code), std::string(name) + ": " + words + " (" + std::to_string(code) + ")",
               HintFor(code)};
}

LoadedLibrary Nvml::Describe() const {
  char version[nvml::kTextBytes] = "";
  (void)Code("nvmlSystemGetNVMLVersion", static_cast<char*>(version), nvml::kTextBytes);
  version[nvml::kTextBytes - 1] = '\0';
  return {library_.Path(), version, library_.BuildId()};
}

}  // namespace dlc

#include "probes/node/gpu/cuda_view.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/cuda_device.h"
#include "probes/node/dynamic_library.h"
#include "probes/node/gpu/cuda_meaning.h"

namespace dlc {
namespace {

namespace fs = std::filesystem;

/// libcuda.so.1, by the names that its ABI keeps.
class CudaDriver {
 public:
  explicit CudaDriver(DynamicLibrary library) : library_(std::move(library)) {}

  /// False after noting the failure. The arguments' types are the function's, exactly.
  template <class... Arguments>
  bool Call(CudaFailure& failure, const char* name, Arguments... arguments) const {
    int (*function)(Arguments...) = nullptr;
    if (const auto found = library_.Find(name, nullptr, function); !found) {
      failure = {-1, "missing function", name, found.error().message, ""};
      return false;
    }
    const int code = function(arguments...);
    if (code != 0) {
      failure = {code, Words("cuGetErrorName", code), name, Words("cuGetErrorString", code),
                 CudaMeaning(code)};
    }
    return code == 0;
  }
  const DynamicLibrary& Library() const { return library_; }

 private:
  std::string Words(const char* function, int code) const {
    int (*words)(int, const char**) = nullptr;
    const char* text = nullptr;
    if (!library_.Find(function, nullptr, words) || words(code, &text) != 0 || text == nullptr) {
      return "CUDA error";
    }
    return text;
  }

  DynamicLibrary library_;
};

constexpr int kAttributeMajor = 75;
constexpr int kAttributeMinor = 76;

std::string UuidText(const std::array<unsigned char, 16>& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
    text += i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "";
  }
  return text;
}

bool ReadCudaGpu(const CudaDriver& driver, int ordinal, CudaFailure& failure, CudaGpu& gpu) {
  int device = 0;
  std::array<char, 256> name{};
  std::array<char, 32> address{};
  std::array<unsigned char, 16> uuid{};
  int major = 0;
  int minor = 0;
  std::size_t bytes = 0;
  if (!driver.Call(failure, "cuDeviceGet", &device, ordinal) ||
      !driver.Call(failure, "cuDeviceGetName", name.data(), 256, device) ||
      !driver.Call(failure, "cuDeviceGetUuid_v2", uuid.data(), device) ||
      !driver.Call(failure, "cuDeviceGetPCIBusId", address.data(), 32, device) ||
      !driver.Call(failure, "cuDeviceGetAttribute", &major, kAttributeMajor, device) ||
      !driver.Call(failure, "cuDeviceGetAttribute", &minor, kAttributeMinor, device) ||
      !driver.Call(failure, "cuDeviceTotalMem_v2", &bytes, device)) {
    return false;
  }
  name.back() = '\0';
  address.back() = '\0';
  gpu = {ordinal,
         UuidText(uuid),
         name.data(),
         address.data(),
         std::to_string(major) + "." + std::to_string(minor),
         static_cast<std::int64_t>(bytes)};
  return true;
}

Error ErrorOf(const CudaFailure& failure) {
  return {failure.code == 100 ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
          CudaFailureText(failure), failure.meaning};
}

void ReadCudaGpus(const CudaDriver& driver, CudaView& to) {
  int count = 0;
  if (!driver.Call(to.failure, "cuInit", 0U) ||
      !driver.Call(to.failure, "cuDeviceGetCount", &count)) {
    to.gpus = ErrorOf(to.failure);
    return;
  }
  std::vector<CudaGpu> gpus;
  for (int i = 0; i < count; ++i) {
    CudaGpu gpu;
    if (!ReadCudaGpu(driver, i, to.failure, gpu)) {
      to.gpus = ErrorOf(to.failure);
      return;
    }
    gpus.push_back(std::move(gpu));
  }
  to.gpus = std::move(gpus);
}

/// "580.95.05" of ".../libcuda.so.580.95.05"; empty for another kind of name.
std::string VersionInName(const std::string& path) {
  constexpr std::string_view kStem = "libcuda.so.";
  const std::string name = fs::path(path).filename().string();
  return name.compare(0, kStem.size(), kStem) == 0 ? name.substr(kStem.size()) : "";
}

std::vector<std::string> MappedLibcuda() {
  std::vector<std::string> paths;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');
    if (at == std::string::npos || line.find("libcuda.so", at) == std::string::npos) {
      continue;
    }
    const std::string path = line.substr(at);
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) {
      paths.push_back(path);
    }
  }
  return paths;
}

Observed<std::string> CompatVersion(const std::string& root) {
  const fs::path link = fs::path(root) / "usr/local/cuda/compat/libcuda.so.1";
  std::error_code failed;
  const fs::path file = fs::canonical(link, failed);
  if (failed) {
    return Error{ErrorCode::kNotFound, "cannot follow " + link.string() + ": " + failed.message(),
                 ""};
  }
  return VersionInName(file.string());
}

/// The runtime that the image brings: what its programs need of the driver. It has no need of
/// libcuda to be loaded and asked.
Observed<LoadedLibrary> ImageRuntime() {
  auto library = DynamicLibrary::Open(
      {"/opt/venv/lib/python3.13/site-packages/nvidia/cu13/lib/libcudart.so.13", "libcudart.so.13",
       "libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so"});
  if (!library) {
    return Error{ErrorCode::kNotFound, "found no CUDA runtime (libcudart.so)",
                 "outside the image this is no fault"};
  }
  int (*get)(int*) = nullptr;
  int version = 0;
  if (const auto found = library->Find("cudaRuntimeGetVersion", nullptr, get); !found) {
    return found.error();
  }
  const int code = get(&version);
  if (code != 0) {
    return Error{ErrorCode::kUnavailable,
                 library->Path() + ": cudaRuntimeGetVersion gave " + std::to_string(code), ""};
  }
  return LoadedLibrary{library->Path(), std::to_string(version), library->BuildId()};
}

}  // namespace

CudaView ObserveCudaView(const std::string& root) {
  CudaView view;
  view.probe_runtime_version = CudaRuntimeVersion();
  view.probe_architectures = CudaArchitectures();
  view.compat_file = CompatVersion(root);
  auto library = DynamicLibrary::Open({"libcuda.so.1"});
  if (library) {
    const CudaDriver driver(std::move(library).value());
    const std::string& path = driver.Library().Path();
    view.library = LoadedLibrary{path, VersionInName(path), driver.Library().BuildId()};
    view.compat = path.find("/compat/") != std::string::npos;
    int version = 0;
    CudaFailure failure;
    view.driver_version = driver.Call(failure, "cuDriverGetVersion", &version)
                              ? Observed<int>(version)
                              : Observed<int>(ErrorOf(failure));
    ReadCudaGpus(driver, view);
  } else {
    Error error = std::move(library).error();
    error.hint = "the container runtime puts it into pods that ask for nvidia.com/gpu";
    view.driver_version = error;
    view.gpus = error;
    view.library = std::move(error);
  }
  view.mapped = MappedLibcuda();
  view.image_runtime = ImageRuntime();
  return view;
}

}  // namespace dlc

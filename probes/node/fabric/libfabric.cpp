#include "probes/node/fabric/libfabric.h"

namespace dlc {
std::vector<std::string> LibfabricCandidates() {
  return {"/opt/amazon/efa/lib64/libfabric.so.1", "/opt/amazon/efa/lib/libfabric.so.1",
          "libfabric.so.1"};
}

Result<std::shared_ptr<const Libfabric>> Libfabric::Load(const std::string& path) {
  auto library =
      DynamicLibrary::Open(path.empty() ? LibfabricCandidates() : std::vector<std::string>{path});
  if (!library) {
    Error error = std::move(library).error();
    error.hint = "install libfabric (on AWS the EFA installer brings it) or name the file";
    return error;
  }
  auto loaded = std::make_shared<Libfabric>(Libfabric{std::move(library).value()});
  const DynamicLibrary& from = loaded->library;
  for (auto bound : {from.Find("fi_getinfo", "FABRIC_1.3", loaded->getinfo),
                     from.Find("fi_freeinfo", "FABRIC_1.3", loaded->freeinfo),
                     from.Find("fi_dupinfo", "FABRIC_1.3", loaded->dupinfo),
                     from.Find("fi_fabric", "FABRIC_1.1", loaded->fabric),
                     from.Find("fi_version", "FABRIC_1.0", loaded->version),
                     from.Find("fi_strerror", "FABRIC_1.0", loaded->strerror),
                     from.Find("fi_tostr", "FABRIC_1.0", loaded->tostr)}) {
    if (!bound) {
      return std::move(bound).error();
    }
  }
  return std::shared_ptr<const Libfabric>(std::move(loaded));
}

LoadedLibrary Libfabric::Describe() const {
  const std::uint32_t number = version();
  return {library.Path(), std::to_string(FI_MAJOR(number)) + "." + std::to_string(FI_MINOR(number)),
          library.BuildId()};
}

std::string Libfabric::Text(std::int64_t code) const {
  return strerror(static_cast<int>(code < 0 ? -code : code));
}

}  // namespace dlc

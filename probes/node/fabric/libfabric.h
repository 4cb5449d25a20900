#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "probes/node/dynamic_library.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// The API that the code is written to. Newer libraries keep it; EFA installers of interest have
/// 1.18 or newer.
inline constexpr std::uint32_t kFabricApi = FI_VERSION(1, 17);

/// What libfabric exports; all else is reached through operation tables inside its objects. Symbols
/// are taken by version: FABRIC_1.3 is the layout of the 1.17 headers, in 2.x too.
struct Libfabric {
  DynamicLibrary library;
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_version) version = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_tostr) tostr = nullptr;

  /// `path`, or when empty the EFA installer's copy, else the system's: the image's own library is
  /// what the job uses.
  static Result<std::shared_ptr<const Libfabric>> Load(const std::string& path);

  LoadedLibrary Describe() const;
  /// libfabric's text for a negative return code.
  std::string Text(std::int64_t code) const;
};

/// Where Load looks when no path is given, in order.
std::vector<std::string> LibfabricCandidates();

/// Closes any libfabric object.
struct CloseFid {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
};
template <class Object>
using Fid = std::unique_ptr<Object, CloseFid>;

struct FreeInfo {
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  void operator()(fi_info* info) const { freeinfo(info); }
};
using InfoList = std::unique_ptr<fi_info, FreeInfo>;

}  // namespace dlc

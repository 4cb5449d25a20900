#include "probes/node/fabric/provider.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace dlc {
namespace {

std::string FromC(const char* text) {
  return text == nullptr ? "" : text;
}

std::string_view ProviderName(const fi_info& info) {
  return info.fabric_attr->prov_name == nullptr ? "" : info.fabric_attr->prov_name;
}

const char* Environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody here changes the environment while threads run
  return std::getenv(name);
}

/// Smaller is better; kNever is taken only when asked for by name or by FI_PROVIDER. "net" is the
/// name that 1.17 has for what "tcp" became in 1.18. udp and sockets are for development, shm does
/// not leave the host.
constexpr int kNever = 100;
int ProviderRank(std::string_view name) {
  constexpr std::array<std::string_view, 4> kOrder = {"efa", "tcp", "tcp;ofi_rxm", "net"};
  const auto* const at = std::find(kOrder.begin(), kOrder.end(), name);
  return at == kOrder.end() ? kNever : static_cast<int>(at - kOrder.begin());
}

/// 0 routable IPv4 or no IP address at all, 1 routable IPv6, 2 link-local, 3 loopback.
int AddressRank(const fi_info& info) {
  if (info.src_addr == nullptr) {
    return 0;
  }
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addrlen >= sizeof(sockaddr_in)) {
    const std::uint32_t ip = ntohl(static_cast<const sockaddr_in*>(info.src_addr)->sin_addr.s_addr);
    const bool link_local = (ip >> 16) == 0xa9feU;  // 169.254/16
    return (ip >> 24) == 127 ? 3 : (link_local ? 2 : 0);
  }
  if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addrlen >= sizeof(sockaddr_in6)) {
    const in6_addr& ip = static_cast<const sockaddr_in6*>(info.src_addr)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&ip) ? 3 : (IN6_IS_ADDR_LINKLOCAL(&ip) ? 2 : 1);
  }
  return 0;
}

std::vector<std::string> MrModeNames(int mode) {
  constexpr std::array<std::pair<int, const char*>, 9> kNames = {
      {{FI_MR_LOCAL, "FI_MR_LOCAL"},
       {FI_MR_RAW, "FI_MR_RAW"},
       {FI_MR_VIRT_ADDR, "FI_MR_VIRT_ADDR"},
       {FI_MR_ALLOCATED, "FI_MR_ALLOCATED"},
       {FI_MR_PROV_KEY, "FI_MR_PROV_KEY"},
       {FI_MR_MMU_NOTIFY, "FI_MR_MMU_NOTIFY"},
       {FI_MR_RMA_EVENT, "FI_MR_RMA_EVENT"},
       {FI_MR_ENDPOINT, "FI_MR_ENDPOINT"},
       {FI_MR_HMEM, "FI_MR_HMEM"}}};
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames) {
    if ((mode & bit) != 0) {
      names.emplace_back(name);
    }
  }
  return names;
}

Error NoProvider(const FabricOptions& options, const std::string& reason) {
  const char* filter = Environment("FI_PROVIDER");
  std::string wanted = options.provider.empty() ? "no usable libfabric provider"
                                                : "no libfabric provider " + options.provider;
  if (!options.domain.empty()) {
    wanted += " on domain " + options.domain;
  }
  if (!options.source_address.empty()) {
    wanted += " at " + options.source_address;
  }
  if (filter != nullptr) {
    wanted += std::string(" (FI_PROVIDER=") + filter + ")";
  }
  return Error{ErrorCode::kNotFound, wanted + ": " + reason,
               "for efa look at /dev/infiniband, `ulimit -l` and FI_PROVIDER, in this order"};
}

}  // namespace

Result<InfoList> QueryProviders(const Libfabric& libfabric, const FabricOptions& options) {
  const InfoList hints(libfabric.dupinfo(nullptr), FreeInfo{libfabric.freeinfo});
  if (!hints) {
    return Error{ErrorCode::kUnavailable, "libfabric cannot allocate hints", ""};
  }
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_MSG | FI_TAGGED;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  if (!options.provider.empty()) {
    hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  }
  if (!options.domain.empty()) {
    hints->domain_attr->name = strdup(options.domain.c_str());
  }
  fi_info* list = nullptr;
  const bool at_address = !options.source_address.empty();
  const int code =
      libfabric.getinfo(kFabricApi, at_address ? options.source_address.c_str() : nullptr, nullptr,
                        at_address ? FI_SOURCE | FI_NUMERICHOST : 0, hints.get(), &list);
  if (code != 0) {
    return NoProvider(options, libfabric.Text(code));
  }
  return InfoList(list, FreeInfo{libfabric.freeinfo});
}

Result<const fi_info*> ChooseProvider(const fi_info* list, const FabricOptions& options) {
  const bool any = !options.provider.empty() || Environment("FI_PROVIDER") != nullptr;
  const fi_info* best = nullptr;
  std::pair<int, int> best_rank;
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    const std::pair<int, int> rank(ProviderRank(ProviderName(*info)), AddressRank(*info));
    if ((any || rank.first != kNever) && (best == nullptr || rank < best_rank)) {
      best = info;
      best_rank = rank;
    }
  }
  if (best == nullptr) {
    return NoProvider(options, "only providers that are not used unless asked for");
  }
  return best;
}

FabricProvider DescribeProvider(const Libfabric& libfabric, const fi_info& info) {
  FabricProvider provider;
  provider.name = ProviderName(info);
  provider.domain = FromC(info.domain_attr->name);
  provider.fabric = FromC(info.fabric_attr->name);
  const std::uint32_t version = info.fabric_attr->prov_version;
  provider.version = std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
  provider.protocol = FromC(libfabric.tostr(&info.ep_attr->protocol, FI_TYPE_PROTOCOL));
  provider.mr_mode = MrModeNames(info.domain_attr->mr_mode);
  return provider;
}

std::vector<FabricProvider> DescribeProviders(const Libfabric& libfabric, const fi_info* list) {
  std::vector<FabricProvider> providers;
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    FabricProvider provider = DescribeProvider(libfabric, *info);
    if (std::find(providers.begin(), providers.end(), provider) == providers.end()) {
      providers.push_back(std::move(provider));
    }
  }
  return providers;
}

}  // namespace dlc

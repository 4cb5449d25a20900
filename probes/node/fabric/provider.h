#pragma once

#include <vector>

#include "probes/node/fabric/libfabric.h"
#include "probes/node/fabric/options.h"

namespace dlc {

/// All ways that offer reliable datagrams with tagged messages, in libfabric's order. Not found
/// when there is none, with a hint for the usual causes.
Result<InfoList> QueryProviders(const Libfabric& libfabric, const FabricOptions& options);

/// The preferred one of QueryProviders' list: provider as FabricOptions says, then routable
/// addresses before link-local ones and loopback. Points into `list`.
Result<const fi_info*> ChooseProvider(const fi_info* list, const FabricOptions& options);

FabricProvider DescribeProvider(const Libfabric& libfabric, const fi_info& info);
/// Without duplicates that differ in nothing shown.
std::vector<FabricProvider> DescribeProviders(const Libfabric& libfabric, const fi_info* list);

}  // namespace dlc

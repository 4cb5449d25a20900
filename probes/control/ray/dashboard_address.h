#pragma once

#include <string>
#include <string_view>

#include "probes/control/http/url.h"
#include "probes/observations/result.h"

namespace dlc {

/// The address of a Ray dashboard: http:// or https://, a path below which it is served allowed.
/// kInvalidInput, naming the dashboard's port, for the other addresses that Ray knows (ray://, GCS'
/// host:6379, auto, local), and for what is no URL, has a password, a query or a fragment.
Result<Url> ParseDashboardAddress(std::string_view text);

/// "NAME.NAMESPACE.svc" or the same below cluster.local: a name that only a cluster's own DNS
/// resolves.
bool IsClusterDnsName(std::string_view host);

}  // namespace dlc

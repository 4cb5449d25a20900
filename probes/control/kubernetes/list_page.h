#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// One page of a list, cut into its items without reading them: what a page of thousands of objects
/// costs in memory is then one object at a time.
struct ListPage {
  std::string kind;
  std::string resource_version;
  std::string continue_token;           ///< empty: the last page
  std::vector<std::string_view> items;  ///< into the bytes given; each starts with {
};

/// kUnavailable for what breaks off, is no JSON object or no list. What lies inside the items is
/// not looked at.
Result<ListPage> SplitListPage(std::string_view body);

}  // namespace dlc

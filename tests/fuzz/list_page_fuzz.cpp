#include <nlohmann/json.hpp>

#include "probes/control/kubernetes/list_page.h"
#include "tests/fuzz/fuzz_target.h"

/// A page is cut without being read. Where it is JSON to another reader too, both see the same
/// items.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body = dlc::FuzzText(data, size);
  const auto page = dlc::SplitListPage(body);
  if (!page) {
    dlc::Demand(page.error().code == dlc::ErrorCode::kUnavailable);
    return 0;
  }
  for (const std::string_view item : page->items) {
    dlc::Demand(item.data() >= body.data() && item.data() + item.size() <= body.data() + size);
    // By brackets alone: {] is cut out too, and its reader refuses it.
    dlc::Demand(item.starts_with('{'));
  }
  const auto whole = nlohmann::json::parse(body, nullptr, false);
  if (whole.is_discarded()) {
    return 0;  // broken inside an item: its own reader will say so
  }
  const auto items = whole.find("items");
  dlc::Demand(items != whole.end());
  dlc::Demand(items->size() == page->items.size());
  for (std::size_t i = 0; i < page->items.size(); ++i) {
    dlc::Demand(nlohmann::json::parse(page->items[i], nullptr, false) == (*items)[i]);
  }
  return 0;
}

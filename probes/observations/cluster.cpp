#include "probes/observations/cluster.h"

#include <charconv>
#include <string_view>

namespace dlc {
namespace {

struct Suffix {
  std::string_view text;
  std::int64_t factor;
};
// Kubernetes resource.Quantity, the suffixes that keep a number whole.
constexpr Suffix kSuffixes[] = {
    {"", 1},           {"k", 1000},       {"M", 1'000'000},  {"G", 1'000'000'000},
    {"Ki", 1LL << 10}, {"Mi", 1LL << 20}, {"Gi", 1LL << 30}, {"Ti", 1LL << 40}};

}  // namespace

std::optional<std::int64_t> WholeQuantity(const std::map<std::string, std::string>& quantities,
                                          const std::string& key) {
  const auto it = quantities.find(key);
  if (it == quantities.end()) {
    return std::nullopt;
  }
  const std::string& text = it->second;
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc()) {
    return std::nullopt;
  }
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (rest == "m") {
    return number % 1000 == 0 ? std::optional(number / 1000) : std::nullopt;
  }
  for (const Suffix& suffix : kSuffixes) {
    if (rest == suffix.text) {
      std::int64_t product = 0;
      if (__builtin_mul_overflow(number, suffix.factor, &product)) {
        return std::nullopt;
      }
      return product;
    }
  }
  return std::nullopt;
}

}  // namespace dlc

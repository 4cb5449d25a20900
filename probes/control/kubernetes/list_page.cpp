#include "probes/control/kubernetes/list_page.h"

#include <nlohmann/json.hpp>
#include <set>

#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

constexpr std::string_view kJsonBlanks = " \t\r\n";

/// Walks over JSON values by their brackets and quotes alone. Every step answers false, or an empty
/// view, where the text breaks off or is something else.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool Take(char c) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != c) {
      return false;
    }
    ++at_;
    return true;
  }
  bool AtEnd() {
    SkipBlanks();
    return at_ == text_.size();
  }
  /// The whole next value.
  std::string_view Value() {
    SkipBlanks();
    const std::size_t start = at_;
    const char first = at_ == text_.size() ? '\0' : text_[at_];
    const bool whole = first == '"'                   ? SkipString()
                       : first == '{' || first == '[' ? SkipNested()
                                                      : SkipPlain();
    return whole ? text_.substr(start, at_ - start) : std::string_view();
  }

 private:
  void SkipBlanks() { at_ = std::min(text_.find_first_not_of(kJsonBlanks, at_), text_.size()); }
  bool SkipString() {
    for (++at_;; ++at_) {
      at_ = text_.find_first_of("\"\\", at_);
      if (at_ == std::string_view::npos) {
        at_ = text_.size();
        return false;
      }
      if (text_[at_] == '"') {
        ++at_;
        return true;
      }
      if (++at_ >= text_.size()) {
        at_ = text_.size();
        return false;
      }
    }
  }
  bool SkipNested() {
    for (int depth = 0;;) {
      at_ = text_.find_first_of("\"{}[]", at_);
      if (at_ == std::string_view::npos) {
        at_ = text_.size();
        return false;
      }
      const char c = text_[at_];
      if (c == '"') {
        if (!SkipString()) {
          return false;
        }
        continue;
      }
      ++at_;
      depth += c == '{' || c == '[' ? 1 : -1;
      if (depth == 0) {
        return true;
      }
    }
  }
  bool SkipPlain() {
    const std::size_t start = at_;
    at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    return at_ > start;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string TextIn(std::string_view json) {
  const auto value = nlohmann::json::parse(json.begin(), json.end(), nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

Error Broken() {
  return {ErrorCode::kUnavailable, "the API server's answer breaks off or is no JSON", ""};
}

bool ReadMetadata(std::string_view json, ListPage& page) {
  const auto metadata = ParseStrictJson(json, {1U << 20U, 32});
  if (!metadata || !metadata->is_object()) {
    return false;
  }
  for (const auto& [key, out] : {std::pair{"resourceVersion", &page.resource_version},
                                 std::pair{"continue", &page.continue_token}}) {
    const auto it = metadata->find(key);
    if (it != metadata->end() && it->is_string()) {
      *out = it->get<std::string>();
    }
  }
  return true;
}

bool ReadItems(std::string_view json, ListPage& page) {
  if (json == "null") {
    return true;  // how Go writes an empty list
  }
  Scanner items(json);
  if (!items.Take('[')) {
    return false;
  }
  if (items.Take(']')) {
    return true;
  }
  do {
    const std::string_view item = items.Value();
    if (!item.starts_with('{')) {
      return false;
    }
    page.items.push_back(item);
  } while (items.Take(','));
  return items.Take(']');
}

}  // namespace

Result<ListPage> SplitListPage(std::string_view body) {
  Scanner scanner(body);
  ListPage page;
  std::set<std::string> keys;
  if (!scanner.Take('{')) {
    return Broken();
  }
  do {
    const std::string key = TextIn(scanner.Value());
    const bool colon = scanner.Take(':');
    const std::string_view value = scanner.Value();
    if (!colon || value.empty() || !keys.insert(key).second) {
      return Broken();
    }
    if (key == "kind") {
      page.kind = TextIn(value);
    } else if ((key == "metadata" && !ReadMetadata(value, page)) ||
               (key == "items" && !ReadItems(value, page))) {
      return Broken();
    }
  } while (scanner.Take(','));
  if (!scanner.Take('}') || !scanner.AtEnd()) {
    return Broken();
  }
  if (!page.kind.ends_with("List") || keys.count("items") == 0) {
    return Error{ErrorCode::kUnavailable,
                 "the API server's answer is no list (kind '" + page.kind.substr(0, 60) + "')", ""};
  }
  return page;
}

}  // namespace dlc

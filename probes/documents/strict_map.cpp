#include "probes/documents/strict_map.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace dlc {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

/// "did you mean 'x'?", or all that could be meant.
std::string Suggestion(std::string_view word, const std::vector<std::string>& candidates,
                       std::string_view what) {
  const std::string nearest = NearestName(word, candidates);
  return nearest.empty() ? std::string(what) + ": " + Joined(candidates)
                         : "did you mean '" + nearest + "'?";
}

/// Shortest text that reads back as the same number.
std::string NumberText(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

}  // namespace

StrictMap::StrictMap(std::string file, const DocNode& node, std::string where)
    : file_(std::move(file)), node_(node), where_(std::move(where)) {
  if (!node.IsMap() && !node.IsNull()) {
    const std::string name = where_.empty() ? "the document" : "'" + where_ + "'";
    Fail(At(node, name + " must be a map, not " + node.Describe()));
  }
}

Error StrictMap::At(const DocNode& node, const std::string& message, std::string hint) const {
  return DocumentError(file_, node.line, message, std::move(hint));
}

std::string StrictMap::Name(std::string_view key) const {
  return where_.empty() ? std::string(key) : where_ + "." + std::string(key);
}

void StrictMap::Fail(Error error) {
  if (!failed_) {
    failed_ = true;
    error_ = std::move(error);
  }
}

const DocNode* StrictMap::Take(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
    known_.emplace_back(key);
  }
  return failed_ ? nullptr : node_.Find(key);
}

void StrictMap::FailAt(std::string_view key, const DocNode& node, const Error& error) {
  if (error.message.starts_with(file_ + ": ")) {
    Fail(error);
    return;
  }
  const bool predicate = error.message.starts_with("must ") || error.message.starts_with("is ") ||
                         error.message.starts_with("cannot ");
  Fail(At(node, "'" + Name(key) + "'" + (predicate ? " " : ": ") + error.message, error.hint));
}

void StrictMap::FailType(std::string_view key, const DocNode& node, std::string_view wanted) {
  Fail(At(node, "'" + Name(key) + "' must be " + std::string(wanted) + ", not " + node.Describe(),
          node.IsNull() ? "give it a value or remove the key" : ""));
}

void StrictMap::Text(std::string_view key, std::string& out) {
  const DocNode* node = Take(key);
  if (node == nullptr) {
    return;
  }
  if (!node->IsScalar()) {
    FailType(key, *node, "text");
    return;
  }
  out = node->text;
}

void StrictMap::Bool(std::string_view key, bool& out) {
  if (const DocNode* node = Take(key)) {
    const auto value = node->AsBool();
    if (!value) {
      FailAt(key, *node, value.error());
      return;
    }
    out = *value;
  }
}

void StrictMap::Int(std::string_view key, int& out, int min, int max) {
  if (const DocNode* node = Take(key)) {
    const auto value = node->AsInt();
    if (!value) {
      FailAt(key, *node, value.error());
    } else if (*value < min || *value > max) {
      FailType(key, *node,
               "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    } else {
      out = static_cast<int>(*value);
    }
  }
}

void StrictMap::Double(std::string_view key, double& out, double min, double max) {
  if (const DocNode* node = Take(key)) {
    const auto value = node->AsDouble();
    if (!value) {
      FailAt(key, *node, value.error());
    } else if (*value < min || *value > max) {
      FailType(key, *node, "a number from " + NumberText(min) + " to " + NumberText(max));
    } else {
      out = *value;
    }
  }
}

void StrictMap::Whole(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max) {
  const DocNode* node = Take(key);
  if (node == nullptr) {
    return;
  }
  // A double holds not every whole number of 64 bits.
  if (const auto whole = node->AsInt(); whole && *whole >= min && *whole <= max) {
    out = *whole;
    return;
  }
  double value = 0;
  Double(key, value, static_cast<double>(min), static_cast<double>(max));
  if (failed_) {
    return;
  }
  if (value != std::trunc(value)) {
    FailType(key, *node, "a whole number");
    return;
  }
  out = static_cast<std::int64_t>(value);
}

void StrictMap::Demand(std::string_view key, std::string& out) {
  const DocNode* node = Take(key);
  if (node == nullptr) {
    return;
  }
  if (node->IsScalar() && node->text.empty()) {
    FailAt(key, *node,
           {ErrorCode::kInvalidInput, "must not be empty", "remove the key to demand nothing"});
    return;
  }
  Text(key, out);
}

void StrictMap::TextList(std::string_view key, std::vector<std::string>& out) {
  const DocNode* node = Take(key);
  if (node == nullptr) {
    return;
  }
  if (node->IsScalar()) {
    out = {node->text};
    return;
  }
  if (!node->IsSequence()) {
    FailType(key, *node, "a list of texts");
    return;
  }
  std::vector<std::string> list;
  for (const DocNode& item : node->items) {
    if (!item.IsScalar()) {
      FailType(std::string(key) + "[" + std::to_string(list.size()) + "]", item, "text");
      return;
    }
    list.push_back(item.text);
  }
  out = std::move(list);
}

void StrictMap::TextMap(std::string_view key, std::map<std::string, std::string>& out) {
  const DocNode* node = Take(key);
  if (node == nullptr || node->IsNull()) {
    return;
  }
  if (!node->IsMap()) {
    FailType(key, *node, "a map of texts");
    return;
  }
  std::map<std::string, std::string> map;
  for (const DocNode::Entry& entry : node->entries) {
    if (!entry.value.IsScalar()) {
      FailType(std::string(key) + "." + entry.key, entry.value, "text");
      return;
    }
    map[entry.key] = entry.value.text;
  }
  out = std::move(map);
}

void StrictMap::Choice(std::string_view key, std::string& out,
                       const std::vector<std::string>& allowed) {
  const DocNode* node = Take(key);
  if (node == nullptr) {
    return;
  }
  if (node->IsScalar() && std::find(allowed.begin(), allowed.end(), node->text) != allowed.end()) {
    out = node->text;
    return;
  }
  const std::string wanted = (allowed.size() > 1 ? "one of " : "") + Joined(allowed);
  const std::string nearest = node->IsScalar() ? NearestName(node->text, allowed) : "";
  Fail(At(*node, "'" + Name(key) + "' must be " + wanted + ", not " + node->Describe(),
          nearest.empty() ? "" : "did you mean '" + nearest + "'?"));
}

void StrictMap::Each(std::string_view key,
                     const std::function<Result<void>(const DocNode&)>& read) {
  if (const DocNode* node = Take(key)) {
    if (const auto done = read(*node); !done) {
      FailAt(key, *node, done.error());
    }
  }
}

void StrictMap::Items(std::string_view key,
                      const std::function<Result<void>(const DocNode&)>& read) {
  const DocNode* node = Take(key);
  if (node == nullptr) {
    return;
  }
  if (!node->IsSequence()) {
    FailType(key, *node, "a list");
    return;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    const DocNode& item = node->items[i];
    if (const auto done = read(item); !done) {
      FailAt(std::string(key) + "[" + std::to_string(i) + "]", item, done.error());
      return;
    }
  }
}

void StrictMap::Require(std::string_view key) {
  if (!failed_ && !Has(key)) {
    const std::string in = where_.empty() ? "" : " in '" + where_ + "'";
    Fail(At(node_, "key '" + std::string(key) + "' is missing" + in));
  }
}

Result<void> StrictMap::Finish() {
  for (const DocNode::Entry& entry : node_.entries) {
    if (failed_) {
      break;
    }
    if (std::find(known_.begin(), known_.end(), entry.key) == known_.end()) {
      const std::string in = where_.empty() ? "" : " in '" + where_ + "'";
      Fail(DocumentError(file_, entry.line, "unknown key '" + entry.key + "'" + in,
                         Suggestion(entry.key, known_, "known keys")));
    }
  }
  if (failed_) {
    return error_;
  }
  return {};
}

}  // namespace dlc

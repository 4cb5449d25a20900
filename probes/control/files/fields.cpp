#include "probes/control/files/fields.h"

#include <limits>
#include <utility>

namespace dlc {
namespace {

std::string TemplateMarker(std::string_view text) {
  if (text.find("{{") != std::string_view::npos) {
    return "a Helm or Go template that was not rendered";
  }
  if (text.find("${") != std::string_view::npos) {
    return "a variable that was not filled in";
  }
  return "";
}

constexpr const char* kRenderHint =
    "give the rendered manifest: helm template, envsubst, or kubectl get -o yaml";

}  // namespace

void FileReading::Fail(const DocNode& node, const std::string& path, const std::string& message,
                       std::string hint) {
  if (!failed) {
    failed = true;
    error = DocumentError(file, node.line, path.empty() ? message : path + ": " + message,
                          std::move(hint));
  }
}

Fields::Fields(FileReading& reading, const DocNode* node, std::string path)
    : reading_(reading),
      node_(node != nullptr && node->IsNull() ? nullptr : node),
      path_(std::move(path)) {
  if (node_ != nullptr && !node_->IsMap()) {
    reading_.Fail(*node_, path_, "must be a map, not " + node_->Describe());
    node_ = nullptr;
  }
}

std::string Fields::PathOf(std::string_view key) const {
  if (path_.empty() || key.empty()) {
    return path_ + std::string(key);
  }
  return path_ + "." + std::string(key);
}

const DocNode* Fields::Find(std::string_view key) const {
  const DocNode* node = node_ == nullptr ? nullptr : node_->Find(key);
  return node == nullptr || node->IsNull() ? nullptr : node;
}

void Fields::Fail(std::string_view key, const std::string& message, std::string hint) const {
  const DocNode nowhere;
  const DocNode* node = Find(key);
  if (node == nullptr) {
    node = node_ == nullptr ? &nowhere : node_;
  }
  reading_.Fail(*node, PathOf(key), message, std::move(hint));
}

std::string Fields::ScalarText(const DocNode& node, std::string_view key,
                               bool refuse_templates) const {
  if (!node.IsScalar()) {
    reading_.Fail(node, PathOf(key), "must be text, not " + node.Describe());
    return "";
  }
  if (refuse_templates) {
    if (const std::string marker = TemplateMarker(node.text); !marker.empty()) {
      reading_.Fail(node, PathOf(key), node.Describe() + " is " + marker, kRenderHint);
    }
  }
  return node.text;
}

std::string Fields::Text(std::string_view key) const {
  const DocNode* node = Find(key);
  return node == nullptr ? "" : ScalarText(*node, key, true);
}

std::string Fields::FreeText(std::string_view key) const {
  const DocNode* node = Find(key);
  return node == nullptr ? "" : ScalarText(*node, key, false);
}

bool Fields::Bool(std::string_view key) const {
  const DocNode* node = Find(key);
  if (node == nullptr) {
    return false;
  }
  const auto value = node->AsBool();
  if (!value) {
    reading_.Fail(*node, PathOf(key), value.error().message, value.error().hint);
    return false;
  }
  return *value;
}

int Fields::Count(std::string_view key, int absent) const {
  const DocNode* node = Find(key);
  if (node == nullptr) {
    return absent;
  }
  if (node->IsScalar() && !TemplateMarker(node->text).empty()) {
    ScalarText(*node, key, true);
    return absent;
  }
  const auto value = node->AsInt();
  if (!value) {
    reading_.Fail(*node, PathOf(key), value.error().message, value.error().hint);
    return absent;
  }
  if (*value < 0 || *value > std::numeric_limits<std::int32_t>::max()) {
    reading_.Fail(*node, PathOf(key), "must be from 0 to 2147483647, not " + node->text);
    return absent;
  }
  return static_cast<int>(*value);
}

double Fields::Number(std::string_view key, double absent) const {
  const DocNode* node = Find(key);
  if (node == nullptr) {
    return absent;
  }
  const auto value = node->AsDouble();
  if (!value) {
    reading_.Fail(*node, PathOf(key), value.error().message, value.error().hint);
    return absent;
  }
  return *value;
}

std::vector<std::string> Fields::TextList(std::string_view key) const {
  std::vector<std::string> list;
  const DocNode* node = Find(key);
  if (node == nullptr) {
    return list;
  }
  if (!node->IsSequence()) {
    reading_.Fail(*node, PathOf(key), "must be a list, not " + node->Describe());
    return list;
  }
  list.reserve(node->items.size());
  for (const DocNode& item : node->items) {
    list.push_back(ScalarText(item, key, false));
  }
  return list;
}

std::map<std::string, std::string> Fields::TextMap(std::string_view key) const {
  std::map<std::string, std::string> map;
  const Fields inner = Map(key);
  if (inner.node_ != nullptr) {
    for (const DocNode::Entry& entry : inner.node_->entries) {
      map[entry.key] = entry.value.IsNull() ? "" : inner.ScalarText(entry.value, entry.key, true);
    }
  }
  return map;
}

Fields Fields::Map(std::string_view key) const {
  return {reading_, Find(key), PathOf(key)};
}

void Fields::Each(std::string_view key, const std::function<void(const Fields&)>& read) const {
  const DocNode* node = Find(key);
  if (node == nullptr) {
    return;
  }
  if (!node->IsSequence()) {
    reading_.Fail(*node, PathOf(key), "must be a list, not " + node->Describe());
    return;
  }
  for (std::size_t i = 0; i < node->items.size() && !reading_.failed; ++i) {
    read(Fields(reading_, &node->items[i], PathOf(key) + "[" + std::to_string(i) + "]"));
  }
}

std::vector<std::string> Fields::Keys() const {
  std::vector<std::string> keys;
  if (node_ != nullptr) {
    for (const DocNode::Entry& entry : node_->entries) {
      if (!entry.value.IsNull()) {
        keys.push_back(entry.key);
      }
    }
  }
  return keys;
}

}  // namespace dlc

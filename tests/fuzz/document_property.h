#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "probes/documents/node.h"
#include "tests/fuzz/fuzz_target.h"

namespace dlc {

struct DocumentSize {
  std::size_t nodes = 0;
  int depth = 0;
};

inline DocumentSize MeasureDocument(const DocNode& node, int last_line) {
  DocumentSize size{1, node.IsMap() || node.IsSequence() ? 1 : 0};
  int inner = 0;
  const auto add = [&](const DocNode& child) {
    const DocumentSize part = MeasureDocument(child, last_line);
    size.nodes += part.nodes;
    inner = std::max(inner, part.depth);
  };
  Demand(node.line >= 1 && node.line <= last_line);
  Demand(node.text.find('\0') == std::string::npos);
  std::set<std::string_view> keys;
  for (const DocNode::Entry& entry : node.entries) {
    Demand(keys.insert(entry.key).second);
    add(entry.value);
  }
  for (const DocNode& item : node.items) {
    add(item);
  }
  size.depth += inner;
  return size;
}

/// Reads `bytes` and demands what ParseDocument promises of every input.
inline void DemandBoundedDocument(std::string_view bytes, const std::string& file) {
  constexpr DocumentLimits kLimits{1U << 16U, 5'000, 32};
  const int last_line = 1 + static_cast<int>(std::count(bytes.begin(), bytes.end(), '\n'));
  const auto document = ParseDocument(bytes, file, kLimits);
  if (!document) {
    Demand(document.error().code == ErrorCode::kInvalidInput);
    Demand(document.error().message.starts_with(file + ": "));
    return;
  }
  std::size_t nodes = 0;
  for (const DocNode& root : document->roots) {
    const DocumentSize size = MeasureDocument(root, last_line);
    nodes += size.nodes;
    Demand(size.depth <= kLimits.max_depth);
  }
  Demand(nodes <= kLimits.max_nodes);
}

}  // namespace dlc

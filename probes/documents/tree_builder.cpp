#include "probes/documents/tree_builder.h"

#include <algorithm>
#include <utility>

namespace dlc {

bool TreeBuilder::Fail(Problem problem) {
  if (!failed_) {
    failed_ = true;
    problem_ = std::move(problem);
  }
  return false;
}

bool TreeBuilder::CheckText(const std::string& text, Place place) {
  if (text.find('\0') != std::string::npos) {
    return Fail(
        {place.line, "text with a NUL character", "remove the escape \\0, \\x00 or \\u0000"});
  }
  return true;
}

bool TreeBuilder::Key(std::string text, Place place) {
  if (!CheckText(text, place)) {
    return false;
  }
  OpenNode& map = open_.back();
  map.entry.key = std::move(text);
  map.entry.line = place.line;
  map.entry.column = place.column;
  map.keyed = true;
  return true;
}

bool TreeBuilder::Scalar(std::string text, bool plain, Place place, AnchorId anchor) {
  if (!CheckText(text, place) || !Charge(1, place.line)) {
    return false;
  }
  DocNode node;
  node.kind = DocNode::Kind::kScalar;
  node.text = std::move(text);
  node.plain = plain;
  node.line = place.line;
  node.column = place.column;
  return Remember(anchor, node) && Put(std::move(node));
}

bool TreeBuilder::Null(Place place, AnchorId anchor) {
  if (!Charge(1, place.line)) {
    return false;
  }
  DocNode node;
  // yaml-cpp places a value that is not there at the token after it, often lines below its key.
  const bool in_map = !open_.empty() && open_.back().keyed;
  node.line = in_map ? open_.back().entry.line : place.line;
  node.column = in_map ? open_.back().entry.column : place.column;
  return Remember(anchor, node) && Put(std::move(node));
}

bool TreeBuilder::Open(DocNode::Kind kind, Place place, AnchorId anchor) {
  if (!Charge(1, place.line)) {
    return false;
  }
  if (open_.size() >= static_cast<std::size_t>(limits_.max_depth)) {
    return Fail(
        {place.line, "nested deeper than " + std::to_string(limits_.max_depth) + " levels", ""});
  }
  OpenNode& opened = open_.emplace_back();
  opened.node.kind = kind;
  opened.node.line = place.line;
  opened.node.column = place.column;
  opened.anchor = anchor;
  return true;
}

bool TreeBuilder::Close() {
  OpenNode closed = std::move(open_.back());
  open_.pop_back();
  if (!CheckKeys(closed.entries)) {
    return false;
  }
  // Grown vectors hold up to twice what they need, for as long as the tree lives.
  closed.items.shrink_to_fit();
  closed.entries.shrink_to_fit();
  closed.node.items = DocList<DocNode>(std::move(closed.items));
  closed.node.entries = DocList<DocNode::Entry>(std::move(closed.entries));
  return Remember(closed.anchor, closed.node) && Put(std::move(closed.node));
}

bool TreeBuilder::Alias(AnchorId anchor, Place place) {
  const auto it = anchored_.find(anchor);
  if (it == anchored_.end()) {
    return Fail({place.line, "alias to a node that contains it", "write the values out"});
  }
  const Weight& weight = it->second.weight;
  if (open_.size() + weight.depth > static_cast<std::size_t>(limits_.max_depth)) {
    return Fail(
        {place.line,
         "nested deeper than " + std::to_string(limits_.max_depth) + " levels, aliases expanded",
         ""});
  }
  return ChargeCopy(weight, place.line) && Put(it->second.node);
}

bool TreeBuilder::EndDocument() {
  anchored_.clear();
  if (!roots_.empty() && roots_.back().IsNull()) {
    roots_.pop_back();
  }
  return true;
}

TreeBuilder::Weight TreeBuilder::WeightOf(const DocNode& node) {
  Weight sum;
  sum.bytes = node.text.size();
  sum.depth = node.IsSequence() || node.IsMap() ? 1 : 0;
  const auto add = [&sum](const DocNode& child) {
    const Weight weight = WeightOf(child);
    sum.nodes += weight.nodes;
    sum.bytes += weight.bytes;
    sum.depth = std::max(sum.depth, weight.depth + 1);
  };
  for (const DocNode& item : node.items) {
    add(item);
  }
  for (const DocNode::Entry& entry : node.entries) {
    sum.bytes += entry.key.size();
    add(entry.value);
  }
  return sum;
}

/// Sorting finds a twin in n log n: a hostile map may have as many keys as the file has bytes.
bool TreeBuilder::CheckKeys(const std::vector<DocNode::Entry>& entries) {
  std::vector<const DocNode::Entry*> sorted;
  sorted.reserve(entries.size());
  for (const DocNode::Entry& entry : entries) {
    sorted.push_back(&entry);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->key < b->key; });
  const auto twin = std::adjacent_find(
      sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->key == b->key; });
  if (twin == sorted.end()) {
    return true;
  }
  return Fail({(*(twin + 1))->line, "duplicate key '" + (*twin)->key + "'",
               "it is first given on line " + std::to_string((*twin)->line) + "; keep one"});
}

bool TreeBuilder::Charge(std::size_t nodes, int line) {
  nodes_ += nodes;
  if (nodes_ > limits_.max_nodes) {
    return Fail({line,
                 "more than " + std::to_string(limits_.max_nodes) + " values, aliases expanded",
                 "split the file or use fewer aliases"});
  }
  return true;
}

/// Before the copy is made, so that an anchor bomb costs no more than the limit.
bool TreeBuilder::ChargeCopy(const Weight& weight, int line) {
  if (weight.bytes > limits_.max_bytes - std::min(copied_bytes_, limits_.max_bytes)) {
    return Fail({line, "aliases repeat more than " + std::to_string(limits_.max_bytes) + " bytes",
                 "use fewer aliases"});
  }
  copied_bytes_ += weight.bytes;
  return Charge(weight.nodes, line);
}

bool TreeBuilder::Remember(AnchorId anchor, const DocNode& node) {
  if (anchor == 0) {
    return true;
  }
  const Weight weight = WeightOf(node);
  if (!ChargeCopy(weight, node.line)) {
    return false;
  }
  anchored_[anchor] = {node, weight};
  return true;
}

bool TreeBuilder::Put(DocNode node) {
  if (open_.empty()) {
    roots_.push_back(std::move(node));
    return true;
  }
  OpenNode& parent = open_.back();
  if (parent.node.IsMap()) {
    parent.entry.value = std::move(node);
    parent.entries.push_back(std::exchange(parent.entry, {}));
    parent.keyed = false;
  } else {
    parent.items.push_back(std::move(node));
  }
  return true;
}

}  // namespace dlc

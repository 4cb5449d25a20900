#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "probes/documents/node.h"

namespace dlc {

/// Turns parser events into a tree under the limits of a document. Every event answers false once
/// something is wrong; problem() then says what, and the parser has to stop.
class TreeBuilder {
 public:
  struct Problem {
    int line = 0;  ///< 0: of the whole file
    std::string message;
    std::string hint;
    bool syntax = false;  ///< the parser's, so that another syntax may be tried
  };
  struct Place {
    int line = 0;
    int column = 0;
  };
  /// 0 is no anchor, as in yaml-cpp.
  using AnchorId = std::size_t;

  explicit TreeBuilder(const DocumentLimits& limits) : limits_(limits) {}

  /// True when the next event names a key of the innermost map.
  bool AtKey() const { return !open_.empty() && open_.back().node.IsMap() && !open_.back().keyed; }

  bool Key(std::string text, Place place);
  bool Scalar(std::string text, bool plain, Place place, AnchorId anchor = 0);
  bool Null(Place place, AnchorId anchor = 0);
  bool Open(DocNode::Kind kind, Place place, AnchorId anchor = 0);
  bool Close();
  /// A copy of the node that was anchored as `anchor` in this document.
  bool Alias(AnchorId anchor, Place place);
  /// Forgets the anchors, and a root that holds nothing.
  bool EndDocument();

  /// Keeps the first problem. Always false.
  bool Fail(Problem problem);
  bool failed() const { return failed_; }
  const Problem& problem() const { return problem_; }
  std::vector<DocNode> TakeRoots() { return std::move(roots_); }

 private:
  struct OpenNode {
    DocNode node;
    AnchorId anchor = 0;
    bool keyed = false;
    DocNode::Entry entry;  ///< its key, while the value is awaited
    std::vector<DocNode> items;
    std::vector<DocNode::Entry> entries;
  };
  struct Weight {
    std::size_t nodes = 1;
    std::size_t bytes = 0;
    std::size_t depth = 0;  ///< of collections; a scalar has none
  };
  struct Anchored {
    DocNode node;
    Weight weight;
  };

  static Weight WeightOf(const DocNode& node);
  bool CheckText(const std::string& text, Place place);
  bool CheckKeys(const std::vector<DocNode::Entry>& entries);
  bool Charge(std::size_t nodes, int line);
  bool ChargeCopy(const Weight& weight, int line);
  bool Remember(AnchorId anchor, const DocNode& node);
  bool Put(DocNode node);

  DocumentLimits limits_;
  std::vector<OpenNode> open_;
  std::vector<DocNode> roots_;
  std::unordered_map<AnchorId, Anchored> anchored_;
  std::size_t nodes_ = 0;
  std::size_t copied_bytes_ = 0;
  Problem problem_;
  bool failed_ = false;
};

}  // namespace dlc

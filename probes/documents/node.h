#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// The children of a node. One pointer wide, because nine of ten nodes have none and a saved
/// cluster has millions of nodes.
template <class T>
class DocList {
 public:
  DocList() = default;
  explicit DocList(std::vector<T> list)
      : list_(list.empty() ? nullptr : std::make_unique<std::vector<T>>(std::move(list))) {}
  DocList(const DocList& other)
      : list_(other.list_ ? std::make_unique<std::vector<T>>(*other.list_) : nullptr) {}
  DocList(DocList&&) noexcept = default;
  DocList& operator=(const DocList& other) {
    *this = DocList(other);
    return *this;
  }
  DocList& operator=(DocList&&) noexcept = default;
  ~DocList() = default;

  std::size_t size() const { return list_ ? list_->size() : 0; }
  bool empty() const { return size() == 0; }
  const T* begin() const { return list_ ? list_->data() : nullptr; }
  const T* end() const { return begin() + size(); }
  /// Precondition: index < size().
  const T& operator[](std::size_t index) const { return (*list_)[index]; }

 private:
  std::unique_ptr<std::vector<T>> list_;  ///< never empty
};

/// One node of a YAML or JSON document, with its place in the file. The readers of policy, config
/// and manifests see only this type, so that both syntaxes get the same errors.
class DocNode {
 public:
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMap };

  struct Entry;

  /// kScalar: the text. A plain (unquoted) YAML scalar or a JSON number/bool keeps `plain`; quoted
  /// text does not.
  std::string text;
  DocList<DocNode> items;  ///< kSequence
  DocList<Entry> entries;  ///< kMap, in file order; keys are unique
  int line = 0;            ///< 1-based; of the anchor's node where an alias was expanded
  int column = 0;          ///< 1-based, in bytes; 0 in JSON, whose reader counts lines only
  Kind kind = Kind::kNull;
  bool plain = false;

  bool IsNull() const { return kind == Kind::kNull; }
  bool IsScalar() const { return kind == Kind::kScalar; }
  bool IsSequence() const { return kind == Kind::kSequence; }
  bool IsMap() const { return kind == Kind::kMap; }

  /// The value of `key`, or nullptr (also when this is no map, so that lookups chain over absent
  /// parts).
  const DocNode* Find(std::string_view key) const;
  /// Find along a path: {"spec", "template"}; nullptr as soon as one is absent.
  const DocNode* Find(std::initializer_list<std::string_view> path) const;
  /// Text of the scalar at `key`, or "" when absent or not a scalar.
  std::string TextOf(std::string_view key) const;
  /// For messages: "'text'" (shortened), "a map", "a list", "nothing".
  std::string Describe() const;

  /// YAML 1.2 core, decimal and finite only: what YAML 1.1 reads otherwise (yes, 010, 0x1f) is
  /// refused with a hint. Quoted text is none of them. Errors start with "must be", for the caller
  /// to put the name before: "must be a whole number, not 'four'".
  Result<bool> AsBool() const;
  Result<std::int64_t> AsInt() const;
  Result<double> AsDouble() const;
};

struct DocNode::Entry {
  std::string key;
  int line = 0;
  int column = 0;
  DocNode value;
};

/// A parsed file: every document in it, without those that hold nothing (comments, `null`).
struct Document {
  std::string file;  ///< as the user named it, for messages
  std::vector<DocNode> roots;
};

/// Bounds on what a file may make us do. Defaults fit a policy or a config.
struct DocumentLimits {
  /// Of the file; also of the texts that aliases repeat.
  std::size_t max_bytes = 1U << 20U;
  std::size_t max_nodes = 100'000;  ///< after aliases are expanded: an anchor bomb ends here
  int max_depth = 64;               ///< at most 256: yaml-cpp recurses with the file
};
/// For saved `kubectl get -o json|yaml` output: 10,000 pods are some 100 MB as kubectl prints them.
inline constexpr DocumentLimits kClusterFileLimits{256U << 20U, 20'000'000, 128};

/// Reads YAML (several documents) or JSON (first non-blank byte is { or [, parsed by the faster
/// parser; below 1 MiB and unless the name ends in .json it falls back to YAML, whose flow style
/// looks alike). A leading UTF-8 byte order mark and CRLF are accepted. Errors are kInvalidInput
/// "FILE: line L: ..." with a hint: syntax, duplicate key, merge key, key that is no text, too
/// large, too deep, too many nodes, control character, NUL or invalid UTF-8, unknown anchor, tag
/// other than the core ones.
Result<Document> ParseDocument(std::string_view bytes, const std::string& file,
                               const DocumentLimits& limits = {});

/// One JSON value and nothing else, with the same limits and errors.
Result<DocNode> ParseJsonValue(std::string_view bytes, const std::string& file,
                               const DocumentLimits& limits = {});

/// "FILE: line L: MESSAGE" as kInvalidInput; without the line when it is 0.
Error DocumentError(const std::string& file, int line, const std::string& message,
                    std::string hint = "");

/// The candidate nearest to `word` by edit distance (swapped neighbours count one, case nothing; at
/// most a third of the word's length, but one edit from three letters on), or "". For "did you mean
/// 'x'?".
std::string NearestName(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace dlc

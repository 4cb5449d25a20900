#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// One node of a YAML or JSON document, with its place in the file. The readers of policy, config
/// and manifests see only this type, so that both syntaxes get the same errors.
class DocNode {
 public:
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMap };

  struct Entry;

  Kind kind = Kind::kNull;
  /// kScalar: the text. A plain (unquoted) YAML scalar or a JSON number/bool keeps `plain`; quoted
  /// text does not.
  std::string text;
  bool plain = false;
  std::vector<DocNode> items;  ///< kSequence
  std::vector<Entry> entries;  ///< kMap, in file order; keys are unique
  int line = 0;                ///< 1-based
  int column = 0;

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

  /// YAML 1.2 core: true/false; whole numbers; numbers. Quoted text is none of them.
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

/// A parsed file: every document in it, none empty-by-comment only.
struct Document {
  std::string file;  ///< as the user named it, for messages
  std::vector<DocNode> roots;
};

/// Bounds on what a file may make us do. Defaults fit a policy or a config.
struct DocumentLimits {
  std::size_t max_bytes = 1U << 20U;
  std::size_t max_nodes = 100'000;  ///< after aliases are expanded: an anchor bomb ends here
  int max_depth = 64;
};
/// For saved `kubectl get -o json|yaml` output: 10,000 pods are some 100 MB as kubectl prints them.
inline constexpr DocumentLimits kClusterFileLimits{256U << 20U, 20'000'000, 128};

/// Reads YAML (several documents) or JSON (first non-blank byte is { or [, parsed by the faster
/// parser; falls back to YAML, whose flow style looks alike). Errors are kInvalidInput "FILE: line
/// L: ..." with a hint: syntax, duplicate key, too large, too deep, too many nodes, NUL or invalid
/// UTF-8, unknown anchor, tag other than the core ones.
Result<Document> ParseDocument(std::string_view bytes, const std::string& file,
                               const DocumentLimits& limits = {});

/// Same from disk. A directory, a missing or unreadable file are errors too; never reads more than
/// limits.max_bytes + 1.
Result<Document> ReadDocument(const std::string& path, const DocumentLimits& limits = {});

/// The whole file as bytes, bounded. Errors name the path.
Result<std::string> ReadFileBytes(const std::string& path, std::size_t max_bytes);

/// "FILE: line L: MESSAGE" as kInvalidInput.
Error DocumentError(const std::string& file, int line, std::string message, std::string hint = "");

/// The candidate nearest to `word` by edit distance (at most a third of its length), or "". For
/// "did you mean 'x'?".
std::string NearestName(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace dlc

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "probes/documents/node.h"
#include "probes/observations/cluster.h"
#include "probes/observations/result.h"

namespace dlc {

/// One file being read: the first error wins, and readers go quiet after it.
struct FileReading {
  std::string file;
  std::vector<std::string> notes;  ///< remarks for the user: what was ignored or taken how
  bool failed = false;
  Error error;

  void Fail(const DocNode& node, const std::string& path, const std::string& message,
            std::string hint = "");
};

/// A map of foreign origin (Kubernetes, Ray): keys that nobody asks for are ignored, and null
/// counts as absent, as API servers do; a wrong type at a key that is read is an error with file,
/// line and path ("spec.workerGroupSpecs[0].replicas"). Points into the document, which must
/// outlive it.
class Fields {
 public:
  /// `node` may be null (absent): then every read gives the default.
  Fields(FileReading& reading, const DocNode* node, std::string path);

  bool Present() const { return node_ != nullptr; }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  Source InFile() const { return {reading_.file, node_ == nullptr ? 0 : node_->line}; }
  FileReading& Reading() const { return reading_; }

  /// Any scalar as text; a template marker in it ("{{", "${") is an error.
  std::string Text(std::string_view key) const;
  /// Same, without the look for markers: for texts where a shell may expand them later.
  std::string FreeText(std::string_view key) const;
  bool Bool(std::string_view key) const;
  /// 0 .. 2^31-1: counts.
  int Count(std::string_view key, int absent) const;
  double Number(std::string_view key, double absent) const;
  std::vector<std::string> TextList(std::string_view key) const;
  std::map<std::string, std::string> TextMap(std::string_view key) const;
  Fields Map(std::string_view key) const;
  /// Each element of the list at `key`, which must be maps.
  void Each(std::string_view key, const std::function<void(const Fields&)>& read) const;
  /// The keys whose value is not null.
  std::vector<std::string> Keys() const;
  /// The node at `key`, or nullptr.
  const DocNode* Find(std::string_view key) const;
  /// An error at `key` (at the map itself when the key is absent).
  void Fail(std::string_view key, const std::string& message, std::string hint = "") const;

 private:
  std::string PathOf(std::string_view key) const;
  std::string ScalarText(const DocNode& node, std::string_view key, bool refuse_templates) const;

  FileReading& reading_;
  const DocNode* node_;
  std::string path_;  ///< from the document's root
};

}  // namespace dlc

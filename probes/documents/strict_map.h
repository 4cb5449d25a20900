#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "probes/documents/node.h"

namespace dlc {

/// Reads a map whose keys are all known. Keeps the first error and goes quiet after it, so that a
/// reader is a plain list of fields:
///
///   StrictMap map(file, node, "image");
///   map.Text("reference", image.reference);
///   map.Int("workers", workers, 0, 1000);
///   return map.Finish();          // the first error, or an unknown key with "did you mean"
class StrictMap {
 public:
  /// `where` names the map in messages ("image", "" for the whole document). A null node counts as
  /// an empty map.
  StrictMap(std::string file, const DocNode& node, std::string where);

  /// Each marks the key as known; an absent key leaves `out` as it is; a wrong type or range is an
  /// error.
  void Text(std::string_view key, std::string& out);
  void Bool(std::string_view key, bool& out);
  void Int(std::string_view key, int& out, int min, int max);
  void Double(std::string_view key, double& out, double min, double max);
  /// A whole number, also written as 2.0e+9: a fraction would be cut off, and 0.5 be no demand.
  void Whole(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max);
  /// Text that is not empty: empty means "not demanded", and nobody should ask for that by
  /// accident.
  void Demand(std::string_view key, std::string& out);
  /// Scalar or sequence of scalars.
  void TextList(std::string_view key, std::vector<std::string>& out);
  void TextMap(std::string_view key, std::map<std::string, std::string>& out);
  /// One of `allowed`; an error lists them and suggests the nearest.
  void Choice(std::string_view key, std::string& out, const std::vector<std::string>& allowed);
  /// Custom: called with the node if the key is there (it may be null). An error that does not
  /// start with the file gets this node's line and the key's name: "'image.digest': TEXT", or
  /// "'image.digest' TEXT" when TEXT starts with must, is or cannot.
  void Each(std::string_view key, const std::function<Result<void>(const DocNode&)>& read);
  /// Every element of the sequence at `key`.
  void Items(std::string_view key, const std::function<Result<void>(const DocNode&)>& read);
  /// Makes `key` mandatory.
  void Require(std::string_view key);

  bool Has(std::string_view key) const { return node_.Find(key) != nullptr; }
  const std::string& file() const { return file_; }
  /// Error at a node of this file.
  Error At(const DocNode& node, const std::string& message, std::string hint = "") const;

  /// The first error so far, for a reader that leaves keys to others and so cannot Finish.
  bool failed() const { return failed_; }
  const Error& error() const { return error_; }

  /// The first error, or the first unknown key.
  Result<void> Finish();

 private:
  const DocNode* Take(std::string_view key);
  void Fail(Error error);
  void FailAt(std::string_view key, const DocNode& node, const Error& error);
  void FailType(std::string_view key, const DocNode& node, std::string_view wanted);
  std::string Name(std::string_view key) const;

  std::string file_;
  const DocNode& node_;
  std::string where_;
  std::vector<std::string> known_;
  bool failed_ = false;
  Error error_;
};

}  // namespace dlc

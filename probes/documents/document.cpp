#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "probes/documents/node.h"
#include "probes/documents/readers.h"
#include "probes/documents/text_encoding.h"
#include "probes/documents/tree_builder.h"

namespace dlc {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
/// yaml-cpp holds a flow collection in memory many times over; larger ones are JSON or nothing.
constexpr std::size_t kLargestFlowYaml = 1U << 20U;

bool LooksLikeJson(std::string_view bytes) {
  const auto first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
}

Error ErrorOf(const std::string& file, const TreeBuilder::Problem& problem) {
  return DocumentError(file, problem.line, problem.message, problem.hint);
}

Result<Document> Finished(const std::string& file, TreeBuilder& builder) {
  if (builder.failed()) {
    return ErrorOf(file, builder.problem());
  }
  return Document{file, builder.TakeRoots()};
}

Result<std::string_view> CleanText(std::string_view bytes, const std::string& file,
                                   const DocumentLimits& limits) {
  if (bytes.size() > limits.max_bytes) {
    return DocumentError(file, 0, "larger than " + std::to_string(limits.max_bytes) + " bytes");
  }
  if (bytes.starts_with(kByteOrderMark)) {
    bytes.remove_prefix(kByteOrderMark.size());
  }
  if (const auto bad = FindBadText(bytes)) {
    const auto line = 1 + std::count(bytes.begin(), bytes.begin() + bad->offset, '\n');
    return DocumentError(file, static_cast<int>(line), bad->message, bad->hint);
  }
  return bytes;
}

}  // namespace

Result<DocNode> ParseJsonValue(std::string_view bytes, const std::string& file,
                               const DocumentLimits& limits) {
  const auto text = CleanText(bytes, file, limits);
  if (!text) {
    return text.error();
  }
  TreeBuilder json(limits);
  ReadJson(*text, json);
  if (json.failed()) {
    return ErrorOf(file, json.problem());
  }
  std::vector<DocNode> roots = json.TakeRoots();
  return roots.empty() ? DocNode{} : std::move(roots.front());
}

Result<Document> ParseDocument(std::string_view bytes, const std::string& file,
                               const DocumentLimits& limits) {
  const auto text = CleanText(bytes, file, limits);
  if (!text) {
    return text.error();
  }
  bytes = *text;
  if (LooksLikeJson(bytes)) {
    TreeBuilder json(limits);
    ReadJson(bytes, json);
    if (!json.failed() || !json.problem().syntax || file.ends_with(".json") ||
        bytes.size() > kLargestFlowYaml) {
      return Finished(file, json);
    }
    TreeBuilder yaml(limits);
    ReadYaml(bytes, yaml);
    // Neither understands it: the one that came further is the one that it was meant for.
    const bool json_came_further =
        yaml.failed() && yaml.problem().syntax && json.problem().line > yaml.problem().line;
    return Finished(file, json_came_further ? json : yaml);
  }
  TreeBuilder yaml(limits);
  ReadYaml(bytes, yaml);
  return Finished(file, yaml);
}

}  // namespace dlc

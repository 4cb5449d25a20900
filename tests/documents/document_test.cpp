#include <doctest/doctest.h>

#include <string>

#include "probes/documents/node.h"

namespace dlc {
namespace {

std::string Dump(const DocNode& node) {
  switch (node.kind) {
    case DocNode::Kind::kNull:
      return "null";
    case DocNode::Kind::kScalar:
      return node.plain ? node.text : "\"" + node.text + "\"";
    case DocNode::Kind::kSequence: {
      std::string text = "[";
      for (const DocNode& item : node.items) {
        text += (text.size() > 1 ? "," : "") + Dump(item);
      }
      return text + "]";
    }
    case DocNode::Kind::kMap: {
      std::string text = "{";
      for (const DocNode::Entry& entry : node.entries) {
        text += (text.size() > 1 ? "," : "") + entry.key + "@" + std::to_string(entry.line) + ":" +
                Dump(entry.value);
      }
      return text + "}";
    }
  }
  return "";
}

std::string Read(const std::string& bytes, const std::string& file = "f.yaml") {
  const auto document = ParseDocument(bytes, file);
  if (!document) {
    return "error: " + document.error().message + " (" + document.error().hint + ")";
  }
  std::string text;
  for (const DocNode& root : document->roots) {
    text += (text.empty() ? "" : " ") + Dump(root);
  }
  return text;
}

TEST_CASE("documents: YAML and JSON become the same tree") {
  CHECK(Read("a: 1\nb: [x, 'y', null]\nc:\n  d: true\n") ==
        "{a@1:1,b@2:[x,\"y\",null],c@3:{d@4:true}}");
  CHECK(Read("{\n \"a\": 1,\n \"b\": [\"x\", 2.50\n],\n \"c\": {}}") ==
        "{a@2:1,b@3:[\"x\",2.50],c@5:{}}");
}

}  // namespace
}  // namespace dlc

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <streambuf>
#include <string>
#include <string_view>

#include "probes/documents/readers.h"

namespace dlc {
namespace {

/// Ends the parse when the builder or the source has a problem. Never leaves this file.
struct Stop {};

/// Feeds yaml-cpp piece by piece. Its scanner keeps a whole flow collection as tokens (some 250
/// bytes for a bracket) before the first event, so that what it may read ahead is bounded.
class BoundedSource : public std::streambuf {
 public:
  explicit BoundedSource(std::string_view bytes) : bytes_(bytes) {}

  void EventSeen() { budget_ = kReadAhead; }
  bool exhausted() const { return exhausted_; }

 protected:
  int_type underflow() override {
    const std::size_t size = std::min(kPiece, bytes_.size() - given_);
    if (size == 0 || size > budget_) {
      exhausted_ = size > 0;
      return traits_type::eof();
    }
    budget_ -= size;
    // streambuf has no const get area; nothing writes to it.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    char* piece = const_cast<char*>(bytes_.data()) + given_;
    setg(piece, piece, piece + size);
    given_ += size;
    return traits_type::to_int_type(*piece);
  }

 private:
  static constexpr std::size_t kPiece = 4096;
  /// Above the largest text that Kubernetes stores (etcd: 1.5 MiB).
  static constexpr std::size_t kReadAhead = 2U << 20U;

  std::string_view bytes_;
  std::size_t given_ = 0;
  std::size_t budget_ = kReadAhead;
  bool exhausted_ = false;
};

constexpr std::string_view kCoreTag = "tag:yaml.org,2002:";

class Handler : public YAML::EventHandler {
 public:
  Handler(std::string_view bytes, BoundedSource& source, TreeBuilder& builder)
      : bytes_(bytes), source_(source), builder_(builder) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    CountProgress();
    const std::size_t at = Offset(mark);
    // yaml-cpp starts a new document wherever the old one cannot go on ("- a" and then "b: 1").
    if (documents_++ > 0 && !HasMarker(last_start_, at)) {
      Check(builder_.Fail({PlaceOf(mark).line, "does not continue what the lines above begin",
                           "mend the indentation, or put '---' between two documents"}));
    }
    last_start_ = at;
  }
  void OnDocumentEnd() override { Check(builder_.EndDocument()); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Begin(mark);
    RefuseAsKey("nothing", mark);
    Check(builder_.Null(PlaceOf(mark), anchor));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Begin(mark);
    RefuseAsKey("an alias", mark);
    Check(builder_.Alias(anchor, PlaceOf(mark)));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Begin(mark);
    const bool plain = IsPlain(tag, mark);
    if (!builder_.AtKey()) {
      Check(builder_.Scalar(value, plain, PlaceOf(mark), anchor));
      return;
    }
    if (plain && value == "<<") {
      Check(builder_.Fail(
          {PlaceOf(mark).line, "merge key '<<' is not supported", "write the merged keys out"}));
    }
    if (anchor != 0) {
      Check(builder_.Fail({PlaceOf(mark).line, "a key cannot have an anchor", "remove it"}));
    }
    Check(builder_.Key(value, PlaceOf(mark)));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Begin(mark);
    RefuseAsKey("a list", mark);
    CheckTag(tag, "seq", mark);
    Check(builder_.Open(DocNode::Kind::kSequence, PlaceOf(mark), anchor));
  }
  void OnSequenceEnd() override { Check(builder_.Close()); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Begin(mark);
    RefuseAsKey("a map", mark);
    CheckTag(tag, "map", mark);
    Check(builder_.Open(DocNode::Kind::kMap, PlaceOf(mark), anchor));
  }
  void OnMapEnd() override { Check(builder_.Close()); }

  /// yaml-cpp takes the end of the file for the end of a quoted text, so that a truncated file
  /// would pass. Only the last node can be such a text.
  void CheckLastQuote() {
    std::string_view rest = bytes_.substr(last_start_);
    while (rest.starts_with('&') || rest.starts_with('!') || rest.starts_with('#')) {
      const char* stop = rest.starts_with('#') ? "\n" : " \t\r\n";
      rest.remove_prefix(std::min(rest.find_first_of(stop), rest.size()));
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    }
    if (rest.starts_with('\'') || rest.starts_with('"')) {
      if (!IsClosed(rest)) {
        const auto line = 1 + std::count(bytes_.begin(), bytes_.end() - rest.size(), '\n');
        Check(builder_.Fail({static_cast<int>(line), "quote is not closed",
                             std::string("add the missing ") + rest.front(), true}));
      }
    }
  }

 private:
  static void Check(bool ok) {
    if (!ok) {
      throw Stop{};
    }
  }

  static TreeBuilder::Place PlaceOf(const YAML::Mark& mark) {
    return {mark.line + 1, mark.column + 1};
  }

  /// yaml-cpp counts bytes of UTF-8.
  std::size_t Offset(const YAML::Mark& mark) const {
    return std::min(static_cast<std::size_t>(std::max(mark.pos, 0)), bytes_.size());
  }

  /// What the parser makes of a text that was cut off is no event of the file.
  void CountProgress() {
    Check(!source_.exhausted());
    source_.EventSeen();
  }

  void Begin(const YAML::Mark& mark) {
    CountProgress();
    last_start_ = Offset(mark);
  }

  /// Whether a line from `first` to `last` (offsets, each in such a line) begins with --- or ...
  bool HasMarker(std::size_t first, std::size_t last) const {
    std::size_t at = first == 0 ? 0 : bytes_.rfind('\n', first - 1) + 1;
    while (at <= last) {
      const std::string_view head = bytes_.substr(at, 3);
      if (head == "---" || head == "...") {
        return true;
      }
      at = bytes_.find('\n', at);
      if (at == std::string_view::npos) {
        return false;
      }
      ++at;
    }
    return false;
  }

  static bool IsClosed(std::string_view quoted) {
    const char quote = quoted.front();
    for (std::size_t i = 1; i < quoted.size(); ++i) {
      if (quote == '"' && quoted[i] == '\\') {
        ++i;
      } else if (quoted[i] == quote) {
        if (quote == '"' || i + 1 >= quoted.size() || quoted[i + 1] != quote) {
          return true;
        }
        ++i;
      }
    }
    return false;
  }

  void RefuseAsKey(const char* what, const YAML::Mark& mark) {
    if (builder_.AtKey()) {
      Check(
          builder_.Fail({PlaceOf(mark).line, std::string("a key must be text, not ") + what, ""}));
    }
  }

  void CheckTag(const std::string& tag, std::string_view kind, const YAML::Mark& mark) {
    if (tag.empty() || tag == "?" || tag == "!" ||
        (tag.starts_with(kCoreTag) && tag.substr(kCoreTag.size()) == kind)) {
      return;
    }
    RefuseTag(tag, mark);
  }

  void RefuseTag(const std::string& tag, const YAML::Mark& mark) {
    const std::string name = tag.starts_with(kCoreTag) ? "!!" + tag.substr(kCoreTag.size()) : tag;
    Check(builder_.Fail(
        {PlaceOf(mark).line, "tag '" + name + "' is not supported", "remove the tag"}));
  }

  /// "?" is yaml-cpp's mark for unquoted without a tag, "!" for quoted (or an explicit "!").
  bool IsPlain(const std::string& tag, const YAML::Mark& mark) {
    if (tag == "?" || tag == "!") {
      return tag == "?";
    }
    const std::string kind = tag.starts_with(kCoreTag) ? tag.substr(kCoreTag.size()) : "";
    if (kind == "int" || kind == "float" || kind == "bool") {
      return true;
    }
    if (kind != "str") {
      RefuseTag(tag, mark);
    }
    return false;
  }

  std::string_view bytes_;
  BoundedSource& source_;
  TreeBuilder& builder_;
  int documents_ = 0;
  std::size_t last_start_ = 0;  ///< byte offset of the last node
};

std::string_view LineAt(std::string_view bytes, int line) {
  for (int i = 1; i < line; ++i) {
    const auto end = bytes.find('\n');
    if (end == std::string_view::npos) {
      return "";
    }
    bytes.remove_prefix(end + 1);
  }
  return bytes.substr(0, bytes.find('\n'));
}

bool IndentedWithTab(std::string_view line) {
  return line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
}

/// yaml-cpp words its errors for whoever knows its grammar; these are the ones that people meet.
TreeBuilder::Problem SyntaxProblem(std::string_view bytes, const YAML::ParserException& e) {
  const int line = e.mark.is_null() ? 0 : e.mark.line + 1;
  const std::string_view text = e.msg;
  if (IndentedWithTab(LineAt(bytes, line)) || text == YAML::ErrorMsg::TAB_IN_INDENTATION) {
    return {line, "tab in the indentation", "indent with spaces", true};
  }
  if (text == YAML::ErrorMsg::MAP_VALUE) {
    return {line, "unexpected ':'", "mend the indentation, or quote the text that holds ': '",
            true};
  }
  if (text == YAML::ErrorMsg::END_OF_MAP || text == YAML::ErrorMsg::END_OF_SEQ) {
    return {line, "does not continue what the lines above begin", "mend the indentation", true};
  }
  if (text == YAML::ErrorMsg::END_OF_MAP_FLOW) {
    return {line, "'{' is not closed", "add the missing } or ,", true};
  }
  if (text == YAML::ErrorMsg::END_OF_SEQ_FLOW) {
    return {line, "'[' is not closed", "add the missing ] or ,", true};
  }
  if (text == YAML::ErrorMsg::FLOW_END) {
    return {line, "unexpected closing bracket", "", true};
  }
  if (text == YAML::ErrorMsg::UNKNOWN_TOKEN) {
    return {line, "unexpected character", "quote a text that begins with @, % or `", true};
  }
  if (text == YAML::ErrorMsg::UNKNOWN_ANCHOR) {
    return {line, "alias to an anchor that is not defined above", "quote a text that begins with *",
            true};
  }
  return {line, std::string(text), "", true};
}

}  // namespace

void ReadYaml(std::string_view bytes, TreeBuilder& builder) {
  BoundedSource source(bytes);
  std::istream stream(&source);
  Handler handler(bytes, source, builder);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
    if (!source.exhausted()) {
      handler.CheckLastQuote();
    }
  } catch (const Stop&) {
    // the builder or the source knows why
  } catch (const YAML::ParserException& e) {
    if (!source.exhausted()) {
      builder.Fail(SyntaxProblem(bytes, e));
    }
  } catch (const std::exception& e) {
    builder.Fail({0, std::string("cannot be read as YAML: ") + e.what(), ""});
  }
  if (source.exhausted()) {
    builder.Fail({0, "one [..] or {..} is too large", "save it as JSON"});
  }
}

}  // namespace dlc

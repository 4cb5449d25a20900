#include "checks/policy_words.h"

#include <algorithm>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

Error NotInList(std::string message, std::string hint = "") {
  return Error{ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

}  // namespace

void ReadPolicyWords(StrictMap& map, std::string_view key, const std::vector<std::string>& allowed,
                     std::vector<std::string>& out) {
  map.TextList(key, out);
  map.Each(key, [&](const DocNode&) -> Result<void> {
    if (out.empty()) {
      return NotInList("must not be empty", "remove the key for all of them");
    }
    for (auto word = out.begin(); word != out.end(); ++word) {
      if (std::find(allowed.begin(), allowed.end(), *word) == allowed.end()) {
        return NotInList("must be of " + NameSome(allowed, allowed.size()) + ", not '" + *word +
                         "'");
      }
      if (std::find(out.begin(), word, *word) != word) {
        return NotInList("is '" + *word + "' twice");
      }
    }
    return {};
  });
}

}  // namespace dlc

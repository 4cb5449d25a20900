#include "probes/node/gpu/visible_devices.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace dlc {
namespace {

using Uuids = std::optional<std::vector<std::string>>;

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (true) {
    const std::size_t comma = text.find(',', from);
    parts.push_back(text.substr(from, comma - from));
    if (comma == std::string::npos) {
      return parts;
    }
    from = comma + 1;
  }
}

/// What an entry stands for, to tell repetitions; or why it names nothing.
struct Named {
  std::string key;
  std::string problem;
};

Named NameNumber(std::string_view text, const Uuids& uuids) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const bool plus = !text.empty() && text[0] == '+';
  const bool minus = !text.empty() && text[0] == '-';
  text.remove_prefix(plus || minus ? 1 : 0);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) {
    return {"", "is not a number"};
  }
  if (minus) {
    return {"", "is negative"};
  }
  text = text.substr(0, digits);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  const bool beyond = uuids && (text.size() > 6 || std::stoul(std::string(text)) >= uuids->size());
  if (beyond) {
    return {"", "is out of range: there are " + std::to_string(uuids->size()) + " GPUs"};
  }
  return {std::string(text), ""};
}

bool SameLetter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

Named NameUuid(const std::string& text, std::string_view prefix, const Uuids& uuids) {
  if (text.compare(0, prefix.size(), prefix) != 0) {
    return {"", "does not start with " + std::string(prefix) + " as the first entry does"};
  }
  if (!uuids) {
    return {text, ""};
  }
  if (prefix == "MIG-") {
    return {"", "names a MIG slice, and no GPU of this process is in MIG mode"};
  }
  const auto begins = [&](const std::string& uuid) {
    return text.size() <= uuid.size() &&
           std::equal(text.begin(), text.end(), uuid.begin(), SameLetter);
  };
  const auto count = std::count_if(uuids->begin(), uuids->end(), begins);
  if (count == 1) {
    return {*std::find_if(uuids->begin(), uuids->end(), begins), ""};
  }
  return {"", count == 0 ? "is no GPU of this process" : "fits several GPUs"};
}

}  // namespace

CudaVisibleDevices ParseCudaVisibleDevices(const EnvironmentText& variable, const Uuids& uuids) {
  CudaVisibleDevices seen;
  seen.variable = variable;
  if (!variable.set) {
    if (uuids) {
      seen.expected = static_cast<int>(uuids->size());
    }
    return seen;
  }
  const std::vector<std::string> texts =
      variable.value.empty() ? std::vector<std::string>() : Split(variable.value);
  const std::string first = texts.empty() ? "" : texts[0].substr(0, 4);
  const bool by_uuid = first == "GPU-" || first == "MIG-";
  std::vector<std::string> taken;
  int good = 0;
  for (const std::string& text : texts) {
    Named named = by_uuid ? NameUuid(text, first, uuids) : NameNumber(text, uuids);
    const bool repeats =
        named.problem.empty() && std::find(taken.begin(), taken.end(), named.key) != taken.end();
    if (repeats) {
      named.problem = "repeats an earlier entry";
    }
    seen.entries.push_back({text, named.problem});
    if (!named.problem.empty()) {
      const std::size_t after = texts.size() - seen.entries.size();
      seen.problem = "entry " + std::to_string(seen.entries.size()) + " '" + text + "' " +
                     named.problem +
                     (repeats ? ": CUDA then refuses to start, or shows no device"
                              : ": it and the " + std::to_string(after) + " after it are hidden");
      good = repeats ? 0 : good;
      break;
    }
    taken.push_back(named.key);
    ++good;
  }
  if (texts.empty()) {
    seen.problem = "it is set and empty: every device is hidden";
  }
  // Without the list of GPUs a number may be out of range, and a uuid of another node.
  if (uuids || good == 0) {
    seen.expected = good;
  }
  return seen;
}

}  // namespace dlc

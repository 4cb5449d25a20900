#include "probes/node/net_dev.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace dlc {

Result<std::vector<InterfaceBytes>> ReadNetDev(const std::string& file) {
  std::ifstream in(file);
  if (!in) {
    return Error{ErrorCode::kUnavailable, "cannot read " + file, ""};
  }
  std::vector<InterfaceBytes> interfaces;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.rfind(':');  // "eth0:1:" is an alias
    if (colon == std::string::npos) {
      continue;  // the two lines of headings
    }
    const std::size_t name = line.find_first_not_of(' ');
    InterfaceBytes one;
    one.name = line.substr(name, colon - name);
    std::istringstream numbers(line.substr(colon + 1));
    std::int64_t unused = 0;
    numbers >> one.received_bytes;
    for (int i = 0; i < 7; ++i) {
      numbers >> unused;
    }
    if (numbers >> one.sent_bytes) {
      interfaces.push_back(one);
    }
  }
  std::sort(interfaces.begin(), interfaces.end(),
            [](const InterfaceBytes& a, const InterfaceBytes& b) { return a.name < b.name; });
  return interfaces;
}

}  // namespace dlc

#include "tests/ray_ranks/frames.h"

#include "probes/control/http/base64.h"
#include "probes/control/sha256/sha256.h"

namespace dlc {

std::string Frame(std::size_t number, const std::string& piece) {
  return "\n@dlc-check " + std::to_string(number) + " " + Sha256Of(piece).hex + " " +
         Base64Encode(piece) + "\n";
}

std::string ClosedLog(const std::vector<std::string>& pieces) {
  std::string log;
  std::string digests;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    log += Frame(i, pieces[i]);
    digests += Sha256Of(pieces[i]).hex;
  }
  return log +
         Frame(pieces.size(), R"({"event": "end", "frames": )" + std::to_string(pieces.size()) +
                                  R"(, "sha256": ")" + Sha256Of(digests).hex + "\"}\n");
}

}  // namespace dlc

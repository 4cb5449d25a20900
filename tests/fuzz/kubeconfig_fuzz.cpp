#include <string>

#include "probes/control/kubernetes/kubeconfig.h"
#include "tests/fuzz/fuzz_target.h"

/// A kubeconfig is the user's own, and may be any file that was named by mistake: an Error names it
/// and is short, and what it holds stays out of the way of the file before it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dlc::Kubeconfig config;
  config.clusters["first"].server = "https://first";
  config.current_context = "first";
  const auto read = dlc::ParseKubeconfig(dlc::FuzzText(data, size), "dir/file", config);
  if (!read) {
    dlc::Demand(read.error().code == dlc::ErrorCode::kInvalidInput);
    dlc::Demand(read.error().message.starts_with("dir/file"));
    dlc::Demand(read.error().message.size() < 4096);
  }
  dlc::Demand(config.clusters.at("first").server == "https://first");
  dlc::Demand(config.current_context == "first");
  return 0;
}

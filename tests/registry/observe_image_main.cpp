// Drives ObserveImage for tests/cli/registry_test.py: prints the ServedImage as JSON on stdout, the
// log on stderr, an Error as JSON with exit code 1.

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "probes/control/registry/observe_image.h"
#include "probes/observations/json.h"
#include "probes/observations/observations.h"

namespace {

int Usage() {
  std::fputs(
      "usage: observe_image REFERENCE [--ca-file FILE] [--plain-http] [--timeout-ms N]\n"
      "                     [--deadline-ms N] [--docker-config DIR]\n",
      stderr);
  return 2;
}

int PrintError(const dlc::Error& error) {
  const nlohmann::ordered_json json{
      {"code", dlc::ErrorCodeName(error.code)}, {"message", error.message}, {"hint", error.hint}};
  std::puts(json.dump().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    return Usage();
  }
  dlc::RegistryOptions options;
  std::chrono::milliseconds deadline{20'000};
  for (int i = 2; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--plain-http") {
      options.plain_http = true;
      continue;
    }
    if (++i == argc) {
      return Usage();
    }
    if (flag == "--ca-file") {
      options.ca_file = argv[i];
    } else if (flag == "--docker-config") {
      options.docker_config_dir = argv[i];
    } else if (flag == "--timeout-ms") {
      options.timeout = std::chrono::milliseconds(std::stoi(argv[i]));
    } else if (flag == "--deadline-ms") {
      deadline = std::chrono::milliseconds(std::stoi(argv[i]));
    } else {
      return Usage();
    }
  }
  const auto reference = dlc::ImageReference::Parse(argv[1]);
  if (!reference) {
    return PrintError(reference.error());
  }
  const auto image = dlc::ObserveImage(
      *reference, options, dlc::Deadline::After(deadline),
      [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  if (!image) {
    return PrintError(image.error());
  }
  dlc::Observations observations;
  observations.served_image = *image;
  std::puts(dlc::ObservationsToJson(observations, 1).c_str());
  return 0;
}

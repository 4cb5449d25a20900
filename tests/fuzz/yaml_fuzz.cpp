#include "tests/fuzz/document_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dlc::DemandBoundedDocument(dlc::FuzzText(data, size), "f.yaml");
  return 0;
}

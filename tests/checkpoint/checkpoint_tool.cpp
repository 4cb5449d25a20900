// For safetensors_test.py:
//   checkpoint_tool save ROOT RANKS     a checkpoint of step 1
//   checkpoint_tool read FILE           each tensor: name, type, shape, offsets; each pair of the
//   metadata
#include <fcntl.h>

#include <cstdlib>
#include <iostream>

#include "probes/node/safetensors/safetensors.h"
#include "probes/node/unique_fd.h"
#include "tests/checkpoint/saved_model.h"

namespace {

int Save(const std::string& root, int ranks) {
  const auto saved =
      dlc::SaveAll(dlc::SavedModel::Small(), root, {"run", 1, ranks}, dlc::SmallBlocks());
  if (!saved) {
    std::cerr << saved.error().message << "\n";
    return 1;
  }
  std::cout << saved->directory << "\n";
  return 0;
}

int Read(const std::string& path) {
  const dlc::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto header = dlc::ReadSafetensorsHeader(fd.get());
  if (!header) {
    std::cerr << header.error().message << "\n";
    return 1;
  }
  for (const auto& tensor : header->tensors) {
    std::cout << "tensor\t" << tensor.name << "\t" << tensor.dtype << "\t";
    for (const auto dimension : tensor.shape) {
      std::cout << dimension << ",";
    }
    std::cout << "\t" << header->data_begin + tensor.begin << "\t"
              << header->data_begin + tensor.end << "\n";
  }
  for (const auto& [key, value] : header->metadata) {
    std::cout << "metadata\t" << key << "\t" << value << "\n";
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string command = count > 2 ? arguments[1] : "";
  if (command == "save" && count == 4) {
    return Save(arguments[2], std::atoi(arguments[3]));
  }
  if (command == "read" && count == 3) {
    return Read(arguments[2]);
  }
  std::cerr << "usage: checkpoint_tool save ROOT RANKS | read FILE\n";
  return 2;
}

#pragma once

#include <string>
#include <vector>

namespace dlc {

struct NcclCandidate {
  std::string path;      ///< without a slash: the loader's own search
  std::string found_by;  ///< as NcclLibrary::found_by
};

/// Copies of libnccl, the one that a job's torch would use first: beside the torch of the Python
/// that PATH finds (VIRTUAL_ENV and PYTHONPATH before it), whose libraries carry an RPATH to it;
/// then what the loader finds. `path`, if not empty, alone. The arguments are environment
/// variables.
std::vector<NcclCandidate> NcclCandidates(const std::string& path, const std::string& search_path,
                                          const std::string& virtual_env,
                                          const std::string& python_path);

}  // namespace dlc

#pragma once

#include <string>
#include <vector>

namespace dlc {

/// Folders in which a job's Python has its packages, first come first, and maybe twice: of
/// PYTHONPATH, site-packages and dist-packages of VIRTUAL_ENV, then those of each Python that PATH
/// finds, and of where that is a link to. The wheels of CUDA's libraries lie there. The arguments
/// are environment variables.
std::vector<std::string> PythonPackageFolders(const std::string& search_path,
                                              const std::string& virtual_env,
                                              const std::string& python_path);

}  // namespace dlc

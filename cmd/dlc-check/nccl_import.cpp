#include "cmd/dlc-check/nccl_import.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "probes/control/files/nccl_tests_json.h"
#include "probes/control/sha256/sha256.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"
#include "probes/observations/nccl_log.h"

namespace dlc {
namespace {

/// NCCL_DEBUG=TRACE of a long job; the reader keeps little of it.
constexpr std::size_t kMostLogBytes = std::size_t{1} << 30U;
constexpr std::size_t kMostTestsBytes = std::size_t{64} << 20U;
constexpr std::size_t kMostLogs = 4096;

Result<std::string> Take(const char* role, const std::string& path, std::size_t most,
                         Observations& observations) {
  auto bytes = ReadFileBytes(path, most);
  if (bytes) {
    observations.run.inputs.push_back(
        {role, path, Sha256Of(*bytes), static_cast<std::int64_t>(bytes->size())});
  }
  return bytes;
}

/// The log itself, or the regular files of the directory by name. Hidden ones are no logs.
Result<std::vector<std::string>> LogFiles(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return std::vector<std::string>{path};
  }
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (!name.starts_with('.') && it->is_regular_file(ignored)) {
      files.push_back(it->path().string());
    }
  }
  if (error) {
    return Error{ErrorCode::kInvalidInput, "--from-nccl-log: " + path + ": " + error.message(), ""};
  }
  if (files.empty() || files.size() > kMostLogs) {
    return Error{ErrorCode::kInvalidInput,
                 "--from-nccl-log: " + path + " holds " + std::to_string(files.size()) + " files",
                 "pass a directory with one log for each rank (NCCL_DEBUG_FILE=DIR/%h.%p)"};
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<void> ReadLogs(const std::string& path, Observations& observations) {
  const auto files = LogFiles(path);
  if (!files) {
    return files.error();
  }
  std::vector<NcclLogFile> logs;
  for (const std::string& file : *files) {
    const auto bytes = Take("nccl-log", file, kMostLogBytes, observations);
    if (!bytes) {
      return bytes.error();
    }
    NcclLogFile log;
    log.file = std::filesystem::path(file).filename().string();
    log.digest = observations.run.inputs.back().digest;
    log.log = ReadNcclLog(*bytes);
    if (log.log.processes.empty()) {
      return Error{ErrorCode::kInvalidInput, file + ": no line of NCCL is in it",
                   "logs are written with NCCL_DEBUG=INFO and NCCL_DEBUG_FILE; keep other files "
                   "out of the directory"};
    }
    logs.push_back(std::move(log));
  }
  observations.nccl_logs = std::move(logs);
  return {};
}

Result<void> ReadTests(const std::string& path, Observations& observations) {
  const auto bytes = Take("nccl-tests", path, kMostTestsBytes, observations);
  if (!bytes) {
    return bytes.error();
  }
  auto output = ParseNcclTestsFile(*bytes, path);
  if (!output) {
    return output.error();
  }
  observations.nccl_tests =
      NcclTestsFile{path, observations.run.inputs.back().digest, std::move(output).value()};
  return {};
}

}  // namespace

Result<void> ReadNcclImports(const NcclImports& imports, Observations& observations) {
  if (!imports.logs.empty()) {
    if (auto read = ReadLogs(imports.logs, observations); !read) {
      return read;
    }
  }
  if (!imports.tests.empty()) {
    if (auto read = ReadTests(imports.tests, observations); !read) {
      return read;
    }
  }
  return {};
}

}  // namespace dlc

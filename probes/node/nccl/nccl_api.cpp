#include "probes/node/nccl/nccl_api.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "probes/node/nccl/find_nccl.h"
#include "probes/node/sha256/sha256.h"

namespace dlc {
namespace {

constexpr int kOldest = 21800;

std::string Environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread at this point
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Each is tried by itself, so that it is known how the one that loads was found.
Result<NcclApi> OpenFirst(const std::vector<NcclCandidate>& candidates) {
  std::string reasons;
  for (const NcclCandidate& candidate : candidates) {
    auto library = DynamicLibrary::Open({candidate.path}, true);
    if (library) {
      return NcclApi{std::move(library).value(), candidate.found_by};
    }
    reasons += (reasons.empty() ? "" : "; ") + library.error().message;
  }
  return Error{ErrorCode::kNotFound, reasons,
               "name the file of the NCCL that the job's torch uses"};
}

Result<Digest> DigestOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 hash;
  std::vector<char> chunk(1 << 20);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    hash.Add({chunk.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (!file.eof()) {
    return Error{ErrorCode::kUnavailable, "cannot read " + path, ""};
  }
  return hash.FinishDigest();
}

}  // namespace

Result<std::shared_ptr<const NcclApi>> NcclApi::Load(const std::string& path) {
  auto opened = OpenFirst(NcclCandidates(path, Environment("PATH"), Environment("VIRTUAL_ENV"),
                                         Environment("PYTHONPATH")));
  if (!opened) {
    return std::move(opened).error();
  }
  auto api = std::make_shared<NcclApi>(std::move(opened).value());
  const DynamicLibrary& from = api->library;
  for (const auto& found :
       {from.Find("ncclGetVersion", nullptr, api->get_version),
        from.Find("ncclGetErrorString", nullptr, api->get_error_string),
        from.Find("ncclGetLastError", nullptr, api->get_last_error),
        from.Find("ncclGetUniqueId", nullptr, api->get_unique_id),
        from.Find("ncclCommInitRankConfig", nullptr, api->init_rank),
        from.Find("ncclCommGetAsyncError", nullptr, api->get_async_error),
        from.Find("ncclCommFinalize", nullptr, api->finalize),
        from.Find("ncclCommDestroy", nullptr, api->destroy),
        from.Find("ncclCommAbort", nullptr, api->abort),
        from.Find("ncclGroupStart", nullptr, api->group_start),
        from.Find("ncclGroupEnd", nullptr, api->group_end),
        from.Find("ncclAllReduce", nullptr, api->all_reduce),
        from.Find("ncclAllGather", nullptr, api->all_gather),
        from.Find("ncclReduceScatter", nullptr, api->reduce_scatter),
        from.Find("ncclBroadcast", nullptr, api->broadcast),
        from.Find("ncclSend", nullptr, api->send), from.Find("ncclRecv", nullptr, api->receive)}) {
    if (!found) {
      return found.error();
    }
  }
  if (!from.Find("ncclMemAlloc", nullptr, api->mem_alloc) ||
      !from.Find("ncclMemFree", nullptr, api->mem_free)) {
    api->mem_alloc = nullptr;
  }
  if (const int code = api->get_version(&api->version_code); code != nccl_abi::kSuccess) {
    return Error{ErrorCode::kUnavailable, "ncclGetVersion: " + api->Text(code), ""};
  }
  if (api->version_code < kOldest) {
    return Error{ErrorCode::kUnsupported,
                 from.Path() + " is NCCL " + NcclVersionText(api->version_code),
                 "use 2.18 or newer"};
  }
  return std::shared_ptr<const NcclApi>(std::move(api));
}

NcclLibrary NcclApi::Describe() const {
  return {{library.Path(), NcclVersionText(version_code), library.BuildId()},
          version_code,
          DigestOfFile(library.Path()),
          found_by};
}

std::string NcclApi::Text(int code, nccl_abi::Comm comm) const {
  const char* words = get_error_string(code);
  std::string text = words == nullptr ? "result " + std::to_string(code) : words;
  const char* last = comm == nullptr ? nullptr : get_last_error(comm);
  if (last != nullptr && *last != '\0') {
    text += std::string(" (") + last + ")";
  }
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

std::string NcclVersionText(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

}  // namespace dlc

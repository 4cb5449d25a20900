#include "probes/node/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "probes/observations/digest.h"

namespace dlc {
namespace {

std::string LoaderText() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the text per thread
  const char* text = dlerror();
  return text == nullptr ? "no reason given" : text;
}

std::string RealPath(const char* path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path, nullptr), &std::free);
  return real ? real.get() : path;
}

constexpr ElfW(Addr) RoundUp4(ElfW(Addr) value) {
  return (value + 3) & ~ElfW(Addr){3};
}

/// The description of the NT_GNU_BUILD_ID note in [at, end), in hex.
std::string BuildIdIn(const std::uint8_t* at, const std::uint8_t* end) {
  while (static_cast<std::size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const std::uint8_t* name = at + sizeof(note);
    const auto left = static_cast<std::size_t>(end - name);
    const std::size_t name_bytes = RoundUp4(note.n_namesz);
    if (name_bytes > left || note.n_descsz > left - name_bytes) {
      return "";
    }
    const std::uint8_t* description = name + name_bytes;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      return HexText({description, note.n_descsz});
    }
    const std::size_t step = RoundUp4(note.n_descsz);
    if (step > left - name_bytes) {
      return "";
    }
    at = description + step;
  }
  return "";
}

/// Keeps signal handlers over a call. Debian's libfabric needs libinfinipath, which on being loaded
/// takes SIGINT, SIGTERM, SIGSEGV and others and writes files when they come.
class SignalHandlersKept {
 public:
  SignalHandlersKept() {
    for (std::size_t i = 1; i < kept_.size(); ++i) {
      known_[i] = sigaction(static_cast<int>(i), nullptr, &kept_[i]) == 0;
    }
  }
  ~SignalHandlersKept() {
    for (std::size_t i = 1; i < kept_.size(); ++i) {
      struct sigaction now {};
      if (known_[i] && sigaction(static_cast<int>(i), nullptr, &now) == 0 &&
          now.sa_handler != kept_[i].sa_handler) {
        sigaction(static_cast<int>(i), &kept_[i], nullptr);
      }
    }
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

 private:
  std::array<struct sigaction, 32> kept_{};
  std::array<bool, 32> known_{};
};

struct BuildIdSearch {
  ElfW(Addr) base;
  std::string found;
};

int VisitObject(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto* search = static_cast<BuildIdSearch*>(data);
  if (object->dlpi_addr != search->base) {
    return 0;
  }
  for (int i = 0; i < object->dlpi_phnum && search->found.empty(); ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type == PT_NOTE) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader hands out addresses as integers
      const auto* at = reinterpret_cast<const std::uint8_t*>(object->dlpi_addr + header.p_vaddr);
      search->found = BuildIdIn(at, at + header.p_memsz);
    }
  }
  return 1;
}

}  // namespace

Result<DynamicLibrary> DynamicLibrary::Open(const std::vector<std::string>& candidates,
                                            bool global) {
  const SignalHandlersKept kept;
  std::string reasons;
  for (const std::string& candidate : candidates) {
    const int flags = RTLD_NOW | RTLD_NODELETE | (global ? RTLD_GLOBAL : RTLD_LOCAL);
    void* handle = dlopen(candidate.c_str(), flags);
    if (handle == nullptr) {
      reasons += (reasons.empty() ? "" : "; ") + LoaderText();
      continue;
    }
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
      return Error{ErrorCode::kInternal, "cannot ask where " + candidate + " lies: " + LoaderText(),
                   ""};
    }
    return DynamicLibrary(handle, RealPath(map->l_name));
  }
  return Error{ErrorCode::kNotFound,
               "cannot load " + (candidates.empty() ? "a library" : candidates.back()) + ": " +
                   (reasons.empty() ? "no path to try" : reasons),
               ""};
}

Result<void*> DynamicLibrary::Address(const char* name, const char* version) const {
  void* address = version == nullptr ? dlsym(handle_, name) : dlvsym(handle_, name, version);
  if (address != nullptr) {
    return address;
  }
  std::string symbol = name;
  if (version != nullptr) {
    symbol += std::string("@") + version;
  }
  return Error{ErrorCode::kUnsupported, path_ + " has no symbol " + symbol,
               "another version of the library is needed"};
}

std::string DynamicLibrary::BuildId() const {
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) {
    return "";
  }
  BuildIdSearch search{map->l_addr, ""};
  dl_iterate_phdr(&VisitObject, &search);
  return search.found;
}

}  // namespace dlc

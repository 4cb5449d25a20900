// The system's libfabric behind a customs officer: providers over TCP forgive what EFA does not, so
// this one wants what EFA wants. It asks for FI_MR_LOCAL and FI_CONTEXT2 and refuses (-FI_EINVAL)
// messages whose memory is not registered or whose context is still in use; every third message is
// told to come back (-FI_EAGAIN). With DLC_FAKE_FAIL_AFTER=N the completion after N good ones is an
// error.
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <cstdlib>
#include <set>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Function>
Function* Real(Function* /*like*/, const char* name, const char* version) {
  static void* library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlvsym(library, name, version));
}

struct Region {
  fid_mr mr;  // first: libfabric hands out its address
  std::uintptr_t begin;
  std::uintptr_t end;
};

std::set<void*> regions;
std::set<void*> contexts;
unsigned posts = 0;
long completions_left = -1;
void* failed_context = nullptr;

fi_ops_fabric fabric_ops;
fi_ops_domain domain_ops;
fi_ops_mr mr_ops;
fi_ops mr_fid_ops;
fi_ops_tagged tagged_ops;
fi_ops_cq cq_ops;
const fi_ops_fabric* real_fabric_ops;
const fi_ops_domain* real_domain_ops;
const fi_ops_tagged* real_tagged_ops;
const fi_ops_cq* real_cq_ops;

constexpr int kAsked = FI_MR_LOCAL;

/// The caller's info without what only we ask for.
fi_info* Plain(const fi_info* info) {
  fi_info* plain = Real(&fi_dupinfo, "fi_dupinfo", "FABRIC_1.3")(info);
  plain->domain_attr->mr_mode &= ~kAsked;
  plain->mode &= ~FI_CONTEXT2;
  return plain;
}
void Drop(fi_info* info) {
  Real(&fi_freeinfo, "fi_freeinfo", "FABRIC_1.3")(info);
}

int CloseRegion(fid* id) {
  auto* region = reinterpret_cast<Region*>(id);
  regions.erase(region);
  delete region;
  return 0;
}

int Register(fid* /*domain*/, const void* memory, size_t bytes, uint64_t /*access*/,
             uint64_t /*offset*/, uint64_t key, uint64_t /*flags*/, fid_mr** mr,
             void* /*context*/) {
  auto* region = new Region{};
  region->begin = reinterpret_cast<std::uintptr_t>(memory);
  region->end = region->begin + bytes;
  mr_fid_ops.size = sizeof(mr_fid_ops);
  mr_fid_ops.close = &CloseRegion;
  region->mr.fid.ops = &mr_fid_ops;
  region->mr.mem_desc = region;
  region->mr.key = key;
  regions.insert(region);
  *mr = &region->mr;
  return 0;
}

/// 0, or what the officer answers.
ssize_t Inspect(const void* memory, size_t bytes, void* descriptor, void* context) {
  if (++posts % 3 == 0) {
    return -FI_EAGAIN;
  }
  if (context == nullptr || contexts.count(context) != 0) {
    return -FI_EINVAL;
  }
  if (bytes > 0) {
    const auto* region = static_cast<Region*>(descriptor);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    if (regions.count(descriptor) == 0 || begin < region->begin || begin + bytes > region->end) {
      return -FI_EINVAL;
    }
  }
  return 0;
}

ssize_t Send(fid_ep* ep, const void* memory, size_t bytes, void* descriptor, fi_addr_t to,
             uint64_t tag, void* context) {
  if (const ssize_t answer = Inspect(memory, bytes, descriptor, context); answer != 0) {
    return answer;
  }
  const ssize_t code = real_tagged_ops->send(ep, memory, bytes, nullptr, to, tag, context);
  if (code == 0) {
    contexts.insert(context);
  }
  return code;
}

ssize_t Receive(fid_ep* ep, void* memory, size_t bytes, void* descriptor, fi_addr_t from,
                uint64_t tag, uint64_t ignore, void* context) {
  if (const ssize_t answer = Inspect(memory, bytes, descriptor, context); answer != 0) {
    return answer;
  }
  const ssize_t code =
      real_tagged_ops->recv(ep, memory, bytes, nullptr, from, tag, ignore, context);
  if (code == 0) {
    contexts.insert(context);
  }
  return code;
}

ssize_t Read(fid_cq* cq, void* entries, size_t count) {
  if (failed_context != nullptr) {
    return -FI_EAVAIL;
  }
  const ssize_t got = real_cq_ops->read(cq, entries, completions_left >= 0 ? 1 : count);
  for (ssize_t i = 0; i < got; ++i) {
    void* context = static_cast<fi_cq_tagged_entry*>(entries)[i].op_context;
    contexts.erase(context);
    if (completions_left == 0) {
      failed_context = context;
      completions_left = -1;
      return -FI_EAVAIL;
    }
    completions_left -= completions_left > 0 ? 1 : 0;
  }
  return got;
}

ssize_t ReadError(fid_cq* cq, fi_cq_err_entry* entry, uint64_t flags) {
  if (failed_context == nullptr) {
    return real_cq_ops->readerr(cq, entry, flags);
  }
  *entry = fi_cq_err_entry{};
  entry->op_context = failed_context;
  entry->err = FI_EIO;
  failed_context = nullptr;
  return 1;
}

const char* ErrorText(fid_cq* /*cq*/, int /*code*/, const void* /*data*/, char* /*buffer*/,
                      size_t /*size*/) {
  return "planted by the fake";
}

int OpenQueue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** cq, void* context) {
  const int code = real_domain_ops->cq_open(domain, attributes, cq, context);
  if (code == 0) {
    real_cq_ops = (*cq)->ops;
    cq_ops = *real_cq_ops;
    cq_ops.read = &Read;
    cq_ops.readerr = &ReadError;
    cq_ops.strerror = &ErrorText;
    (*cq)->ops = &cq_ops;
  }
  return code;
}

int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** ep, void* context) {
  if (info->ep_attr->type != FI_EP_RDM) {  // the provider opens its own connections this way
    return real_domain_ops->endpoint(domain, info, ep, context);
  }
  fi_info* plain = Plain(info);
  const int code = real_domain_ops->endpoint(domain, plain, ep, context);
  Drop(plain);
  if (code == 0) {
    real_tagged_ops = (*ep)->tagged;
    tagged_ops = *real_tagged_ops;
    tagged_ops.send = &Send;
    tagged_ops.recv = &Receive;
    (*ep)->tagged = &tagged_ops;
  }
  return code;
}

int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  fi_info* plain = Plain(info);
  const int code = real_fabric_ops->domain(fabric, plain, domain, context);
  Drop(plain);
  if (code == 0) {
    real_domain_ops = (*domain)->ops;
    domain_ops = *real_domain_ops;
    domain_ops.endpoint = &OpenEndpoint;
    domain_ops.cq_open = &OpenQueue;
    (*domain)->ops = &domain_ops;
    mr_ops = *(*domain)->mr;
    mr_ops.reg = &Register;
    (*domain)->mr = &mr_ops;
  }
  return code;
}

}  // namespace

FAKE_EXPORT uint32_t fi_version() {
  return FI_VERSION(9, 2);
}
FAKE_EXPORT const char* fi_strerror(int code) {
  return Real(&fi_strerror, "fi_strerror", "FABRIC_1.0")(code);
}
FAKE_EXPORT char* fi_tostr(const void* data, fi_type type) {
  return Real(&fi_tostr, "fi_tostr", "FABRIC_1.0")(data, type);
}
FAKE_EXPORT void fi_freeinfo(fi_info* info) {
  Drop(info);
}
FAKE_EXPORT fi_info* fi_dupinfo(const fi_info* info) {
  return Real(&fi_dupinfo, "fi_dupinfo", "FABRIC_1.3")(info);
}
FAKE_EXPORT int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
                           const fi_info* hints, fi_info** info) {
  const int code =
      Real(&fi_getinfo, "fi_getinfo", "FABRIC_1.3")(version, node, service, flags, hints, info);
  for (fi_info* one = code == 0 ? *info : nullptr; one != nullptr; one = one->next) {
    one->domain_attr->mr_mode |= kAsked;
    one->mode |= FI_CONTEXT2;
  }
  return code;
}
FAKE_EXPORT int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  const int code = Real(&fi_fabric, "fi_fabric", "FABRIC_1.1")(attributes, fabric, context);
  if (code == 0) {
    real_fabric_ops = (*fabric)->ops;
    fabric_ops = *real_fabric_ops;
    fabric_ops.domain = &OpenDomain;
    (*fabric)->ops = &fabric_ops;
    if (const char* after = std::getenv("DLC_FAKE_FAIL_AFTER"); after != nullptr) {
      completions_left = std::atol(after);
    }
  }
  return code;
}

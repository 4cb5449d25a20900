#include "probes/node/fabric/endpoint.h"

#include <algorithm>
#include <array>

#include "probes/node/fabric/provider.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxBatch = 16;

template <class Object>
Fid<Object> Own(Object* object) {
  return Fid<Object>(object);
}

}  // namespace

Error FabricEndpoint::Failure(const std::string& what, std::int64_t code) const {
  return Error{ErrorCode::kUnavailable,
               provider_.name + " cannot " + what + ": " + libfabric_->Text(code), ""};
}

Result<std::unique_ptr<FabricEndpoint>> FabricEndpoint::Open(const FabricOptions& options) {
  auto libfabric = Libfabric::Load(options.library_path);
  if (!libfabric) {
    return std::move(libfabric).error();
  }
  auto list = QueryProviders(**libfabric, options);
  if (!list) {
    return std::move(list).error();
  }
  auto chosen = ChooseProvider(list->get(), options);
  if (!chosen) {
    return std::move(chosen).error();
  }
  std::unique_ptr<FabricEndpoint> endpoint(new FabricEndpoint());
  endpoint->libfabric_ = *libfabric;
  endpoint->info_ = InfoList((*libfabric)->dupinfo(*chosen), FreeInfo{(*libfabric)->freeinfo});
  endpoint->provider_ = DescribeProvider(**libfabric, **chosen);
  const fi_info& info = **chosen;
  endpoint->dialect_ = endpoint->provider_.name + ", " + endpoint->provider_.protocol + " " +
                       std::to_string(info.ep_attr->protocol_version) + ", address format " +
                       std::to_string(info.addr_format);
  if (auto opened = endpoint->OpenObjects(); !opened) {
    return std::move(opened).error();
  }
  return endpoint;
}

Result<void> FabricEndpoint::OpenObjects() {
  fid_fabric* fabric = nullptr;
  if (const int code = libfabric_->fabric(info_->fabric_attr, &fabric, nullptr); code != 0) {
    return Failure("open fabric " + provider_.fabric, code);
  }
  fabric_ = Own(fabric);
  fid_domain* domain = nullptr;
  if (const int code = fi_domain(fabric, info_.get(), &domain, nullptr); code != 0) {
    return Failure("open domain " + provider_.domain, code);
  }
  domain_ = Own(domain);
  fi_av_attr av_attributes{};
  av_attributes.type = info_->domain_attr->av_type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE;
  fid_av* addresses = nullptr;
  if (const int code = fi_av_open(domain, &av_attributes, &addresses, nullptr); code != 0) {
    return Failure("open an address vector", code);
  }
  addresses_ = Own(addresses);
  fi_cq_attr cq_attributes{};
  cq_attributes.format = FI_CQ_FORMAT_TAGGED;
  cq_attributes.wait_obj = FI_WAIT_NONE;
  cq_attributes.size = info_->tx_attr->size + info_->rx_attr->size;
  fid_cq* completions = nullptr;
  if (const int code = fi_cq_open(domain, &cq_attributes, &completions, nullptr); code != 0) {
    return Failure("open a completion queue", code);
  }
  completions_ = Own(completions);
  fid_ep* endpoint = nullptr;
  if (const int code = fi_endpoint(domain, info_.get(), &endpoint, nullptr); code != 0) {
    return Failure("open an endpoint", code);
  }
  endpoint_ = Own(endpoint);
  int code = fi_ep_bind(endpoint, &addresses->fid, 0);
  code = code != 0 ? code : fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV);
  code = code != 0 ? code : fi_enable(endpoint);
  if (code != 0) {
    return Failure("enable the endpoint", code);
  }
  std::array<char, 256> text{};
  std::size_t length = text.size();
  if (auto name = Name(); name && fi_av_straddr(addresses, name->data(), text.data(), &length)) {
    provider_.address = text.data();
  }
  return {};
}

Result<std::string> FabricEndpoint::Name() const {
  std::size_t length = 0;
  fi_getname(&endpoint_->fid, nullptr, &length);
  std::string name(length, '\0');
  if (const int code = fi_getname(&endpoint_->fid, name.data(), &length); code != 0) {
    return Failure("tell its address", code);
  }
  name.resize(length);
  return name;
}

Result<void> FabricEndpoint::InsertPeers(const std::vector<std::string>& names) {
  peers_.assign(names.size(), FI_ADDR_UNSPEC);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (const int count =
            fi_av_insert(addresses_.get(), names[i].data(), 1, &peers_[i], 0, nullptr);
        count != 1) {
      return Failure("take in the address of rank " + std::to_string(i),
                     count < 0 ? count : -FI_EIO);
    }
  }
  return {};
}

std::int64_t FabricEndpoint::Send(int peer, const void* memory, std::size_t bytes, void* descriptor,
                                  std::uint64_t tag, void* context) {
  return fi_tsend(endpoint_.get(), memory, bytes, descriptor,
                  peers_[static_cast<std::size_t>(peer)], tag, context);
}

std::int64_t FabricEndpoint::Receive(void* memory, std::size_t bytes, void* descriptor,
                                     std::uint64_t tag, std::uint64_t ignore, void* context) {
  return fi_trecv(endpoint_.get(), memory, bytes, descriptor, FI_ADDR_UNSPEC, tag, ignore, context);
}

Result<std::size_t> FabricEndpoint::Poll(Completion* completions, std::size_t capacity) {
  std::array<fi_cq_tagged_entry, kMaxBatch> entries{};
  const ssize_t count =
      fi_cq_read(completions_.get(), entries.data(), std::min(capacity, kMaxBatch));
  if (count == -FI_EAGAIN || count == 0) {
    return std::size_t{0};
  }
  if (count == -FI_EAVAIL) {
    auto failed = ReadError();
    if (!failed) {
      return std::move(failed).error();
    }
    completions[0] = std::move(failed).value();
    return std::size_t{1};
  }
  if (count < 0) {
    return Failure("read its completion queue", count);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    completions[i].context = entries[i].op_context;
    completions[i].bytes = entries[i].len;
    completions[i].failed = false;
  }
  return static_cast<std::size_t>(count);
}

Result<FabricEndpoint::Completion> FabricEndpoint::ReadError() {
  fi_cq_err_entry entry{};
  const ssize_t count = fi_cq_readerr(completions_.get(), &entry, 0);
  if (count != 1) {
    return Failure("read an error from its completion queue", count < 0 ? count : -FI_EIO);
  }
  std::array<char, 256> buffer{};
  const char* detail = fi_cq_strerror(completions_.get(), entry.prov_errno, entry.err_data,
                                      buffer.data(), buffer.size());
  Completion completion{entry.op_context, entry.len, true, libfabric_->Text(entry.err)};
  if (detail != nullptr && *detail != '\0' && completion.reason != detail) {
    completion.reason += std::string(" (") + detail + ")";
  }
  return completion;
}

Result<std::uint64_t> FabricEndpoint::Register(const void* memory, std::size_t bytes) {
  if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) == 0 || bytes == 0) {
    return std::uint64_t{0};
  }
  // The key is the provider's choice under FI_MR_PROV_KEY and ours, unique, without it.
  const std::uint64_t id = next_region_++;
  fid_mr* handle = nullptr;
  if (const int code =
          fi_mr_reg(domain_.get(), memory, bytes, FI_SEND | FI_RECV, 0, id, 0, &handle, nullptr);
      code != 0) {
    Error error = Failure("register " + std::to_string(bytes) + " bytes of memory", code);
    error.hint = "raise the memlock limit: `ulimit -l`";
    return error;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  regions_[id] = Region{begin, begin + bytes, Own(handle)};
  return id;
}

void* FabricEndpoint::Descriptor(const void* memory, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  for (const auto& [id, region] : regions_) {
    if (region.begin <= begin && begin + bytes <= region.end) {
      return fi_mr_desc(region.handle.get());
    }
  }
  return nullptr;
}

}  // namespace dlc

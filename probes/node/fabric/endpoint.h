#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "probes/node/fabric/libfabric.h"
#include "probes/node/fabric/options.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// An open RDM endpoint with its completion queue and address vector; closed in the order that
/// libfabric wants.
class FabricEndpoint {
 public:
  static Result<std::unique_ptr<FabricEndpoint>> Open(const FabricOptions& options);

  const Libfabric& Api() const { return *libfabric_; }
  const FabricProvider& Provider() const { return provider_; }
  /// What a peer must have alike to be talked to: provider, protocol and its version, address form.
  const std::string& Dialect() const { return dialect_; }
  /// The address to give to the peers.
  Result<std::string> Name() const;
  /// Addresses by rank.
  Result<void> InsertPeers(const std::vector<std::string>& names);

  /// libfabric's codes: 0, -FI_EAGAIN to try again after reading completions, or an error.
  /// `descriptor` as Descriptor returns it.
  std::int64_t Send(int peer, const void* memory, std::size_t bytes, void* descriptor,
                    std::uint64_t tag, void* context);
  /// `ignore`: bits of the tag that need not match.
  std::int64_t Receive(void* memory, std::size_t bytes, void* descriptor, std::uint64_t tag,
                       std::uint64_t ignore, void* context);
  struct Completion {
    void* context = nullptr;
    std::size_t bytes = 0;  ///< received
    bool failed = false;
    std::string reason;  ///< provider's text when failed
  };
  /// Also what makes the provider progress. 0 when there is nothing.
  Result<std::size_t> Poll(Completion* completions, std::size_t capacity);

  /// 0 when the provider needs no registration.
  Result<std::uint64_t> Register(const void* memory, std::size_t bytes);
  void Unregister(std::uint64_t id) { regions_.erase(id); }
  /// Of the registered region that holds all of it; nullptr when there is none, which is right
  /// where none is needed.
  void* Descriptor(const void* memory, std::size_t bytes) const;

 private:
  struct Region {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    Fid<fid_mr> handle;
  };

  FabricEndpoint() = default;
  Result<void> OpenObjects();
  Error Failure(const std::string& what, std::int64_t code) const;
  Result<Completion> ReadError();

  // Destroyed from the last to the first: endpoint, regions, queue, addresses, domain, fabric.
  std::shared_ptr<const Libfabric> libfabric_;
  InfoList info_;
  FabricProvider provider_;
  std::string dialect_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> addresses_;
  Fid<fid_cq> completions_;
  std::map<std::uint64_t, Region> regions_;
  Fid<fid_ep> endpoint_;
  std::vector<fi_addr_t> peers_;
  std::uint64_t next_region_ = 1;
};

}  // namespace dlc

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/observed.h"

namespace dlc {

/// A shared library as it was really mapped.
struct LoadedLibrary {
  std::string path;      ///< after symbolic links
  std::string version;   ///< as the library tells it: "1.17"
  std::string build_id;  ///< GNU build id, hex; empty when the file carries none

  bool operator==(const LoadedLibrary&) const = default;
};

/// One way to reach a fabric, as fi_getinfo returned it.
struct FabricProvider {
  std::string name;    ///< "efa", "tcp;ofi_rxm", "net"
  std::string domain;  ///< "rdmap0s6-rdm", "eth0"
  std::string fabric;
  std::string version;  ///< provider version "117.0"
  std::string address;  ///< local address in libfabric's words: "fi_sockaddr_in://10.0.0.1:0"
  std::string protocol;
  std::vector<std::string> mr_mode;  ///< "FI_MR_LOCAL", ...

  bool operator==(const FabricProvider&) const = default;
};

/// An entry of /sys/class/infiniband.
struct RdmaDevice {
  std::string name;
  std::string pci_address;     ///< "0000:10:1b.0"; empty when the entry has no PCI parent
  std::string pci_vendor;      ///< "1d0f"
  std::string pci_device;      ///< "efa0" .. "efa3"
  std::string uverbs;          ///< "uverbs0"; empty when /sys names none
  bool uverbs_usable = false;  ///< /dev/infiniband/<uverbs> opens for reading and writing
  std::string uverbs_error;    ///< why not

  bool operator==(const RdmaDevice&) const = default;
};

/// An Amazon EFA function on the PCI bus, with or without its driver.
struct EfaFunction {
  std::string pci_address;
  std::string pci_device;  ///< "efa0" .. "efa3"
  std::string driver;      ///< "efa"; empty when none is bound

  bool operator==(const EfaFunction&) const = default;
};

struct HugePagePool {
  std::int64_t page_bytes = 0;
  std::int64_t total_pages = 0;
  std::int64_t free_pages = 0;

  bool operator==(const HugePagePool&) const = default;
};

/// RLIMIT_MEMLOCK; nullopt is unlimited.
struct MemlockLimit {
  std::optional<std::int64_t> soft_bytes;
  std::optional<std::int64_t> hard_bytes;

  bool operator==(const MemlockLimit&) const = default;
};

/// What a rank's process sees of the fabric on its node, before any byte moved.
struct NodeFabric {
  std::vector<RdmaDevice> rdma_devices;
  Observed<std::vector<EfaFunction>> efa_functions;
  Observed<MemlockLimit> memlock;
  std::vector<HugePagePool> huge_pages;
  Observed<std::string> efa_installer_version;  ///< /opt/amazon/efa_installed_packages
  Observed<LoadedLibrary> libfabric;
  Observed<std::vector<FabricProvider>> providers;  ///< RDM with tagged messages
  std::string fi_provider;  ///< FI_PROVIDER, which hides all other providers; empty when unset

  bool operator==(const NodeFabric&) const = default;
};

/// Where a rank runs. Equal boot_id means one machine: what moves between such ranks is loopback.
struct FabricRank {
  int rank = 0;
  std::string host;
  std::string boot_id;
  std::string network_namespace;  ///< "net:[4026531840]"
  int usable_cpus = 0;            ///< of sched_getaffinity
  FabricProvider provider;

  bool operator==(const FabricRank&) const = default;
};

/// Ping-pong and windowed sends between two ranks. rank_a starts.
struct PairMeasurement {
  int rank_a = 0;
  int rank_b = 0;
  bool same_machine = false;  ///< loopback: no line rate applies
  std::int64_t size_bytes = 0;
  int latency_iterations = 0;
  double latency_seconds = 0;  ///< mean half round trip
  double latency_min_seconds = 0;
  int bandwidth_messages = 0;
  double bandwidth_bytes_per_second = 0;  ///< a to b, payload
  double reverse_bandwidth_bytes_per_second = 0;
  std::int64_t checked_elements = 0;  ///< received and compared, both ways
  std::int64_t wrong_at_a = 0;        ///< of those, elements that differed
  std::int64_t wrong_at_b = 0;

  bool operator==(const PairMeasurement&) const = default;
};

/// One row as nccl-tests prints it, for one placement.
struct CollectiveMeasurement {
  /// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv".
  std::string collective;
  std::string type;
  std::string op;  ///< empty when nothing is reduced
  bool in_place = false;
  int ranks = 0;
  int machines = 0;              ///< distinct boot ids
  bool oversubscribed = false;   ///< some machine has more ranks than CPUs they may use
  std::int64_t asked_bytes = 0;  ///< as the plan says
  std::int64_t size_bytes = 0;   ///< S of algbw; smaller than asked where nccl-tests rounds
  int iterations = 0;
  /// All that ran with this row's bytes and placement, by whoever counts bytes to be expected:
  /// `iterations`, warm-up and check. 0: not told.
  std::int64_t operations = 0;
  double mean_seconds = 0;  ///< of one operation: host time over `iterations`, over ranks
  double min_seconds = 0;
  double max_seconds = 0;
  double algorithm_bandwidth_bytes_per_second = 0;  ///< of mean_seconds, as nccl-tests -a 1
  double bus_bandwidth_bytes_per_second = 0;
  std::int64_t checked_elements = 0;  ///< on all ranks
  std::vector<std::int64_t> wrong;    ///< by rank
  /// The same elements by the rank that they came from, on all ranks; empty where elements of
  /// several ranks were reduced to one.
  std::vector<std::int64_t> wrong_from;

  bool operator==(const CollectiveMeasurement&) const = default;
};

/// What a run of pair or collective measurements saw. `stopped_by` ended it early; the rows before
/// it stand.
struct FabricMeasurements {
  std::vector<FabricRank> ranks;
  std::vector<PairMeasurement> pairs;
  std::vector<CollectiveMeasurement> collectives;
  std::optional<Error> stopped_by;

  bool operator==(const FabricMeasurements&) const = default;
};

/// Counters of /sys/class/net/<name>/statistics.
struct InterfaceBytes {
  std::string name;
  std::int64_t received_bytes = 0;
  std::int64_t sent_bytes = 0;

  bool operator==(const InterfaceBytes&) const = default;
};

/// `fabric-pairs` or `fabric-collectives` on one rank. Of `measured` a rank keeps itself in `ranks`
/// and the pairs that it is one of: every row is then in two ranks' documents, and no document
/// grows with the square of their number.
struct FabricExperiment {
  LoadedLibrary library;
  FabricMeasurements measured;
  /// Every interface of the rank's network namespace, loopback too.
  Observed<std::vector<InterfaceBytes>> interfaces_before;
  Observed<std::vector<InterfaceBytes>> interfaces_after;

  bool operator==(const FabricExperiment&) const = default;
};

}  // namespace dlc

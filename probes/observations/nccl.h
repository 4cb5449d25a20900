#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/fabric.h"
#include "probes/observations/observed.h"

namespace dlc {

/// Connections of one kind, as NCCL logged them ("Channel 00/0 : 1[0] -> 0[0] [send] via
/// NET/Libfabric/3(2)/GDRDMA(PCI)/Shared").
struct NcclConnections {
  std::string transport;       ///< "NET", "P2P", "SHM", "COLLNET"
  std::string network;         ///< of NET and COLLNET, as logged: "AWS Libfabric", "Socket", "IB"
  int device = 0;              ///< of the network
  std::string detail;          ///< of P2P and SHM: "CUMEM/read", "direct/direct"
  bool through_proxy = false;  ///< by another rank's device (PXN)
  bool gpu_direct = false;     ///< /GDRDMA
  bool forced_pci = false;     ///< (PCI): GPU direct over PCIe where the GPU has a path to the CPU
  bool shared = false;
  std::int64_t sends = 0;     ///< lines that say [send]
  std::int64_t receives = 0;  ///< [receive]
  std::int64_t others = 0;    ///< neither, as P2P and SHM

  bool operator==(const NcclConnections&) const = default;
};

struct NcclLoggedCommunicator {
  std::string address;  ///< "0x5580e120bac0": tells the process's communicators apart
  int rank = 0;
  int ranks = 0;
  int nodes = 0;  ///< distinct host hashes, so pods rather than machines; 0: NCCL before 2.23
  int local_ranks = 0;
  bool complete = false;  ///< "Init COMPLETE" was logged

  bool operator==(const NcclLoggedCommunicator&) const = default;
};

struct NcclSetting {
  std::string name;  ///< "NCCL_SOCKET_IFNAME"
  std::string value;
  /// In a log: "environment" (or a nccl.conf, which NCCL puts there), "plugin". Of a process: also
  /// the path of the nccl.conf, and "dlc-probe" for what the experiment sets itself.
  std::string source;

  bool operator==(const NcclSetting&) const = default;
};

/// What a log of NCCL says. Of every list the first 64 entries; `dropped` counts what did not fit.
struct NcclLog {
  std::int64_t bytes = 0;
  std::int64_t lines = 0;
  std::vector<std::string> processes;  ///< "host:pid": one, in a log of one rank
  std::string version;                 ///< "2.29.7+cuda13.0"
  std::vector<NcclLoggedCommunicator> communicators;
  std::vector<std::string> networks;  ///< of "Using network", in order, without repeats in a row
  std::vector<NcclConnections> connections;
  std::vector<std::string> interfaces;  ///< of NET/Socket: "eth0:10.0.0.1"

  /// Of "NET/Plugin", why one that was looked for was not loaded: "Could not find: /x.so".
  std::string plugin_not_loaded;
  std::string plugin_version;          ///< of aws-ofi-nccl; empty: it did not start
  std::string libfabric_version;       ///< as the plugin tells it
  std::vector<std::string> providers;  ///< of "Selected provider is", in order, without repeats
  std::string fabric;                  ///< "efa", "efa-direct"; plugin 1.14 or newer
  int nics = 0;                        ///< of the last "found N nics"
  std::string protocol;                ///< "SENDRECV", "RDMA"
  std::optional<bool> dma_buf;
  bool plugin_failed = false;       ///< its initialization, or no eligible provider
  bool gpu_direct_refused = false;  ///< "GDR disabled on GDR-supported instance type"

  std::vector<NcclSetting> settings;
  std::vector<std::string> warnings;  ///< of NCCL and its plugins, the text alone

  std::int64_t damaged_lines = 0;       ///< two messages in one, or a piece of one
  std::int64_t folded_lines = 0;        ///< "[repeated 15x across cluster]": Ray left lines out
  std::int64_t unread_connections = 0;  ///< connection lines of no known shape
  std::string first_unread;
  bool cut = false;  ///< the last line has no end
  std::int64_t dropped = 0;

  bool operator==(const NcclLog&) const = default;
};

/// A log of a run that somebody else made.
struct NcclLogFile {
  std::string file;
  Digest digest;  ///< of the raw log
  NcclLog log;

  bool operator==(const NcclLogFile&) const = default;
};

/// The copy of NCCL that an experiment ran with.
struct NcclLibrary {
  LoadedLibrary library;  ///< version "2.28.9"
  int version_code = 0;   ///< 22809
  Observed<Digest> file;  ///< sha256 of the file
  std::string found_by;   ///< "parameter", "torch", "python", "loader"

  bool operator==(const NcclLibrary&) const = default;
};

/// Port counters of an EFA device. They are the device's: of every process that uses it.
struct EfaPortCounters {
  std::string device;  ///< "rdmap0s6"
  /// Payload that left: send_bytes, rdma_write_bytes, and rdma_read_resp_bytes, which a remote read
  /// took. Which of them moves depends on the instance type.
  std::int64_t sent_bytes = 0;
  /// Payload that came: recv_bytes, rdma_write_recv_bytes, rdma_read_bytes.
  std::int64_t received_bytes = 0;
  /// Each by its name; the device or its driver has none that is not here.
  std::map<std::string, std::int64_t> counters;

  bool operator==(const EfaPortCounters&) const = default;
};

/// How far a rank came.
struct NcclProgress {
  /// "load", "introduce", "init", then of each collective "warm-up", "check", "barrier", "timed",
  /// "gather"; "done" at the end.
  std::string phase;
  std::string collective;
  std::int64_t asked_bytes = 0;
  bool in_place = false;
  std::int64_t started = 0;  ///< operations of this phase, put into the stream

  bool operator==(const NcclProgress&) const = default;
};

/// `nccl-collectives` on one rank.
struct NcclExperiment {
  NcclLibrary library;
  std::string gpu_name;
  std::string gpu_pci_address;  ///< "0000:53:00.0"
  /// Of `measured` a rank keeps itself in `ranks`, without a provider, and every row.
  FabricMeasurements measured;
  NcclProgress reached;
  std::vector<NcclSetting> settings;  ///< NCCL_*, OFI_NCCL_*, FI_* of the process
  /// The job's own, where a setting of source "dlc-probe" with another value took their place.
  std::vector<NcclSetting> replaced_settings;
  Observed<NcclLog> log;                      ///< of NCCL_DEBUG_FILE
  Digest log_digest;                          ///< of the raw log
  Observed<std::string> log_file;             ///< where the raw log is kept, if it was asked for
  std::vector<std::string> mapped_libraries;  ///< of /proc/self/maps afterwards: what may matter
  /// Every interface of the rank's network namespace, loopback too.
  Observed<std::vector<InterfaceBytes>> interfaces_before;
  Observed<std::vector<InterfaceBytes>> interfaces_after;
  /// Port 1 of every EFA device that the rank sees; not looked at where it sees none. Ranks of one
  /// pod see the same devices.
  Observed<std::vector<EfaPortCounters>> efa_counters_before;
  Observed<std::vector<EfaPortCounters>> efa_counters_after;
  /// After a time-out: what NCCL's RAS said of all ranks (JSON of NCCL 2.28.7 or newer), its first
  /// 64 KiB. Where another job of the node has the port, that job's.
  Observed<std::string> ras;

  bool operator==(const NcclExperiment&) const = default;
};

}  // namespace dlc

#include "probes/observations/nccl_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "probes/observations/nccl_log_lines.h"

namespace dlc {
namespace {

constexpr std::size_t kMostEntries = 64;
constexpr std::size_t kLongestLine = 8192;
constexpr std::size_t kLongestText = 512;

using nccl_log::Frame;
using nccl_log::LineCursor;

template <class T>
void Append(NcclLog& log, std::vector<T>& list, T entry) {
  if (list.size() < kMostEntries) {
    list.push_back(std::move(entry));
  } else {
    ++log.dropped;
  }
}

std::string Short(std::string_view text) {
  return std::string(text.substr(0, kLongestText));
}

void AppendChanged(NcclLog& log, std::vector<std::string>& list, std::string_view entry) {
  if (list.empty() || list.back() != entry) {
    Append(log, list, Short(entry));
  }
}

void AppendNew(NcclLog& log, std::vector<std::string>& list, std::string_view entry) {
  if (std::find(list.begin(), list.end(), entry) == list.end()) {
    Append(log, list, Short(entry));
  }
}

void AddConnection(NcclLog& log, const NcclConnections& one) {
  for (NcclConnections& known : log.connections) {
    NcclConnections same = one;
    same.sends = known.sends;
    same.receives = known.receives;
    same.others = known.others;
    if (known == same) {
      known.sends += one.sends;
      known.receives += one.receives;
      known.others += one.others;
      return;
    }
  }
  Append(log, log.connections, one);
}

NcclLoggedCommunicator* CommunicatorAt(NcclLog& log, std::string_view address) {
  for (NcclLoggedCommunicator& known : log.communicators) {
    if (known.address == address) {
      return &known;
    }
  }
  const std::int64_t dropped = log.dropped;
  Append(log, log.communicators, NcclLoggedCommunicator{std::string(address), 0, 0, 0, 0, false});
  return log.dropped == dropped ? &log.communicators.back() : nullptr;
}

/// "comm 0x.. rank 7 nranks 8 ... - Init COMPLETE", "comm 0x.. rank 7 nRanks 8 nNodes 2 localRanks
/// 4 ..."; what stands before "comm" differs between versions.
bool TakeCommunicator(NcclLog& log, std::string_view message) {
  LineCursor at(message);
  if (!at.SkipPast("comm 0x")) {
    return false;
  }
  const std::string_view address = at.Until(" ");
  int rank = 0;
  int ranks = 0;
  if (!at.Take(" rank ") || !at.Number(rank) || !(at.Take(" nranks ") || at.Take(" nRanks ")) ||
      !at.Number(ranks)) {
    return false;
  }
  NcclLoggedCommunicator* known = CommunicatorAt(log, Short("0x" + std::string(address)));
  if (known == nullptr) {
    return true;
  }
  // An address may be used again after its communicator is gone.
  if (known->ranks != 0 && (known->ranks != ranks || known->rank != rank)) {
    *known = {known->address, 0, 0, 0, 0, false};
  }
  known->rank = rank;
  known->ranks = ranks;
  if (at.Take(" nNodes ")) {
    if (!at.Number(known->nodes) || !at.Take(" localRanks ") || !at.Number(known->local_ranks)) {
      ++log.damaged_lines;
    }
  } else if (message.ends_with("Init START")) {
    known->complete = false;
  } else if (message.find("Init COMPLETE") != std::string_view::npos) {
    known->complete = true;
  }
  return true;
}

/// "NCCL_SOCKET_IFNAME set by environment to eth0", "NET/OFI Setting NCCL_PROTO to "simple"",
/// "NET/OFI Setting FI_EFA_FORK_SAFE environment variable to 1".
bool TakeSetting(NcclLog& log, std::string_view message) {
  NcclSetting setting;
  LineCursor at(message);
  if (at.Take("NET/OFI Setting ")) {
    setting.source = "plugin";
    setting.name = Short(at.Until(" "));
    at.Take(" environment variable");
    if (!at.Take(" to ")) {
      return false;
    }
  } else {
    setting.name = Short(at.Until(" "));
    setting.source = "environment";
    if (!at.Take(" set by environment to ")) {
      return false;
    }
  }
  setting.value = Short(at.Rest());
  if (setting.source == "environment" && setting.value.ends_with('.')) {
    setting.value.pop_back();
  }
  std::erase(setting.value, '"');
  if (std::find(log.settings.begin(), log.settings.end(), setting) == log.settings.end()) {
    Append(log, log.settings, std::move(setting));
  }
  return true;
}

/// "[Ss]elected [Pp]rovider is efa, fabric is efa-direct (found 4 nics)".
bool TakeProvider(NcclLog& log, std::string_view text) {
  LineCursor at(text);
  if (!(at.Take("Selected Provider is ") || at.Take("Selected provider is "))) {
    return false;
  }
  const std::string_view provider = at.UntilAny(", (");
  AppendChanged(log, log.providers, provider);
  if (at.Take(", fabric is ")) {
    log.fabric = Short(at.Until(" "));
  }
  if (!at.Take(" (found ") || !at.Number(log.nics) || !at.Take(" nics)")) {
    ++log.damaged_lines;
  }
  return true;
}

void TakePlugin(NcclLog& log, std::string_view text) {
  LineCursor at(text);
  if (TakeProvider(log, text)) {
    return;
  }
  if (at.Take("Initializing aws-ofi-nccl ")) {
    log.plugin_version = Short(at.Rest());
  } else if (at.Take("Using Libfabric version ")) {
    log.libfabric_version = Short(at.Rest());
  } else if (at.Take("Using transport protocol ")) {
    log.protocol = Short(at.Until(" "));
  } else if (at.Take("Support for DMA-BUF registrations: ")) {
    log.dma_buf = at.Take("true");
  }
}

/// Failures that end the plugin, whether the version at hand warns or informs of them.
void TakeFailure(NcclLog& log, std::string_view message) {
  const auto says = [&](std::string_view text) {
    return message.find(text) != std::string_view::npos;
  };
  if (says("aws-ofi-nccl initialization failed") || says("No eligible providers were found") ||
      says("Initializing plugin failed") || says("Failed to initialize NET plugin Libfabric") ||
      says("Failed to initialize NET plugin AWS Libfabric")) {
    log.plugin_failed = true;
  }
  if (says("GDR disabled on GDR-supported instance type")) {
    log.gpu_direct_refused = true;
  }
}

/// "NET/Plugin: Could not find: /x.so", "NET/Plugin : Plugin load (x.so) returned 2 : x.so: cannot
/// open shared object file", "NET/Plugin: x.so: undefined symbol: y". Not of a symbol that an older
/// plugin does not have.
bool TakeNotLoaded(NcclLog& log, std::string_view message) {
  LineCursor at(message);
  if (!at.Take("NET/Plugin: ") && !at.Take("NET/Plugin : ")) {
    return false;
  }
  const std::string_view what = at.Rest();
  const bool not_loaded =
      what.starts_with("Could not find: ") || what.find(".so: ") != std::string_view::npos;
  if (not_loaded && log.plugin_not_loaded.empty()) {
    log.plugin_not_loaded = Short(what);
  }
  return not_loaded;
}

void TakeInfo(NcclLog& log, std::string_view message) {
  TakeFailure(log, message);
  const auto connection = nccl_log::ReadConnection(message);
  if (connection.is_one) {
    if (connection.read) {
      AddConnection(log, *connection.read);
    } else if (++log.unread_connections == 1) {
      log.first_unread = Short(message);
    }
    return;
  }
  LineCursor at(message);
  if (at.Take("Using network ")) {
    AppendChanged(log, log.networks, at.Rest());
  } else if (at.Take("NET/Socket : Using ") || at.Take("NET/Socket: Using ")) {
    LineCursor interfaces(at.Rest());
    while (interfaces.SkipPast("]")) {
      AppendNew(log, log.interfaces, interfaces.Until("<"));
    }
  } else if (!TakeSetting(log, message) && !TakeCommunicator(log, message) &&
             !TakeNotLoaded(log, message) && at.Take("NET/OFI ")) {
    TakePlugin(log, at.Rest());
  }
}

/// Of what no frame stands around. Pieces of a message are what interleaved writers leave.
void TakeUnframed(NcclLog& log, std::string_view line) {
  const std::size_t version = line.find("NCCL version ");
  if (version != std::string_view::npos) {
    log.version = Short(LineCursor(line.substr(version + 13)).Until(" "));
  } else if (line.find("NCCL INFO") != std::string_view::npos ||
             line.find("NCCL WARN") != std::string_view::npos ||
             line.find("via NET/") != std::string_view::npos) {
    ++log.damaged_lines;
  }
}

}  // namespace

bool IsLibfabric(std::string_view network) {
  return network == "Libfabric" || network == "AWS Libfabric";
}

std::string SharedNcclSettings(const std::vector<NcclSetting>& settings) {
  constexpr std::string_view kShared[] = {
      "NCCL_ALGO",         "NCCL_PROTO",         "NCCL_BUFFSIZE",
      "NCCL_NET",          "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
      "NCCL_NVLS_ENABLE",  "NCCL_CROSS_NIC",     "NCCL_P2P_NET_CHUNKSIZE",
      "NCCL_TUNER_PLUGIN", "FI_PROVIDER",        "OFI_NCCL_PROTOCOL"};
  std::string shared;
  for (const NcclSetting& setting : settings) {
    const bool is = std::any_of(std::begin(kShared), std::end(kShared), [&](std::string_view name) {
      return setting.name.starts_with(name);
    });
    if (is) {
      shared += (shared.empty() ? "" : " ") + setting.name + "=" + setting.value;
    }
  }
  return shared;
}

void NcclLogReader::TakeLine(std::string_view line) {
  ++log_.lines;
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  if (const std::size_t fold = line.rfind("[repeated ");
      fold != std::string_view::npos &&
      line.find("x across cluster", fold) != std::string_view::npos) {
    ++log_.folded_lines;
    line = line.substr(0, fold);
    while (line.ends_with(' ')) {
      line.remove_suffix(1);
    }
  }
  const Frame frame = nccl_log::ReadFrame(line);
  if (frame.kind == Frame::Kind::kNone) {
    TakeUnframed(log_, line);
    return;
  }
  AppendNew(log_, log_.processes, frame.process);
  if (nccl_log::HoldsAnother(frame.message)) {
    ++log_.damaged_lines;
  }
  if (frame.kind == Frame::Kind::kWarning) {
    TakeFailure(log_, frame.message);
    Append(log_, log_.warnings, Short(frame.message));
    return;
  }
  LineCursor at(frame.message);
  if (at.SkipPast("NCCL version ")) {
    log_.version = Short(at.Until(" "));
    return;
  }
  TakeInfo(log_, frame.message);
}

void NcclLogReader::Feed(std::string_view piece) {
  log_.bytes += static_cast<std::int64_t>(piece.size());
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    if (overlong_ || pending_.size() + part.size() > kLongestLine) {
      overlong_ = true;
      pending_.clear();
    } else {
      pending_ += part;
    }
    if (end == std::string_view::npos) {
      return;
    }
    piece.remove_prefix(end + 1);
    if (overlong_) {
      ++log_.lines;
      ++log_.damaged_lines;
    } else {
      TakeLine(pending_);
    }
    overlong_ = false;
    pending_.clear();
  }
}

NcclLog NcclLogReader::Finish() {
  if (!pending_.empty() || overlong_) {
    log_.cut = true;
    if (!overlong_) {
      TakeLine(pending_);
    }
  }
  return std::move(log_);
}

NcclLog ReadNcclLog(std::string_view text) {
  NcclLogReader reader;
  reader.Feed(text);
  return reader.Finish();
}

}  // namespace dlc

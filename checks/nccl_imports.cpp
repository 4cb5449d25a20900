#include "checks/nccl_imports.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "checks/nccl_inside_node.h"
#include "checks/nccl_levels.h"
#include "checks/nccl_tests_evidence.h"
#include "checks/wording.h"

namespace dlc {
namespace {

constexpr double kBytesPerGigabit = 1e9 / 8;

std::string TypeOfRows(const std::string& word) {
  return word == "float" ? "float32" : word;
}

std::string RowText(const NcclTestsRow& row, const NcclTestsTiming& timing, bool in_place) {
  return std::to_string(row.size_bytes) + " bytes of " + row.type + (in_place ? ", in place" : "") +
         ": " + Fixed(timing.bus_bandwidth_bytes_per_second / 1e9, 3) + " GB/s busbw";
}

const NcclTestsRow* RowOf(const NcclTestsOutput& output, const NcclBandwidthLimit& limit) {
  const auto row =
      std::find_if(output.rows.begin(), output.rows.end(), [&](const NcclTestsRow& one) {
        return one.size_bytes == limit.size_bytes && TypeOfRows(one.type) == limit.type;
      });
  return row == output.rows.end() || output.collective != limit.collective ? nullptr : &*row;
}

void JudgeLimit(const NcclTestsFile& file, const NcclBandwidthLimit& limit, bool valid,
                Judge& judge) {
  const std::string what =
      limit.collective + " of " + std::to_string(limit.size_bytes) + " bytes, " + limit.type;
  const Subject subject{"run", what};
  if (!valid) {
    judge.Unknown(kNcclBusBandwidth, subject,
                  {"prerequisite-failed", file.file + " is no valid measurement", ""});
    return;
  }
  const LimitInBytes bytes = InBytes(limit, nullptr, "");
  const NcclTestsRow* row = RowOf(file.output, limit);
  if (!bytes.why_not.empty() || row == nullptr) {
    judge.Unknown(kNcclBusBandwidth, subject,
                  {"not-looked-at",
                   row == nullptr ? file.file + " has no such row"
                                  : bytes.why_not + ": give bytesPerSecond for imported output",
                   ""});
    return;
  }
  const bool in_place = row->in_place.bus_bandwidth_bytes_per_second <
                        row->out_of_place.bus_bandwidth_bytes_per_second;
  const NcclTestsTiming& slower = in_place ? row->in_place : row->out_of_place;
  judge
      .Decide(kNcclBusBandwidth, subject,
              {{"busbw of " + what, Op::kGe, bytes.bytes_per_second,
                slower.bus_bandwidth_bytes_per_second, "bytes/s", "policy:nccl.minBusBandwidth"}})
      .notes.push_back(RowText(*row, slower, in_place));
}

/// The communicator of the whole job, whichever others the process had.
const NcclLoggedCommunicator* Widest(const NcclLog& log) {
  const auto it = std::max_element(log.communicators.begin(), log.communicators.end(),
                                   [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  return it == log.communicators.end() ? nullptr : &*it;
}

RankTransport OfLog(int rank, std::string name, int ranks, Observed<NcclLog> log,
                    const Policy& policy) {
  RankTransport one;
  one.rank = rank;
  one.name = std::move(name);
  one.evidence.rank = rank;
  one.evidence.ranks = ranks;
  one.evidence.log = std::move(log);
  one.evidence.efa_sent_bytes = NotLookedAt{"a log tells of no counters", ""};
  one.evidence.tcp_sent_bytes = NotLookedAt{"a log tells of no counters", ""};
  one.demand = DemandOf(policy, "", NotLookedAt{"a log tells of no devices", ""});
  one.verdict = JudgeTransport(one.evidence);
  return one;
}

}  // namespace

LimitInBytes InBytes(const NcclBandwidthLimit& limit, const InstanceType* type,
                     const std::string& type_name) {
  LimitInBytes bytes;
  if (limit.bytes_per_second > 0) {
    bytes.bytes_per_second = limit.bytes_per_second;
    return bytes;
  }
  if (type == nullptr || type->line_rate_gbps <= 0) {
    bytes.why_not = type_name.empty()
                        ? "the line rate is not known: the ranks' instance type was not seen"
                        : "the line rate of " + type_name + " is not known";
    return bytes;
  }
  bytes.bytes_per_second = limit.share_of_line_rate * type->line_rate_gbps * kBytesPerGigabit;
  bytes.calibrated = type->calibrated;
  bytes.note = Fixed(limit.share_of_line_rate, 2) + " of the " + Fixed(type->line_rate_gbps, 0) +
               " Gbit/s of " + type_name +
               (type->calibrated ? "" : ", for which no published measurement exists");
  return bytes;
}

double BusBandwidthBound(std::string_view collective, int ranks, int machines,
                         double line_rate_gbps) {
  if (ranks < 2 || machines < 2 || line_rate_gbps <= 0) {
    return 0;
  }
  const double line = line_rate_gbps * kBytesPerGigabit;
  if (collective == "broadcast" || collective == "send_recv") {
    return line;  // all of it enters each other node, or leaves each node, once
  }
  // A node's egress is at least (N-1)/N of the bytes for which busbw counts (n-1)/n.
  const double n = ranks;
  const double nodes = machines;
  return line * ((n - 1) / n) / ((nodes - 1) / nodes);
}

void JudgeNcclTests(const NcclTestsFile& file, const Policy& policy, Judge& judge) {
  const Subject subject{"run", file.file};
  const std::vector<std::string> problems = ProblemsOf(file.output);
  Finding& valid = judge.Decide(kMeasurementValid, subject,
                                {{"problems", Op::kSubset, std::vector<std::string>{}, problems, "",
                                  "observation:nccl_tests"}});
  if (!problems.empty() && valid.verdict == Verdict::kFail) {
    valid.reason.message = NameSome(problems, problems.size());
  }
  for (const NcclBandwidthLimit& limit : policy.nccl.min_bus_bandwidth) {
    JudgeLimit(file, limit, problems.empty(), judge);
  }
  if (!problems.empty()) {
    return;
  }
  Finding& shown = judge.NotApplicable(
      kNcclBusBandwidth, subject,
      "measured by nccl-tests " + file.output.version + "; limits are judged apart");
  for (const NcclTestsRow& row : file.output.rows) {
    shown.notes.push_back(RowText(row, row.out_of_place, false));
    shown.notes.push_back(RowText(row, row.in_place, true));
  }
}

void JudgeLoggedTransport(const std::vector<NcclLogFile>& logs, const Policy& policy,
                          Judge& judge) {
  int size = 0;
  for (const NcclLogFile& file : logs) {
    const NcclLoggedCommunicator* own = Widest(file.log);
    size = std::max(size, own == nullptr ? 0 : own->ranks);
  }
  std::vector<RankTransport> ranks;
  std::set<int> told;
  for (const NcclLogFile& file : logs) {
    const NcclLoggedCommunicator* own = Widest(file.log);
    const int rank = own == nullptr ? -1 : own->rank;
    const std::string name =
        own == nullptr ? file.file : "rank " + std::to_string(rank) + " (" + file.file + ")";
    ranks.push_back(OfLog(rank, name, size, file.log, policy));
    told.insert(rank);
  }
  for (int rank = 0; rank < size; ++rank) {
    if (!told.contains(rank)) {
      ranks.push_back(OfLog(rank, "rank " + std::to_string(rank), size,
                            NotLookedAt{"there is no log of this rank", ""}, policy));
    }
  }
  const Subject subject{"run", "the logs"};
  JudgeLevels(ranks, subject, judge);
  JudgeGpuDirect(ranks, policy, subject, judge);
  JudgeInsideNode(ranks, policy, subject, judge);
}

}  // namespace dlc

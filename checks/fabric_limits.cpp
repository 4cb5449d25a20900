#include "checks/fabric_limits.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checks/wording.h"

namespace dlc {
namespace {

/// Rows shown as notes; all of them are in the observations.
constexpr std::size_t kShownRows = 24;

/// What is asked of pairs: one of their two numbers.
struct PairQuestion {
  std::string_view rule;
  const char* metric;
  const char* unit;
  const char* source;  ///< in the policy
  const char* limit_name;
  bool least;  ///< more is better
  std::optional<double> limit;
  std::int64_t size_bytes = 0;
  double (*number)(const PairMeasurement& pair);
  std::string (*text)(const PairMeasurement& pair);
};

std::string Rate(double bytes_per_second) {
  return Fixed(bytes_per_second / 1e6, 1) + " MB/s";
}

double SlowerWay(const PairMeasurement& pair) {
  return std::min(pair.bandwidth_bytes_per_second, pair.reverse_bandwidth_bytes_per_second);
}
std::string BothWays(const PairMeasurement& pair) {
  return Rate(pair.bandwidth_bytes_per_second) + ", back " +
         Rate(pair.reverse_bandwidth_bytes_per_second);
}
double Latency(const PairMeasurement& pair) {
  return pair.latency_seconds;
}
std::string Microseconds(const PairMeasurement& pair) {
  return Fixed(pair.latency_seconds * 1e6, 1) + " us";
}

PairQuestion LatencyQuestion(const FabricPolicy& policy) {
  PairQuestion question{kPairLatencyRule,
                        "half a round trip of",
                        "s",
                        "policy:fabric.maxPairLatency",
                        "latency",
                        false,
                        std::nullopt,
                        0,
                        Latency,
                        Microseconds};
  if (policy.max_pair_latency) {
    question.limit = policy.max_pair_latency->seconds;
    question.size_bytes = policy.max_pair_latency->size_bytes;
  }
  return question;
}

PairQuestion BandwidthQuestion(const FabricPolicy& policy) {
  PairQuestion question{kPairBandwidthRule, "slower way of",
                        "bytes/s",          "policy:fabric.minPairBandwidth",
                        "bandwidth",        true,
                        std::nullopt,       0,
                        SlowerWay,          BothWays};
  if (policy.min_pair_bandwidth) {
    question.limit = policy.min_pair_bandwidth->bytes_per_second;
    question.size_bytes = policy.min_pair_bandwidth->size_bytes;
  }
  return question;
}

std::string PairText(const PairMeasurement& pair, const PairQuestion& question) {
  return "ranks " + std::to_string(pair.rank_a) + " and " + std::to_string(pair.rank_b) + ", " +
         std::to_string(pair.size_bytes) + " bytes: " + question.text(pair);
}

using Pairs = std::vector<PairMeasurement>;

void NotePairs(Pairs pairs, const PairQuestion& question, Finding& finding) {
  if (pairs.size() > kShownRows) {  // the worst, then
    std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& a, const auto& b) {
      return question.least == (question.number(a) < question.number(b));
    });
  }
  for (std::size_t i = 0; i < std::min(pairs.size(), kShownRows); ++i) {
    finding.notes.push_back(PairText(pairs[i], question));
  }
  if (pairs.size() > kShownRows) {
    finding.notes.push_back("and " + std::to_string(pairs.size() - kShownRows) +
                            " more in the observations");
  }
}

/// The limit against the worst pair of that size, and the names of all that miss it.
void DecidePairs(const RankRun& run, const Pairs& across, const FabricRows& rows,
                 const PairQuestion& question, Judge& judge) {
  const Subject subject{"run", "pairs on different machines"};
  Pairs measured;
  std::copy_if(across.begin(), across.end(), std::back_inserter(measured),
               [&](const auto& pair) { return pair.size_bytes == question.size_bytes; });
  if (measured.empty()) {
    if (rows.unseen) {
      judge.Unseen(question.rule, subject, "their messages", *rows.unseen);
    } else {
      judge.Unknown(question.rule, subject,
                    {"not-looked-at",
                     "no two ranks on different machines measured " +
                         std::to_string(question.size_bytes) + "-byte messages",
                     ""});
    }
    return;
  }
  const auto op = question.least ? Op::kGe : Op::kLe;
  const auto assertion = [&](const PairMeasurement& pair) {
    return Assertion{std::string(question.metric) + " " + std::to_string(pair.size_bytes) +
                         " bytes, ranks " + std::to_string(pair.rank_a) + " and " +
                         std::to_string(pair.rank_b),
                     op,
                     *question.limit,
                     question.number(pair),
                     question.unit,
                     question.source};
  };
  std::vector<Assertion> missed;
  const PairMeasurement* worst = &measured.front();
  for (const PairMeasurement& pair : measured) {
    if (!Holds(assertion(pair))) {
      missed.push_back(assertion(pair));
    }
    worst = question.least == (question.number(pair) < question.number(*worst)) ? &pair : worst;
  }
  // A pair that misses the limit has missed it, whoever else was not seen.
  if (missed.empty() && rows.unseen) {
    judge.Unseen(question.rule, subject, "the messages of all pairs", *rows.unseen);
    return;
  }
  const PairMeasurement shown = *worst;
  Finding& finding =
      judge.Decide(question.rule, subject, missed.empty() ? std::vector{assertion(shown)} : missed);
  finding.notes.push_back("worst: " + RankNames(run, {shown.rank_a}) + " and " +
                          RankNames(run, {shown.rank_b}) + ": " + question.text(shown));
}

void JudgePairQuestion(const RankRun& run, const FabricRows& rows, const PairQuestion& question,
                       Judge& judge) {
  Pairs across;
  Pairs loopback;
  Pairs crowded;
  const std::set<int> waiting = RanksThatWait(rows);
  for (const PairMeasurement& pair : rows.pairs) {
    const bool waits = waiting.contains(pair.rank_a) || waiting.contains(pair.rank_b);
    (pair.same_machine ? loopback : waits ? crowded : across).push_back(pair);
  }
  const std::string providers = "over " + ProvidersText(run, rows);
  const auto show = [&](const char* who, const std::string& why, const Pairs& pairs) {
    if (!pairs.empty()) {
      Finding& finding = judge.NotApplicable(question.rule, {"run", who}, why);
      finding.notes.push_back(providers);
      NotePairs(pairs, question, finding);
    }
  };
  const bool crowd = !loopback.empty() && waiting.contains(loopback.front().rank_a);
  show("pairs on one machine",
       std::string("loopback is no fabric, so no limit applies") +
           (crowd ? ", and the machine has more ranks than CPUs (oversubscribed)" : ""),
       loopback);
  show("pairs on oversubscribed machines",
       "a machine has more ranks than CPUs: such numbers tell of waiting, so no limit applies",
       crowded);
  if (question.limit) {
    DecidePairs(run, across, rows, question, judge);
  } else {
    show("pairs on different machines", std::string("the policy demands no ") + question.limit_name,
         across);
  }
}

bool IsJudged(const CollectiveMeasurement& row) {
  return row.machines > 1 && !row.oversubscribed;
}

std::string RowText(const CollectiveMeasurement& row) {
  return row.collective + " of " + std::to_string(row.size_bytes) + " bytes" +
         (row.in_place ? ", in place" : "") + ": " + Rate(row.bus_bandwidth_bytes_per_second) +
         " busbw, " + Fixed(row.mean_seconds * 1e6, 1) + " us";
}

void ShowBusRows(const FabricRows& rows, bool judged, const char* who, const std::string& why,
                 Judge& judge) {
  std::vector<std::string> notes;
  for (const CollectiveMeasurement& row : rows.collectives) {
    if (row.ranks > 1 && IsJudged(row) == judged) {
      notes.push_back(RowText(row));
    }
  }
  if (!notes.empty()) {
    notes.resize(std::min(notes.size(), kShownRows));
    judge.NotApplicable(kBusBandwidthRule, {"run", who}, why).notes = std::move(notes);
  }
}

/// Out of place and in place: the slower has to reach it.
void DecideBus(const FabricRows& rows, const BusBandwidthLimit& limit, Judge& judge) {
  const std::string what = limit.collective + " of " + std::to_string(limit.size_bytes) + " bytes";
  const Subject subject{"run", what};
  const CollectiveMeasurement* slowest = nullptr;
  for (const CollectiveMeasurement& row : rows.collectives) {
    const bool asked = row.collective == limit.collective && row.asked_bytes == limit.size_bytes;
    if (asked && IsJudged(row) &&
        (slowest == nullptr ||
         row.bus_bandwidth_bytes_per_second < slowest->bus_bandwidth_bytes_per_second)) {
      slowest = &row;
    }
  }
  if (slowest != nullptr) {
    judge
        .Decide(
            kBusBandwidthRule, subject,
            {{"busbw of " + what, Op::kGe, limit.bytes_per_second,
              slowest->bus_bandwidth_bytes_per_second, "bytes/s", "policy:fabric.minBusBandwidth"}})
        .notes.push_back(RowText(*slowest));
  } else if (rows.unseen) {
    judge.Unseen(kBusBandwidthRule, subject, what, *rows.unseen);
  } else {
    judge.Unknown(kBusBandwidthRule, subject,
                  {"not-looked-at",
                   "no such row of ranks on several machines with a CPU each was measured", ""});
  }
}

}  // namespace

void JudgePairSpeed(const RankRun& run, const FabricRows& rows, const FabricPolicy& policy,
                    Judge& judge) {
  JudgePairQuestion(run, rows, LatencyQuestion(policy), judge);
  JudgePairQuestion(run, rows, BandwidthQuestion(policy), judge);
}

void JudgeBusSpeed(const FabricRows& rows, const FabricPolicy& policy, Judge& judge) {
  const bool crowded = std::any_of(rows.collectives.begin(), rows.collectives.end(),
                                   [](const auto& row) { return row.oversubscribed; });
  ShowBusRows(rows, false, "collectives on one machine or oversubscribed",
              std::string("such numbers are of loopback or of waiting, so no limit applies") +
                  (crowded ? "; oversubscribed: more ranks than CPUs" : ""),
              judge);
  if (policy.min_bus_bandwidth.empty()) {
    ShowBusRows(rows, true, "collectives", "the policy demands no bus bandwidth", judge);
  }
  for (const BusBandwidthLimit& limit : policy.min_bus_bandwidth) {
    DecideBus(rows, limit, judge);
  }
}

}  // namespace dlc

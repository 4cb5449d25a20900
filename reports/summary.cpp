#include "reports/summary.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

/// "not seen: MESSAGE", for what a probe tried, and "not looked at: WHY" for what none did.
template <class T>
std::string Unseen(const Observed<T>& observed) {
  if (observed.failed()) {
    return "not seen: " + observed.error().message;
  }
  const NotLookedAt& why = observed.why_not();
  return "not looked at: " + (why.blocked_by.empty() ? why.reason : "blocked by " + why.blocked_by);
}

std::vector<std::string> ImageValues(const Observed<ServedImage>& image) {
  if (!image.seen()) {
    return {Unseen(image)};
  }
  return {image.value().reference, image.value().digest.ToString()};
}

std::vector<std::string> ClusterValues(const ClusterFacts& cluster) {
  std::vector<std::string> values;
  if (const auto* ray_clusters = cluster.ray_clusters.get()) {
    for (const RayCluster& ray : *ray_clusters) {
      values.push_back("RayCluster " + (ray.name_space.empty() ? "" : ray.name_space + "/") +
                       ray.name);
    }
    if (ray_clusters->empty()) {
      values.emplace_back("no RayCluster");
    }
  } else {
    values.push_back("RayCluster " + Unseen(cluster.ray_clusters));
  }
  const auto* pods = cluster.pods.get();
  const auto* nodes = cluster.nodes.get();
  if (pods != nullptr || nodes != nullptr) {
    values.push_back((pods != nullptr ? Count(pods->size(), "pod") : "pods not seen") + ", " +
                     (nodes != nullptr ? Count(nodes->size(), "node") : "nodes not seen"));
  }
  return values;
}

std::string StagesText(const std::vector<Stage>& stages) {
  std::string text;
  for (const Stage stage : stages) {
    text += (text.empty() ? "" : ", ") + std::string(StageName(stage));
  }
  return text.empty() ? "none" : text;
}

std::string PolicyText(const Report& report) {
  const PolicySource& source = report.policy_source;
  if (source.name.empty()) {
    return report.policy_name.empty() ? source.origin : report.policy_name;
  }
  const std::string where = source.origin == "inline" ? source.name + " (inline)" : source.name;
  return report.policy_name.empty() ? where : report.policy_name + " from " + where;
}

struct HashOfGroup {
  std::size_t operator()(const Finding* f) const {
    const std::hash<std::string> hash;
    return hash(f->rule) ^ (hash(f->actual) * 31U) ^ (hash(f->reason.message) * 131U);
  }
};

struct SameGroup {
  bool operator()(const Finding* a, const Finding* b) const {
    return a->rule == b->rule && a->verdict == b->verdict && a->severity == b->severity &&
           a->subject.kind == b->subject.kind && a->expected == b->expected &&
           a->actual == b->actual && a->reason == b->reason && a->hint == b->hint &&
           a->notes == b->notes;
  }
};

template <class Predicate>
const Finding* FirstOf(const std::vector<Finding>& findings, Predicate predicate) {
  const auto it = std::find_if(findings.begin(), findings.end(), predicate);
  return it == findings.end() ? nullptr : &*it;
}

std::string RequiredFindings(int count, const char* became) {
  return std::to_string(count) + " required finding" + (count == 1 ? " " : "s ") + became;
}

constexpr std::string_view kForm = "0000-00-00T00:00:00Z";

/// The whole text as a number.
std::optional<unsigned> Number(std::string_view digits) {
  unsigned value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return status == std::errc() && end == digits.data() + digits.size()
             ? std::optional<unsigned>(value)
             : std::nullopt;
}

}  // namespace

std::vector<RunField> RunFields(const Report& report) {
  const RunFacts& run = report.observations.run;
  const auto or_unknown = [](const std::string& text) {
    return text.empty() ? std::string("not recorded") : text;
  };
  std::vector<RunField> fields;
  fields.push_back({"image", ImageValues(report.observations.served_image)});
  fields.push_back({"cluster", ClusterValues(report.observations.cluster)});
  fields.push_back({"stages", {StagesText(run.stages)}});
  fields.push_back({"policy", {PolicyText(report)}});
  fields.push_back({"run", {or_unknown(run.id) + (run.mode.empty() ? "" : " (" + run.mode + ")")}});
  fields.push_back({"started", {or_unknown(run.started_at)}});
  fields.push_back(
      {"finished", {or_unknown(run.finished_at) + (run.interrupted ? " (interrupted)" : "")}});
  return fields;
}

std::vector<FindingGroup> GroupFindings(const std::vector<Finding>& findings, Standing standing) {
  std::vector<FindingGroup> groups;
  std::unordered_map<const Finding*, std::size_t, HashOfGroup, SameGroup> index;
  for (const Finding& finding : findings) {
    if (StandingOf(finding) != standing) {
      continue;
    }
    const auto [it, is_new] = index.try_emplace(&finding, groups.size());
    if (is_new) {
      groups.push_back({&finding, {}});
    }
    groups[it->second].subjects.push_back(&finding.subject);
  }
  return groups;
}

std::vector<CheckCount> CountPerCheck(const std::vector<Finding>& findings, Standing standing) {
  std::vector<CheckCount> counts;
  std::unordered_map<std::string_view, std::size_t> index;
  for (const Finding& finding : findings) {
    if (StandingOf(finding) != standing) {
      continue;
    }
    const auto [it, is_new] = index.try_emplace(finding.check, counts.size());
    if (is_new) {
      counts.push_back({finding.check, 0});
    }
    ++counts[it->second].count;
  }
  return counts;
}

WhyNot WhyNotPassed(const Report& report) {
  const FindingCounts counts = CountFindings(report.findings);
  const auto first = [&](Standing standing) {
    return FirstOf(report.findings, [&](const Finding& f) { return StandingOf(f) == standing; });
  };
  switch (report.outcome) {
    case Outcome::kPassed:
      return {};
    case Outcome::kFailed:
      return {RequiredFindings(counts.failed, "failed"), first(Standing::kFailed)};
    case Outcome::kIncomplete:
      break;
  }
  const std::string interrupted =
      report.observations.run.interrupted ? "the run was interrupted" : "";
  if (counts.unknown > 0) {
    const char* became = counts.unknown == 1 ? "is unknown" : "are unknown";
    return {
        interrupted + (interrupted.empty() ? "" : "; ") + RequiredFindings(counts.unknown, became),
        first(Standing::kUnknown)};
  }
  if (!interrupted.empty()) {
    return {interrupted, nullptr};
  }
  return {report.findings.empty() ? "nothing was judged" : "no required check of the world passed",
          nullptr};
}

std::string WhyNotPassedLine(const Report& report) {
  const WhyNot why = WhyNotPassed(report);
  if (why.first == nullptr) {
    return why.what;
  }
  return why.what + ", the first is " + why.first->rule + " on " + SubjectText(why.first->subject);
}

std::string CountsLine(const FindingCounts& counts) {
  return std::to_string(counts.failed) + " failed, " + std::to_string(counts.unknown) +
         " unknown, " + std::to_string(counts.warned) + " warned, " +
         std::to_string(counts.not_applicable) + " not applicable, " +
         std::to_string(counts.passed) + " passed";
}

std::string SubjectText(const Subject& subject) {
  return subject.name.empty() ? subject.kind : subject.kind + " " + subject.name;
}

bool ReasonSaysMore(const Finding& finding) {
  return !finding.reason.message.empty() &&
         finding.reason.message != "expected " + finding.expected + ", found " + finding.actual;
}

std::string WhatHappened(const Finding& finding) {
  if (!finding.reason.message.empty()) {
    return finding.reason.message;
  }
  return "expected " + finding.expected + ", found " + finding.actual;
}

std::vector<std::string> NotEstablished(const std::vector<Finding>& findings) {
  std::vector<std::string> texts;
  std::unordered_set<std::string_view> seen;
  const auto collect = [&](bool passes) {
    for (const Finding& finding : findings) {
      for (const std::string& text : finding.does_not_establish) {
        if ((finding.verdict == Verdict::kPass) == passes && !text.empty() &&
            seen.insert(text).second) {
          texts.push_back(text);
        }
      }
    }
  };
  collect(true);
  collect(false);
  return texts;
}

std::optional<std::int64_t> UnixSeconds(std::string_view rfc3339) {
  if (rfc3339.size() != kForm.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '0' && kForm[i] != rfc3339[i]) {
      return std::nullopt;
    }
  }
  const auto year = Number(rfc3339.substr(0, 4));
  const auto month = Number(rfc3339.substr(5, 2));
  const auto day = Number(rfc3339.substr(8, 2));
  const auto hour = Number(rfc3339.substr(11, 2));
  const auto minute = Number(rfc3339.substr(14, 2));
  const auto second = Number(rfc3339.substr(17, 2));
  if (!year || !month || !day || !hour || !minute || !second || *hour > 23 || *minute > 59 ||
      *second > 60) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(*month), std::chrono::day(*day)};
  if (!date.ok()) {
    return std::nullopt;
  }
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((static_cast<std::int64_t>(days) * 24 + *hour) * 60 + *minute) * 60 + *second;
}

std::optional<std::int64_t> RunSeconds(const RunFacts& run) {
  const auto start = UnixSeconds(run.started_at);
  const auto finish = UnixSeconds(run.finished_at);
  return start && finish && *finish >= *start ? std::optional<std::int64_t>(*finish - *start)
                                              : std::nullopt;
}

}  // namespace dlc

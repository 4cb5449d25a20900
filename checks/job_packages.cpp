#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/package_names.h"
#include "checks/version_specifier.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kJobPackages;  // the table in check_list.cpp finds it by this name

namespace {

using List = std::vector<std::string>;

constexpr Rule kProtected{
    "job-packages/protected-package",
    Severity::kRequired,
    false,
    "no job installs a package that the image promises",
    "the job's runtime_env asks for none of the policy's protected packages",
    "what the job's own code installs, or what its other packages pull in as dependencies",
    "take the package out of the job's runtime_env: Ray puts the job's copy before the image's, "
    "and CUDA, NCCL and EFA were built to fit the image's"};
constexpr Rule kOverrides{
    "job-packages/overrides-image-package",
    Severity::kWarn,
    false,
    "no job replaces another package of the image",
    "every package of the policy's image_packages that the job asks for is admitted in the image's "
    "version",
    "that the installer keeps the image's copy: dependencies may still replace it",
    "run with the image's version, or record in the job why it needs another one"};
constexpr Rule kSource{
    "job-packages/package-source-changed",
    Severity::kWarn,
    false,
    "no job changes where packages come from",
    "the job's runtime_env passes no installer option",
    "where pip or uv of the image look by their own configuration",
    "an added index can serve another build under the same name and version: name the wheel, or "
    "pin hashes"};
constexpr Rule kImage{
    "job-packages/image-replaced",
    Severity::kRequired,
    false,
    "no job leaves the image under test",
    "the job's runtime_env names no image of its own",
    "that the job's code starts no container",
    "take image_uri (container) out of the runtime_env, or run dlc-check on that image"};
constexpr Rule kEnvironment{
    "job-packages/environment-replaced",
    Severity::kWarn,
    false,
    "no job swaps the image's Python environment",
    "the job uses no `uv run`, no conda environment and no install command in its entrypoint",
    "which environment a worker really has: sys.prefix in the worker would tell",
    "run the job with the image's interpreter (/opt/venv), or bake the packages into an image "
    "built from this one"};

constexpr Rule kRules[] = {kProtected, kOverrides, kSource, kImage, kEnvironment};

constexpr const char* kObserved = "observation:ray.jobs";

AssertedValue NoneOr(List list) {
  return list.empty() ? AssertedValue{} : AssertedValue{std::move(list)};
}

bool FromConda(const RequestedPackage& package) {
  return package.installer.starts_with("conda");
}

/// "transformers==4.46.3", without any credentials of an index URL.
std::string Shown(const RequestedPackage& package) {
  return WithoutCredentials(package.text.empty() ? package.name + package.specifier : package.text);
}

bool StartsUv(std::string_view command) {
  return command.find("uv run") != std::string_view::npos;
}

/// What keeps the list of packages from being whole.
List NotShown(const RayJob& job) {
  List parts;
  for (const RequestedPackage& package : job.runtime_env.packages) {
    const bool brings = package.is_option && OptionBringsPackages(package.text);
    if (brings || (!package.is_option && !InstalledName(package))) {
      parts.push_back(Shown(package));
    }
  }
  if (StartsUv(job.runtime_env.py_executable) || StartsUv(job.entrypoint)) {
    parts.emplace_back("uv run");
  }
  if (!job.runtime_env.conda_env.empty()) {
    parts.push_back("conda environment " + job.runtime_env.conda_env);
  }
  return parts;
}

/// Remarks on the packages that are neither protected nor the image's: "adds requests".
void AddAdditions(const RayJob& job, const JobPackagesPolicy& policy, Finding& finding) {
  List added;
  for (const RequestedPackage& package : job.runtime_env.packages) {
    const auto name = InstalledName(package);
    if (name && FindPattern(policy.protected_names, *name) == nullptr &&
        FindPattern(policy.allowed, *name) == nullptr && policy.image_packages.count(*name) == 0) {
      added.push_back(Shown(package));
    }
  }
  if (!added.empty()) {
    finding.notes.push_back("adds " + NameSome(added, 10));
  }
}

const std::string* ImageVersion(const JobPackagesPolicy& policy, const std::string& name) {
  const auto it = policy.image_packages.find(name);
  return it == policy.image_packages.end() ? nullptr : &it->second;
}

/// Whether the image's version satisfies the request, so that the installer may leave it alone.
/// nullopt: the versions cannot be compared.
std::optional<bool> ImageSatisfies(const RequestedPackage& package, const std::string& held) {
  // conda makes an environment of its own, and a URL is installed whatever is there.
  if (FromConda(package) || IsDirectReference(package)) {
    return false;
  }
  return SpecifierAdmits(package.specifier, held);
}

void JudgeProtected(const RayJob& job, const Subject& subject, const JobPackagesPolicy& policy,
                    Judge& judge) {
  List requested;
  List notes;
  for (const RequestedPackage& package : job.runtime_env.packages) {
    const auto name = InstalledName(package);
    const std::string* pattern = name ? FindPattern(policy.protected_names, *name) : nullptr;
    if (pattern == nullptr) {
      continue;
    }
    requested.push_back(Shown(package));
    const std::string* held = ImageVersion(policy, *name);
    const bool admitted = held != nullptr && ImageSatisfies(package, *held).value_or(false);
    notes.push_back(Shown(package) + " is protected by '" + *pattern + "'" +
                    (held == nullptr ? "" : "; the image holds " + *held) +
                    (admitted ? ", which satisfies the request: the job can leave it out" : ""));
  }
  const List not_shown = NotShown(job);
  if (requested.empty() && !not_shown.empty()) {
    Finding& finding = judge.Unknown(
        kProtected.id, subject,
        {"unavailable", "what this installs was not seen: " + NameSome(not_shown), ""});
    AddAdditions(job, policy, finding);
    return;
  }
  Finding& finding =
      judge.Decide(kProtected.id, subject,
                   {{"protected packages in runtime_env", Op::kAbsent, std::monostate{},
                     NoneOr(std::move(requested)), "", kObserved}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "the job installs what the image promises: " + finding.actual;
  }
  finding.notes = std::move(notes);
  AddAdditions(job, policy, finding);
}

/// What a job asks of the packages that the image holds too.
struct Comparison {
  std::vector<Assertion> assertions;
  List notes;
  List replaced;    // "transformers 5.13.0 by transformers==4.46.3"
  List unreadable;  // requests whose version cannot be compared
};

void CompareWithImage(const RequestedPackage& package, const std::string& name,
                      const std::string& held, Comparison& c) {
  const auto satisfied = ImageSatisfies(package, held);
  if (!satisfied) {
    c.unreadable.push_back(Shown(package));
    return;
  }
  const std::string pinned = FromConda(package) ? "" : PinnedVersion(package.specifier);
  const std::string wanted = *satisfied ? held : pinned.empty() ? Shown(package) : pinned;
  c.assertions.push_back({name + " of the job", Op::kEq, held, wanted, "",
                          "policy:job_packages.image_packages." + name});
  if (*satisfied) {
    c.notes.push_back(Shown(package) + " admits the image's " + held +
                      ": it may be satisfied already");
  } else {
    c.replaced.push_back(name + " " + held + " by " + Shown(package));
  }
}

void JudgeOverrides(const RayJob& job, const Subject& subject, const JobPackagesPolicy& policy,
                    Judge& judge) {
  List names;
  Comparison c;
  for (const RequestedPackage& package : job.runtime_env.packages) {
    const auto name = InstalledName(package);
    if (!name || FindPattern(policy.protected_names, *name) != nullptr) {
      continue;
    }
    names.push_back(*name);
    if (const std::string* held = ImageVersion(policy, *name)) {
      CompareWithImage(package, *name, *held, c);
    }
  }
  if (policy.image_packages.empty() && !names.empty()) {
    judge.Unknown(kOverrides.id, subject,
                  {"not-looked-at",
                   "the policy lists no image_packages, so an override cannot be told from an "
                   "addition: " +
                       NameSome(names),
                   ""});
    return;
  }
  if (c.replaced.empty() && !c.unreadable.empty()) {
    judge.Unknown(
        kOverrides.id, subject,
        {"invalid-input",
         "the version cannot be compared with the image's: " + NameSome(c.unreadable), ""});
    return;
  }
  if (c.assertions.empty()) {
    c.assertions.push_back({"packages of the image in runtime_env", Op::kAbsent, std::monostate{},
                            std::monostate{}, "", kObserved});
  }
  Finding& finding = judge.Decide(kOverrides.id, subject, std::move(c.assertions));
  finding.notes = std::move(c.notes);
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "the job replaces " + NameSome(c.replaced, c.replaced.size());
  }
}

void JudgeSource(const RayJob& job, const Subject& subject, Judge& judge) {
  List options;
  for (const RequestedPackage& package : job.runtime_env.packages) {
    if (package.is_option) {
      options.push_back(Shown(package));
    }
  }
  judge.Decide(kSource.id, subject,
               {{"installer options in runtime_env", Op::kAbsent, std::monostate{},
                 NoneOr(std::move(options)), "", kObserved}});
}

void JudgeImage(const RayJob& job, const Subject& subject, Judge& judge) {
  const std::string& uri = job.runtime_env.image_uri;
  judge.Decide(kImage.id, subject,
               {{"image in runtime_env", Op::kAbsent, std::monostate{},
                 uri.empty() ? AssertedValue{} : AssertedValue{uri}, "", kObserved}});
}

void JudgeEnvironment(const RayJob& job, const Subject& subject, Judge& judge) {
  const RuntimeEnv& env = job.runtime_env;
  List swaps;
  if (StartsUv(env.py_executable)) {
    swaps.push_back("py_executable: " + WithoutCredentials(env.py_executable));
  }
  if (StartsUv(job.entrypoint)) {
    swaps.emplace_back("entrypoint: uv run");
  }
  for (const std::string_view command : {"pip install", "conda install", "uv sync"}) {
    if (job.entrypoint.find(command) != std::string::npos) {
      swaps.push_back("entrypoint: " + std::string(command));
    }
  }
  if (!env.conda_env.empty()) {
    swaps.push_back("conda environment " + env.conda_env);
  }
  if (std::any_of(env.packages.begin(), env.packages.end(), FromConda)) {
    swaps.emplace_back("a conda environment made for the job");
  }
  Finding& finding = judge.Decide(kEnvironment.id, subject,
                                  {{"environments that replace the image's", Op::kAbsent,
                                    std::monostate{}, NoneOr(std::move(swaps)), "", kObserved}});
  if (!env.py_executable.empty() && !StartsUv(env.py_executable)) {
    finding.notes.push_back("py_executable is " + WithoutCredentials(env.py_executable));
  }
  // Each of these decides which libraries a process loads.
  for (const char* name : {"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONPATH"}) {
    if (env.env_vars.count(name) > 0) {
      finding.notes.push_back(std::string("env_vars sets ") + name +
                              ", which decides what the job's processes load");
    }
  }
}

/// The policy's author may write "Flash_Attn".
JobPackagesPolicy WithNormalNames(JobPackagesPolicy policy) {
  std::map<std::string, std::string> normal;
  for (auto& [name, version] : policy.image_packages) {
    normal.emplace(NormalizePackageName(name), std::move(version));
  }
  policy.image_packages = std::move(normal);
  return policy;
}

void JudgeJob(const RayJob& job, const JobPackagesPolicy& policy, Judge& judge) {
  const Subject subject{"job", job.submission_id};
  JudgeProtected(job, subject, policy, judge);
  JudgeOverrides(job, subject, policy, judge);
  JudgeSource(job, subject, judge);
  JudgeImage(job, subject, judge);
  JudgeEnvironment(job, subject, judge);
}

/// Jobs that the dashboard told of are judged there: an object that made one is the same job.
void JudgeJobObjects(const RayFacts& ray, const JobPackagesPolicy& policy, Judge& judge) {
  if (!ray.job_objects) {
    return;
  }
  const auto* objects = ray.job_objects->get();
  if (objects == nullptr) {
    for (const Rule& rule : kRules) {
      judge.Unseen(rule.id, {"cluster", "RayJob objects"}, "the RayJob objects", *ray.job_objects);
    }
    return;
  }
  const auto told = [&](const RayJob& object) {
    const auto* jobs = ray.jobs.get();
    return jobs != nullptr && std::any_of(jobs->begin(), jobs->end(), [&](const RayJob& job) {
             return job.submission_id == object.submission_id;
           });
  };
  for (const RayJob& object : *objects) {
    if (!told(object)) {
      JudgeJob(object, policy, judge);
    }
  }
}

std::vector<Finding> JudgeJobPackages(const Observations& o, const Policy& policy) {
  Judge judge(kJobPackages, policy);
  const Subject all{"cluster", "Ray jobs"};
  for (const Rule& rule : kRules) {
    if (!o.ray.jobs.seen()) {
      judge.Unseen(rule.id, all, "the Ray jobs", o.ray.jobs);
    } else if (o.ray.jobs.value().empty()) {
      judge.NotApplicable(rule.id, all, "no job was submitted or described: nothing is added");
    }
  }
  const JobPackagesPolicy packages = WithNormalNames(policy.job_packages);
  if (const auto* jobs = o.ray.jobs.get()) {
    for (const RayJob& job : *jobs) {
      JudgeJob(job, packages, judge);
    }
  }
  JudgeJobObjects(o.ray, packages, judge);
  return judge.Take();
}

}  // namespace

constinit const Check kJobPackages{
    "job-packages",
    Stage::kImage,
    false,
    "jobs add to the image and do not replace what it promises",
    "pip, uv and conda packages, installer options, py_executable and image of every Ray job's "
    "runtime_env against the policy's protected names and the packages of the image",
    kRules,
    JudgeJobPackages,
};

}  // namespace dlc

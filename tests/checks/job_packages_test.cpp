#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/checks/image_fixture.h"

namespace dlc {
namespace {

using namespace fixture;  // NOLINT(google-build-using-namespace): the test's own vocabulary

const std::string kProtected = "job-packages/protected-package";
const std::string kOverrides = "job-packages/overrides-image-package";
const std::string kSource = "job-packages/package-source-changed";
const std::string kImage = "job-packages/image-replaced";
const std::string kEnvironment = "job-packages/environment-replaced";

std::vector<Finding> Judged(const Observations& o, const Policy& p) {
  auto findings = JudgeWith("job-packages", o, p);
  CheckShape(findings);
  return findings;
}

Policy WithImagePackages() {
  Policy p;
  p.job_packages.image_packages = {
      {"Transformers", "5.13.0"}, {"torch", "2.13.0+cu130"}, {"accelerate", "1.0.1"}};
  return p;
}

RequestedPackage Package(const std::string& installer, const std::string& name,
                         const std::string& specifier) {
  return {installer, name + specifier, name, specifier, false};
}

RequestedPackage Option(const std::string& text) {
  return {"pip", text, "", "", true};
}

Observations Job(const std::vector<RequestedPackage>& packages) {
  RayJob job;
  job.submission_id = "raysubmit_1";
  job.entrypoint = "python train.py";
  job.runtime_env.packages = packages;
  Observations o;
  o.ray.jobs = std::vector<RayJob>{job};
  return o;
}

RayJob& First(Observations& o) {
  return o.ray.jobs.value()[0];
}

TEST_CASE("job-packages: another torch or NCCL fails whoever installs it (HX-04)") {
  for (const char* installer : {"pip", "uv", "conda-pip", "conda"}) {
    CAPTURE(installer);
    const auto f = Judged(
        Job({Package(installer, "torch", "==2.9.0"), Package(installer, "nvidia-nccl-cu13", "")}),
        WithImagePackages());
    const Finding finding = Only(f, kProtected);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.severity == Severity::kRequired);
    CHECK(finding.actual == "torch==2.9.0, nvidia-nccl-cu13");
    CHECK(finding.subject == Subject{"job", "raysubmit_1"});
    CHECK(Notes(finding, "the image holds 2.13.0+cu130"));
    CHECK(Aggregate(f, false) == Outcome::kFailed);
  }
}

TEST_CASE("job-packages: names are compared as PEP 503 says (HX-04)") {
  for (const char* name :
       {"Torch", "nvidia_nccl_cu13", "NVIDIA.NCCL__cu13", "flash_attn", "Transformer.Engine"}) {
    CAPTURE(name);
    CHECK(Only(Judged(Job({Package("pip", name, "")}), {}), kProtected).verdict == Verdict::kFail);
  }
  // A prefix stands only where the policy has a *.
  for (const char* name : {"torchmetrics", "ray-haystack", "nvidia", "torch2"}) {
    CAPTURE(name);
    CHECK(Only(Judged(Job({Package("pip", name, "")}), {}), kProtected).verdict == Verdict::kPass);
  }
}

TEST_CASE("job-packages: an addition passes with a note, an allowed one without (HX-04)") {
  Policy p = WithImagePackages();
  auto f = Judged(Job({Package("pip", "requests", "")}), p);
  for (const Finding& finding : f) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict == Verdict::kPass);
  }
  CHECK(Notes(Only(f, kProtected), "adds requests"));
  p.job_packages.allowed = {"Requests"};
  CHECK(Only(Judged(Job({Package("pip", "requests", "")}), p), kProtected).notes.empty());
}

TEST_CASE("job-packages: a job without runtime_env passes, and no job is not applicable (HX-04)") {
  for (const Finding& finding : Judged(Job({}), WithImagePackages())) {
    CHECK(finding.verdict == Verdict::kPass);
  }
  Observations o;
  o.ray.jobs = std::vector<RayJob>{};
  for (const Finding& finding : Judged(o, WithImagePackages())) {
    CHECK(finding.verdict == Verdict::kNotApplicable);
  }
}

TEST_CASE("job-packages: jobs unseen are unknown") {
  Observations o;
  o.ray.jobs = Error{ErrorCode::kPermissionDenied, "401 from the dashboard", ""};
  for (const Finding& finding : Judged(o, WithImagePackages())) {
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(finding.reason.code == "permission-denied");
  }
  CHECK(Only(Judged({}, {}), kProtected).reason.code == "not-looked-at");
}

TEST_CASE("job-packages: the AWS sample's transformers over the image's is a warning with both") {
  const auto f = Judged(Job({Package("pip", "transformers", "==4.46.3")}), WithImagePackages());
  const Finding finding = Only(f, kOverrides);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.expected == "transformers of the job 5.13.0");
  CHECK(finding.actual == "4.46.3");
  CHECK(finding.reason.message == "the job replaces transformers 5.13.0 by transformers==4.46.3");
  CHECK(Only(f, kProtected).verdict == Verdict::kPass);
  CHECK(Aggregate(f, false) == Outcome::kPassed);
}

TEST_CASE("job-packages: a request that the image's version satisfies is no override") {
  for (const char* specifier : {"", "==5.13.0", ">=4,<6", "~=5.13"}) {
    CAPTURE(specifier);
    const auto f = Judged(Job({Package("pip", "transformers", specifier)}), WithImagePackages());
    CHECK(Only(f, kOverrides).verdict == Verdict::kPass);
    CHECK(Notes(Only(f, kOverrides), "may be satisfied already"));
  }
  for (const char* specifier : {">5.13.0", "<5.13.0", "!=5.13.0", "===5.13"}) {
    CAPTURE(specifier);
    const auto f = Judged(Job({Package("pip", "transformers", specifier)}), WithImagePackages());
    CHECK(Only(f, kOverrides).verdict == Verdict::kFail);
  }
  CHECK(Only(Judged(Job({Package("pip", "transformers", "nonsense")}), WithImagePackages()),
             kOverrides)
            .verdict == Verdict::kUnknown);
  // A URL is installed whatever is there; conda makes its own copy.
  RequestedPackage url{"pip", "transformers @ https://h.example/t.whl", "transformers", "", false};
  CHECK(Only(Judged(Job({url}), WithImagePackages()), kOverrides).verdict == Verdict::kFail);
  for (const char* specifier : {"=5.13.0", "==5.13.0"}) {
    const auto conda = Job({Package("conda", "transformers", specifier)});
    CHECK(Only(Judged(conda, WithImagePackages()), kOverrides).verdict == Verdict::kFail);
  }
}

TEST_CASE("job-packages: a protected package that the image satisfies still fails, and says so") {
  const auto f = Judged(Job({Package("pip", "torch", "==2.13.0")}), WithImagePackages());
  CHECK(Only(f, kProtected).verdict == Verdict::kFail);
  CHECK(Notes(Only(f, kProtected), "satisfies the request"));
}

TEST_CASE("job-packages: without image_packages an override cannot be told from an addition") {
  const auto f = Judged(Job({Package("pip", "transformers", "==4.46.3")}), {});
  CHECK(Only(f, kOverrides).verdict == Verdict::kUnknown);
  CHECK(Only(f, kOverrides).severity == Severity::kWarn);
}

TEST_CASE("job-packages: another index is a warning, and its password is not shown (HX-04)") {
  const auto f = Judged(Job({Option("--extra-index-url https://me:s3cret@pypi.example/simple"),
                             Package("pip", "requests", "")}),
                        WithImagePackages());
  const Finding finding = Only(f, kSource);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.actual == "--extra-index-url https://***@pypi.example/simple");
  CHECK(Only(f, kProtected).verdict == Verdict::kPass);
}

TEST_CASE("job-packages: what a request does not show is unknown, not a pass") {
  const RequestedPackage source{"pip", "git+https://t:s3cret@h.example/x.git", "", "", false};
  for (const RequestedPackage& package :
       {Option("-r requirements.txt"), Option("--requirement=r.txt"), Option("-e ."), source}) {
    CAPTURE(package.text);
    const auto f = Judged(Job({package}), WithImagePackages());
    CHECK(Only(f, kProtected).verdict == Verdict::kUnknown);
    CHECK_FALSE(Has(Only(f, kProtected).reason.message, "s3cret"));
    CHECK(Aggregate(f, false) == Outcome::kIncomplete);
  }
  // Beside a protected package the failure stands.
  CHECK(Only(Judged(Job({source, Package("pip", "torch", "")}), {}), kProtected).verdict ==
        Verdict::kFail);
}

TEST_CASE("job-packages: a wheel's file name and #egg= tell the package") {
  for (const char* text : {"https://h.example/whl/torch-2.9.0%2Bcu128-cp313-cp313-linux_x86_64.whl",
                           "./wheels/nvidia_nccl_cu13-2.30-py3-none-any.whl",
                           "git+https://h.example/x.git#egg=Flash_Attn"}) {
    CAPTURE(text);
    const RequestedPackage package{"pip", text, "", "", false};
    CHECK(Only(Judged(Job({package}), {}), kProtected).verdict == Verdict::kFail);
  }
}

TEST_CASE("job-packages: a job with an image of its own fails") {
  Observations o = Job({});
  First(o).runtime_env.image_uri = "r.example/other:1";
  const auto f = Judged(o, {});
  CHECK(Only(f, kImage).verdict == Verdict::kFail);
  CHECK(Only(f, kImage).severity == Severity::kRequired);
  CHECK(Only(f, kImage).actual == "r.example/other:1");
}

TEST_CASE("job-packages: uv run, conda and installs in the entrypoint replace the environment") {
  struct Row {
    const char* py_executable;
    const char* entrypoint;
    const char* conda_env;
    Verdict packages;  // what they install was seen or not
  };
  const Row rows[] = {
      {"uv run --with x", "python t.py", "", Verdict::kUnknown},
      {"", "uv run t.py", "", Verdict::kUnknown},
      {"", "python t.py", "mine", Verdict::kUnknown},
      {"", "pip install x && python t.py", "", Verdict::kPass},
  };
  for (const Row& row : rows) {
    Observations o = Job({});
    First(o).runtime_env.py_executable = row.py_executable;
    First(o).runtime_env.conda_env = row.conda_env;
    First(o).entrypoint = row.entrypoint;
    const auto f = Judged(o, {});
    CHECK(Only(f, kEnvironment).verdict == Verdict::kFail);
    CHECK(Only(f, kEnvironment).severity == Severity::kWarn);
    CHECK(Only(f, kProtected).verdict == row.packages);
  }
  CHECK(Only(Judged(Job({Package("conda", "python-dateutil", "")}), {}), kEnvironment).verdict ==
        Verdict::kFail);
  Observations o = Job({});
  First(o).runtime_env.py_executable = "/opt/venv/bin/python";
  First(o).runtime_env.env_vars = {{"LD_LIBRARY_PATH", "/x"}};
  const Finding finding = Only(Judged(o, {}), kEnvironment);
  CHECK(finding.verdict == Verdict::kPass);
  CHECK(Notes(finding, "LD_LIBRARY_PATH"));
}

TEST_CASE("job-packages: every job is judged") {
  Observations o = Job({});
  RayJob second = First(o);
  second.submission_id = "raysubmit_2";
  second.runtime_env.packages = {Package("pip", "torch", "")};
  o.ray.jobs.value().push_back(second);
  const auto f = Judged(o, {});
  CHECK(About(f, kProtected, "raysubmit_1").verdict == Verdict::kPass);
  CHECK(About(f, kProtected, "raysubmit_2").verdict == Verdict::kFail);
}

TEST_CASE("job-packages: RayJob objects are judged, and stand for no other job") {
  Observations o = Job({Package("pip", "torch", "")});
  o.ray.job_objects = std::move(o.ray.jobs);
  o.ray.jobs = NotLookedAt{"no dashboard", ""};
  const auto f = Judged(o, {});
  CHECK(About(f, kProtected, "raysubmit_1").verdict == Verdict::kFail);
  CHECK(About(f, kProtected, "Ray jobs").verdict == Verdict::kUnknown);

  // The dashboard's word on the same job is the one that counts.
  o.ray.jobs = o.ray.job_objects->value();
  o.ray.jobs.value()[0].runtime_env.packages.clear();
  CHECK(About(Judged(o, {}), kProtected, "raysubmit_1").verdict == Verdict::kPass);
}

TEST_CASE("job-packages: RayJob objects that may not be listed are unknown") {
  Observations o = Job({});
  o.ray.job_objects = Observed<std::vector<RayJob>>(NotLookedAt{"needs list on rayjobs", ""});
  const auto f = Judged(o, {});
  CHECK(About(f, kProtected, "raysubmit_1").verdict == Verdict::kPass);
  const Finding& objects = About(f, kProtected, "RayJob objects");
  CHECK(objects.verdict == Verdict::kUnknown);
  CHECK(objects.reason.message.find("needs list on rayjobs") != std::string::npos);
}

}  // namespace
}  // namespace dlc

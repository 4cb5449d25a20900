#include "probes/control/ray_ranks/ray_jobs.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "probes/control/process/run_process.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kRequest{60};
constexpr std::chrono::milliseconds kSubmitAgain{1'000};
constexpr std::size_t kMaxAnswerBytes = 4U << 20U;
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 30U;
constexpr std::size_t kMessageChars = 600;
constexpr std::size_t kSaidChars = 300;

std::string PackagePath(const std::string& name) {
  return "/api/packages/gcs/" + name;
}

std::string JobPath(const std::string& submission_id, const char* more = "") {
  return "/api/jobs/" + submission_id + more;
}

Error NoAnswer(const std::string& path) {
  return {ErrorCode::kUnavailable, "Ray's answer for " + path + " has another form than expected",
          ""};
}

/// The dashboard's failures are Python tracebacks, of which the end tells most.
std::string EndOf(const std::string& text) {
  return OneLine(text.size() > kSaidChars ? text.substr(text.size() - kSaidChars) : text,
                 kSaidChars);
}

}  // namespace

bool RayJobState::Ended() const {
  return status == "SUCCEEDED" || status == "FAILED" || status == "STOPPED";
}

Result<HttpResponse> RayJobs::Send(RayRequest request, Deadline deadline) {
  const std::string path = request.path;
  auto response = client_->Send(std::move(request), deadline);
  if (response && response->status != 200 && response->status != 404) {
    Error error = client_->Explain(*response, path);
    if (response->status == 500) {
      error.message += ", at its end: " + EndOf(response->body);
    }
    return error;
  }
  return response;
}

Result<bool> RayJobs::HasPackage(const std::string& name, Deadline deadline) {
  RayRequest request;
  request.path = PackagePath(name);
  auto response = Send(std::move(request), deadline.Within(kRequest));
  if (!response) {
    return std::move(response).error();
  }
  return response->status == 200;
}

Result<void> RayJobs::PutPackage(const std::string& name, const std::string& bytes,
                                 Deadline deadline) {
  RayRequest request;
  request.path = PackagePath(name);
  request.method = HttpMethod::kPut;
  request.body = bytes;
  request.content_type = "application/octet-stream";
  auto response = Send(std::move(request), deadline);
  if (!response) {
    return std::move(response).error();
  }
  return response->status == 200 ? Result<void>() : client_->Explain(*response, PackagePath(name));
}

Result<void> RayJobs::Submit(const RayJobRequest& job, Deadline deadline) {
  RayRequest request;
  request.path = "/api/jobs/";
  request.method = HttpMethod::kPost;
  request.body = Json{{"entrypoint", job.entrypoint},
                      {"submission_id", job.submission_id},
                      {"runtime_env", {{"working_dir", "gcs://" + job.package}}},
                      {"metadata", {{"dlc-check", job.run_id}}}}
                     .dump();
  while (true) {
    const auto response = Send(request, deadline.Within(kRequest));
    if (response && response->status == 200) {
      return {};
    }
    Error error = response ? client_->Explain(*response, request.path) : response.error();
    // An answer that was lost may have been a yes.
    const auto state = State(job.submission_id, deadline);
    if (state && *state) {
      return {};
    }
    if (error.code != ErrorCode::kUnavailable && error.code != ErrorCode::kTimedOut) {
      return error;
    }
    if (deadline.Remaining() <= kSubmitAgain) {
      error.message = "the job was not taken: " + error.message;
      return error;
    }
    std::this_thread::sleep_for(kSubmitAgain);
  }
}

Result<std::optional<RayJobState>> RayJobs::State(const std::string& submission_id,
                                                  Deadline deadline) {
  RayRequest request;
  request.path = JobPath(submission_id);
  request.max_body_bytes = kMaxAnswerBytes;
  auto response = Send(std::move(request), deadline.Within(kRequest));
  if (!response) {
    return std::move(response).error();
  }
  if (response->status == 404) {
    return std::optional<RayJobState>();
  }
  const auto answer = Json::parse(response->body, nullptr, false);
  if (!answer.is_object() || !answer.contains("status") || !answer["status"].is_string()) {
    return NoAnswer(JobPath(submission_id));
  }
  RayJobState state{answer["status"].get<std::string>(), ""};
  if (answer.contains("message") && answer["message"].is_string()) {
    state.message = OneLine(answer["message"].get<std::string>(), kMessageChars);
  }
  return std::optional(std::move(state));
}

Result<std::string> RayJobs::Log(const std::string& submission_id, Deadline deadline) {
  RayRequest request;
  request.path = JobPath(submission_id, "/logs");
  request.max_body_bytes = kMaxLogBytes;
  auto response = Send(std::move(request), deadline.Within(kRequest));
  if (!response) {
    return std::move(response).error();
  }
  if (response->status != 200) {
    return client_->Explain(*response, JobPath(submission_id, "/logs"));
  }
  auto answer = Json::parse(response->body, nullptr, false);
  if (!answer.is_object() || !answer.contains("logs") ||
      !(answer["logs"].is_string() || answer["logs"].is_null())) {
    return NoAnswer(JobPath(submission_id, "/logs"));
  }
  return answer["logs"].is_null() ? std::string()
                                  : std::move(answer["logs"].get_ref<std::string&>());
}

Result<void> RayJobs::Stop(const std::string& submission_id, Deadline deadline) {
  RayRequest request;
  request.path = JobPath(submission_id, "/stop");
  request.method = HttpMethod::kPost;
  const auto response = Send(std::move(request), deadline.Within(kRequest));
  return response ? Result<void>() : response.error();
}

Result<void> RayJobs::Delete(const std::string& submission_id, Deadline deadline) {
  RayRequest request;
  request.path = JobPath(submission_id);
  request.method = HttpMethod::kDelete;
  const auto response = Send(std::move(request), deadline.Within(kRequest));
  return response ? Result<void>() : response.error();
}

}  // namespace dlc

#include "probes/control/ray_ranks/resource_holders.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "probes/control/process/run_process.h"

namespace dlc {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxBytes = 64U << 20U;
constexpr std::size_t kNameChars = 80;
constexpr std::size_t kMostHolders = 5;

std::string TextOf(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? OneLine(it->get<std::string>(), kNameChars) : "";
}

double AmountIn(const Json& object, const char* key, const std::string& resource) {
  const auto all = object.find(key);
  if (all == object.end() || !all->is_object()) {
    return 0;
  }
  const auto amount = all->find(resource);
  return amount != all->end() && amount->is_number() ? amount->get<double>() : 0;
}

std::string NumberText(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

/// The list of an answer of the state API.
std::optional<Json> ListOf(RayClient& client, const std::string& kind, const std::string& state,
                           Deadline deadline) {
  const std::string path = "/api/v0/" + kind +
                           "?detail=1&limit=10000&filter_keys=state&filter_predicates=%3D"
                           "&filter_values=" +
                           state;
  const auto body = client.GetJson(path, kMaxBytes, deadline);
  const Json answer = body ? Json::parse(*body, nullptr, false) : Json();
  const Json::json_pointer place("/data/result/result");
  if (!answer.is_object() || !answer.contains(place) || !answer[place].is_array()) {
    return std::nullopt;
  }
  return answer[place];
}

/// Submission ids by Ray's own job ids.
std::map<std::string, std::string> Submissions(RayClient& client, Deadline deadline) {
  std::map<std::string, std::string> names;
  const auto body = client.GetJson("/api/jobs/", kMaxBytes, deadline);
  const Json jobs = body ? Json::parse(*body, nullptr, false) : Json();
  for (const Json& job : jobs.is_array() ? jobs : Json::array()) {
    if (job.is_object() && !TextOf(job, "job_id").empty()) {
      names[TextOf(job, "job_id")] = TextOf(job, "submission_id");
    }
  }
  return names;
}

class Holders {
 public:
  Holders(std::string resource, std::string own, std::map<std::string, std::string> jobs)
      : resource_(std::move(resource)), own_(std::move(own)), jobs_(std::move(jobs)) {}

  void AddGroups(const Json& groups) {
    for (const Json& group : groups) {
      double amount = 0;
      const auto bundles = group.find("bundles");
      for (const Json& bundle :
           bundles != group.end() && bundles->is_array() ? *bundles : Json::array()) {
        amount += AmountIn(bundle, "unit_resources", resource_);
      }
      const std::string name = TextOf(group, "name");
      Add(name.empty() ? "a placement group" : "placement group '" + name + "'",
          TextOf(group, "creator_job_id"), amount);
    }
  }
  /// Those in a placement group hold what that holds.
  void AddActors(const Json& actors) {
    for (const Json& actor : actors) {
      if (TextOf(actor, "placement_group_id").empty()) {
        const std::string name = TextOf(actor, "name");
        Add("actor " + (name.empty() ? TextOf(actor, "class_name") : "'" + name + "'"),
            TextOf(actor, "job_id"), AmountIn(actor, "required_resources", resource_));
      }
    }
  }
  void AddTasks(const Json& tasks) {
    for (const Json& task : tasks) {
      if (TextOf(task, "placement_group_id").empty() && TextOf(task, "type") == "NORMAL_TASK") {
        Add("task " + TextOf(task, "name"), TextOf(task, "job_id"),
            AmountIn(task, "required_resources", resource_));
      }
    }
  }

  std::string Text() const {
    std::string text;
    std::size_t told = 0;
    for (const auto& [who, amount] : held_) {
      if (told++ == kMostHolders) {
        return text + "; and " + std::to_string(held_.size() - kMostHolders) + " more";
      }
      text += (text.empty() ? "" : "; ") + who + ": " + NumberText(amount);
    }
    return text;
  }

 private:
  void Add(const std::string& what, const std::string& job, double amount) {
    const auto name = jobs_.find(job);
    const std::string who = name == jobs_.end() || name->second.empty() ? job : name->second;
    if (amount > 0 && who != own_) {
      held_[what + " of job " + who] += amount;
    }
  }

  std::string resource_;
  std::string own_;
  std::map<std::string, std::string> jobs_;
  std::map<std::string, double> held_;
};

}  // namespace

std::string WhoHolds(RayClient& client, const std::string& resource, const std::string& own,
                     Deadline deadline) {
  Holders holders(resource, own, Submissions(client, deadline));
  bool all = true;
  const auto add = [&](const char* kind, const char* state, void (Holders::*take)(const Json&)) {
    if (const auto list = ListOf(client, kind, state, deadline)) {
      (holders.*take)(*list);
    } else {
      all = false;
    }
  };
  add("placement_groups", "CREATED", &Holders::AddGroups);
  add("actors", "ALIVE", &Holders::AddActors);
  add("tasks", "RUNNING", &Holders::AddTasks);
  std::string text = holders.Text();
  if (text.empty()) {
    text = "nobody that Ray's state API names";
  }
  return all ? text : text + " (not all of that API answered)";
}

}  // namespace dlc

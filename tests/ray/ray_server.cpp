#include "tests/ray/ray_server.h"

#include <doctest/doctest.h>

#include <utility>

#include "probes/input/read_file.h"

namespace dlc {

std::string JsonAnswer(const std::string& body) {
  return HttpAnswer(200, body, "Content-Type: application/json; charset=utf-8\r\n");
}

RayAnswers RecordedRay(const std::string& version, const std::string& prefix) {
  const std::pair<const char*, const char*> files[] = {{kModePath, "authentication_mode"},
                                                       {kVersionPath, "version"},
                                                       {kNodesPath, "nodes"},
                                                       {kJobsPath, "jobs"}};
  RayAnswers answers;
  for (const auto& [path, name] : files) {
    const auto bytes = ReadFileBytes(
        std::string(DLC_TESTDATA) + "/ray/" + version + "/" + name + ".json", 1U << 20U);
    if (bytes) {
      answers[prefix + path] = JsonAnswer(*bytes);
    }
  }
  REQUIRE(answers.size() >= 3);
  return answers;
}

std::string PathOfRequest(const std::string& request) {
  const auto start = request.find(' ') + 1;
  const std::string target = request.substr(start, request.find(' ', start) - start);
  return target.substr(0, target.find('?'));
}

ScriptedServer::Answer AnswerFrom(RayAnswers answers) {
  return [all = std::move(answers)](const std::string& request) {
    const auto it = all.find(PathOfRequest(request));
    return it == all.end()
               ? HttpAnswer(404, "404: Not Found", "Content-Type: text/plain; charset=utf-8\r\n")
               : it->second;
  };
}

RayLook WholeLook(const std::string& token) {
  RayLook look;
  look.questions = {true, true, true};
  look.token.token = token;
  return look;
}

RayFacts LookAt(const std::string& address, const RayLook& look) {
  const auto url = ParseUrl(address);
  REQUIRE(url.has_value());
  RayFacts facts;
  const auto quiet = [](const std::string&) {};
  ObserveRayAt(*url, look, Deadline::After(std::chrono::seconds(30)), {quiet, quiet}, facts);
  return facts;
}

}  // namespace dlc

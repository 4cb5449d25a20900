#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "probes/control/http/http_client.h"
#include "tests/http/scripted_server.h"

namespace dlc {
namespace {

HttpRequest RequestTo(const std::string& url) {
  auto parsed = ParseUrl(url);
  REQUIRE(parsed.has_value());
  HttpRequest request;
  request.url = *parsed;
  return request;
}

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(20));
}

HttpRequest WithSecrets(HttpRequest request) {
  request.authorization = "Bearer s3cret";
  request.secret_headers = {"X-Ray-Authorization: Bearer r4y"};
  return request;
}

TEST_CASE("http methods: the body arrives with its type") {
  const ScriptedServer server([](const std::string&) { return HttpAnswer(201, "made"); });
  HttpClient client(HttpSettings{});
  HttpRequest request = RequestTo(server.Url("/jobs"));
  request.method = HttpMethod::kPost;
  request.content_type = "application/json";
  request.body = R"({"a":1})";
  const auto response = client.Send(request, Soon());
  REQUIRE(response.has_value());
  CHECK(response->status == 201);
  CHECK(response->body == "made");
  request.method = HttpMethod::kPut;
  REQUIRE(client.Send(request, Soon()).has_value());
  request.method = HttpMethod::kDelete;
  request.body.clear();
  REQUIRE(client.Send(request, Soon()).has_value());
  const auto seen = server.Requests();
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].starts_with("POST /jobs HTTP/1.1\r\n"));
  CHECK(seen[0].find("Content-Type: application/json\r\n") != std::string::npos);
  CHECK(seen[0].ends_with("\r\n\r\n{\"a\":1}"));
  CHECK(seen[1].starts_with("PUT /jobs HTTP/1.1\r\n"));
  CHECK(seen[1].ends_with("{\"a\":1}"));
  CHECK(seen[2].starts_with("DELETE /jobs HTTP/1.1\r\n"));
}

TEST_CASE("http methods: a POST that may not arrive twice is sent once") {
  const ScriptedServer server([](const std::string&) { return HttpAnswer(503, ""); });
  HttpClient client(HttpSettings{});
  HttpRequest request = RequestTo(server.Url());
  request.method = HttpMethod::kPost;
  const auto once = client.Send(request, Soon());
  REQUIRE(once.has_value());
  CHECK(once->status == 503);
  CHECK(server.Requests().size() == 1);
  request.repeatable_post = true;
  const auto again = client.Send(request, Deadline::After(std::chrono::seconds(2)));
  REQUIRE(again.has_value());
  CHECK(again->attempts > 1);
}

TEST_CASE("http credentials: they do not follow a redirect to another origin") {
  const ScriptedServer other([](const std::string&) { return HttpAnswer(200, "elsewhere"); });
  const ScriptedServer server([&](const std::string&) {
    return HttpAnswer(307, "", "Location: " + other.Url("/stolen") + "\r\n");
  });
  HttpClient client(HttpSettings{});
  const auto followed = client.Send(WithSecrets(RequestTo(server.Url())), Soon());
  REQUIRE(followed.has_value());
  CHECK(followed->body == "elsewhere");
  REQUIRE(server.Requests().size() == 1);
  CHECK(server.Requests()[0].find("Bearer s3cret") != std::string::npos);
  CHECK(server.Requests()[0].find("Bearer r4y") != std::string::npos);
  REQUIRE(other.Requests().size() == 1);
  CHECK(other.Requests()[0].find("s3cret") == std::string::npos);
  CHECK(other.Requests()[0].find("r4y") == std::string::npos);
}

TEST_CASE("http credentials: a redirect to another origin can be refused") {
  const ScriptedServer other([](const std::string&) { return HttpAnswer(200, "elsewhere"); });
  const ScriptedServer server(
      [&](const std::string&) { return HttpAnswer(302, "", "Location: " + other.Url() + "\r\n"); });
  HttpClient client(HttpSettings{});
  HttpRequest request = WithSecrets(RequestTo(server.Url()));
  request.stay_on_origin = true;
  const auto response = client.Send(request, Soon());
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().message.find("to another host (127.0.0.1:" + std::to_string(other.Port()) +
                                      ")") != std::string::npos);
  CHECK(other.Requests().empty());
}

TEST_CASE("http credentials: none over plain http beyond loopback") {
  HttpSettings settings;
  settings.allow_plain_http = true;
  settings.log = [](const std::string& line) { FAIL_CHECK(line); };  // a request was made
  HttpClient client(settings);
  HttpRequest bare = RequestTo("http://192.0.2.1/");
  std::vector<HttpRequest> requests(3, bare);
  requests[0].authorization = "Bearer s3cret";
  requests[1].secret_headers = {"X-Ray-Authorization: Bearer s3cret"};
  requests[2].identity = {"cert", "key"};
  for (const HttpRequest& request : requests) {
    const auto response = client.Send(request, Soon());
    REQUIRE_FALSE(response.has_value());
    CHECK(response.error().code == ErrorCode::kUnsupported);
    CHECK(response.error().message.find("credential") != std::string::npos);
    CHECK(response.error().message.find("s3cret") == std::string::npos);
  }
}

TEST_CASE("http proxy: a given one is asked, whatever the environment says") {
  const ScriptedServer proxy([](const std::string&) { return HttpAnswer(200, "from the proxy"); });
  HttpSettings settings;
  settings.allow_plain_http = true;
  settings.proxy = proxy.Url("");
  HttpClient client(settings);
  const auto response = client.Send(RequestTo("http://dashboard.invalid/api"), Soon());
  REQUIRE(response.has_value());
  CHECK(response->body == "from the proxy");
  CHECK(proxy.Requests()[0].starts_with("GET http://dashboard.invalid/api HTTP/1.1\r\n"));
}

TEST_CASE("http streaming: pieces go to the reader, failures to the answer") {
  const std::string long_body(300'000, 'x');
  const ScriptedServer server([&](const std::string& request) {
    return request.starts_with("GET /bad") ? HttpAnswer(403, "no") : HttpAnswer(200, long_body);
  });
  HttpClient client(HttpSettings{});
  std::string got;
  HttpRequest request = RequestTo(server.Url());
  request.on_body = [&](std::string_view piece) {
    got.append(piece);
    return true;
  };
  const auto whole = client.Send(request, Soon());
  REQUIRE(whole.has_value());
  CHECK(whole->body.empty());
  CHECK(got == long_body);

  got.clear();
  request.max_body_bytes = 100'000;
  const auto bounded = client.Send(request, Soon());
  REQUIRE_FALSE(bounded.has_value());
  CHECK(bounded.error().code == ErrorCode::kUnsupported);
  CHECK(got.size() <= 100'000);

  request.max_body_bytes = 1U << 20U;
  request.on_body = [](std::string_view) { return false; };
  const auto refused = client.Send(request, Soon());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInvalidInput);

  request.url = RequestTo(server.Url("/bad")).url;
  const auto failure = client.Send(request, Soon());
  REQUIRE(failure.has_value());
  CHECK(failure->body == "no");
}

TEST_CASE("http streaming: what broke after the first piece is not read twice") {
  const ScriptedServer server([](const std::string&) {
    return std::string("HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\nonly this");
  });
  HttpClient client(HttpSettings{});
  HttpRequest request = RequestTo(server.Url());
  std::string got;
  request.on_body = [&](std::string_view piece) {
    got.append(piece);
    return true;
  };
  CHECK_FALSE(client.Send(request, Soon()).has_value());
  CHECK(got == "only this");
  CHECK(server.Requests().size() == 1);
}

}  // namespace
}  // namespace dlc

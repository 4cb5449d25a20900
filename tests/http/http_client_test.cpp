#include "probes/control/http/http_client.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>

#include "probes/control/process/file_descriptor.h"

namespace dlc {
namespace {

Url Parsed(const std::string& text) {
  auto url = ParseUrl(text);
  REQUIRE(url.has_value());
  return *url;
}

HttpRequest Get(const std::string& url) {
  HttpRequest request;
  request.url = Parsed(url);
  return request;
}

TEST_CASE("url: an origin is scheme, host and port") {
  const Url base = Parsed("https://Registry.Example/v2/");
  CHECK(base.host == "registry.example");
  CHECK(base.port == 443);
  CHECK(SameOrigin(base, Parsed("https://registry.example:443/other?x")));
  CHECK_FALSE(SameOrigin(base, Parsed("http://registry.example/")));
  CHECK_FALSE(SameOrigin(base, Parsed("https://registry.example:444/")));
  CHECK_FALSE(SameOrigin(base, Parsed("https://registry.example.evil.com/")));
}

TEST_CASE("url: loopback is decided by the address, not by how it looks") {
  for (const char* text : {"http://127.0.0.1:5000", "http://127.9.9.9", "http://localhost:1",
                           "http://[::1]:5000/x", "http://127.1/", "http://0x7f.1"}) {
    CAPTURE(text);
    CHECK(IsLoopback(Parsed(text)));
  }
  for (const char* text : {"http://127.0.0.1.evil.com", "http://128.0.0.1", "http://[::2]",
                           "http://[2001:db8::1]", "http://localhost.evil.com", "http://0.0.0.0"}) {
    CAPTURE(text);
    CHECK_FALSE(IsLoopback(Parsed(text)));
  }
}

TEST_CASE("url: refuses other schemes, credentials inside and control characters") {
  for (const char* text : {"ftp://x/", "file:///etc/passwd", "https://u:p@x/", "https://u@x/", "",
                           "https://", "https://x/\r\nHost: y", "https://x /"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseUrl(text).has_value());
  }
}

TEST_CASE("url: redirects resolve against where they came from") {
  const Url base = Parsed("https://a/v2/x/blobs/y?q=1");
  CHECK(ResolveUrl(base, "/z?s=1")->text == "https://a/z?s=1");
  CHECK(ResolveUrl(base, "//b/z")->text == "https://b/z");
  CHECK(ResolveUrl(base, "z")->text == "https://a/v2/x/blobs/z");
  CHECK(ResolveUrl(base, "http://b:81/")->port == 81);
  CHECK_FALSE(ResolveUrl(base, "").has_value());
  CHECK_FALSE(ResolveUrl(base, "ftp://b/").has_value());
}

TEST_CASE("url: what is shown has no query, and a query is encoded") {
  CHECK(ShownUrl(Parsed("https://a/b?X-Amz-Signature=s#f")) == "https://a/b");
  const auto url = WithQuery(Parsed("https://a/t?x=1"), "scope", "repository:a/b:pull,push&c");
  REQUIRE(url.has_value());
  CHECK(url->text == "https://a/t?x=1&scope=repository%3aa%2fb%3apull%2cpush%26c");
}

TEST_CASE("http client: plain http beyond loopback is refused before any connection") {
  HttpClient client(HttpSettings{});
  const auto response =
      client.Send(Get("http://192.0.2.1/"), Deadline::After(std::chrono::seconds(5)));
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().code == ErrorCode::kUnsupported);
}

/// Accepts connections (in the kernel's backlog) and never answers.
struct SilentServer {
  FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port = 0;

  SilentServer() {
    // Else a proxy of the environment is asked.
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this test program has one thread
    setenv("no_proxy", "*", 1);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): how the sockets interface is
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(socket.Get(), generic, size) == 0);
    REQUIRE(listen(socket.Get(), 8) == 0);
    REQUIRE(getsockname(socket.Get(), generic, &size) == 0);
    port = ntohs(address.sin_port);
  }
  std::string Url() const { return "http://127.0.0.1:" + std::to_string(port) + "/"; }
};

TEST_CASE("http client: a set interrupt flag ends a transfer") {
  const SilentServer server;
  const std::atomic<bool> interrupted{true};
  HttpSettings settings;
  settings.interrupted = &interrupted;
  HttpClient client(settings);
  // Were the flag not looked at, the deadline would end it, with another code.
  const auto response = client.Send(Get(server.Url()), Deadline::After(std::chrono::seconds(20)));
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().code == ErrorCode::kInterrupted);
}

TEST_CASE("http client: a passed deadline sends nothing") {
  const SilentServer server;
  HttpClient client(HttpSettings{});
  const auto response =
      client.Send(Get(server.Url()), Deadline::After(std::chrono::milliseconds(0)));
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().code == ErrorCode::kTimedOut);
}

TEST_CASE("http client: silence in place of a TLS handshake is no TLS") {
  const SilentServer server;
  HttpClient client(HttpSettings{});
  const auto tls =
      client.SpeaksTls(Parsed("https://127.0.0.1:" + std::to_string(server.port) + "/"),
                       Deadline::After(std::chrono::milliseconds(300)));
  REQUIRE(tls.has_value());
  CHECK_FALSE(*tls);
}

}  // namespace
}  // namespace dlc

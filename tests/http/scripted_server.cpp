#include "tests/http/scripted_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace dlc {
namespace {

/// Head and, by Content-Length, body.
std::string ReadRequest(int connection) {
  std::string text;
  std::array<char, 4096> buffer{};
  std::size_t whole = std::string::npos;
  while (text.size() < whole) {
    const auto count = recv(connection, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
    const auto end = text.find("\r\n\r\n");
    if (whole == std::string::npos && end != std::string::npos) {
      const auto length = text.find("Content-Length: ");
      whole = end + 4 + (length < end ? std::stoul(text.substr(length + 16)) : 0);
    }
  }
  return text;
}

}  // namespace

std::string HttpAnswer(int status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n" +
         headers + "\r\n" + body;
}

ScriptedServer::ScriptedServer(Answer answer)
    : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  // Else a proxy of the environment is asked.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before this server's thread starts
  setenv("no_proxy", "*", 1);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): how the sockets interface is
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(socket_.Get(), generic, size) == 0);
  REQUIRE(listen(socket_.Get(), 8) == 0);
  REQUIRE(getsockname(socket_.Get(), generic, &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  shutdown(socket_.Get(), SHUT_RDWR);  // wakes accept
  thread_.join();
}

std::string ScriptedServer::Url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + path;
}

std::vector<std::string> ScriptedServer::Requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::Serve() {
  while (!stopping_) {
    const FileDescriptor connection(accept4(socket_.Get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.Get() < 0) {
      continue;
    }
    const std::string request = ReadRequest(connection.Get());
    if (request.empty()) {
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const std::string bytes = answer_(request);
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const auto count =
          send(connection.Get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) {
        break;
      }
      sent += static_cast<std::size_t>(count);
    }
  }
}

}  // namespace dlc

#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "probes/control/process/file_descriptor.h"

namespace dlc {

/// A plain HTTP server on a free loopback port, one connection at a time: it reads each request
/// whole, remembers it, and sends what `answer` makes of it, then hangs up.
class ScriptedServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string Url(const std::string& path = "/") const;
  int Port() const { return port_; }
  std::vector<std::string> Requests() const;

 private:
  void Serve();

  Answer answer_;
  FileDescriptor socket_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

/// "HTTP/1.1 200 OK" with that body and those header lines ("Name: value\r\n...").
std::string HttpAnswer(int status, const std::string& body, const std::string& headers = "");

}  // namespace dlc

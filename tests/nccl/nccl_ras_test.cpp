#include "probes/node/nccl/nccl_ras.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

constexpr std::chrono::milliseconds kPlenty{20'000};
constexpr std::chrono::milliseconds kShort{300};

/// A RAS for one client, after `silent` ones that it does not answer: to each line the next of
/// `answers`, and hangs up after the last.
class FakeRas {
 public:
  explicit FakeRas(std::vector<std::string> answers, bool hang_up = true, int silent = 0)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    REQUIRE(bind(listener_.get(), generic, length) == 0);
    REQUIRE(listen(listener_.get(), 8) == 0);
    REQUIRE(getsockname(listener_.get(), generic, &length) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answers = std::move(answers), hang_up, silent] {
      std::vector<UniqueFd> held;
      for (int i = 0; i < silent; ++i) {
        held.emplace_back(accept(listener_.get(), nullptr, nullptr));
      }
      Serve(answers, hang_up);
    });
  }
  ~FakeRas() { Lines(); }
  FakeRas(const FakeRas&) = delete;
  FakeRas& operator=(const FakeRas&) = delete;

  std::vector<NcclSetting> Setting(const std::string& host = "127.0.0.1") const {
    return {{"NCCL_RAS_ADDR", host + ":" + std::to_string(port_), "environment"}};
  }
  /// What the client said, once it has gone.
  const std::vector<std::string>& Lines() {
    if (thread_.joinable()) {
      shutdown(listener_.get(), SHUT_RDWR);  // for a client that never came
      thread_.join();
    }
    return lines_;
  }

 private:
  void Serve(const std::vector<std::string>& answers, bool hang_up) {
    UniqueFd client(accept(listener_.get(), nullptr, nullptr));
    std::string got;
    char byte = 0;
    while (client && read(client.get(), &byte, 1) == 1) {
      if (byte != '\n') {
        got += byte;
        continue;
      }
      lines_.push_back(std::exchange(got, ""));
      if (lines_.size() <= answers.size()) {
        const std::string& answer = answers[lines_.size() - 1];
        (void)send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
      if (hang_up && lines_.size() >= answers.size()) {
        return;
      }
    }
  }

  UniqueFd listener_;
  int port_ = 0;
  std::vector<std::string> lines_;
  std::thread thread_;
};

TEST_CASE("nccl ras: asked as NCCL's own client asks, and its JSON is kept") {
  FakeRas ras({"SERVER PROTOCOL 2\n", "OK\n", "OK\n", "{\"communicators\":\n []}\n"});
  const auto seen = AskNcclRas(22809, ras.Setting("localhost"), Deadline::After(kPlenty));
  REQUIRE(seen.seen());
  CHECK(seen.value() == "{\"communicators\":\n []}\n");
  REQUIRE(ras.Lines().size() == 4);
  CHECK(ras.Lines()[0] == "CLIENT PROTOCOL 2");
  CHECK(ras.Lines()[1].starts_with("TIMEOUT "));
  CHECK(ras.Lines()[2] == "SET FORMAT json");
  CHECK(ras.Lines()[3] == "VERBOSE STATUS");
}

TEST_CASE("nccl ras: a process that hangs and was chosen is not the last that is asked") {
  FakeRas ras({"SERVER PROTOCOL 2\n", "OK\n", "OK\n", "{}"}, true, 2);
  const auto seen = AskNcclRas(22809, ras.Setting(), Deadline::After(kPlenty));
  REQUIRE(seen.seen());
  CHECK(seen.value() == "{}");
}

TEST_CASE("nccl ras: of a long answer the first 64 KiB") {
  // Part of it comes with the line before: what is read does not end where the limit is.
  FakeRas ras({"SERVER PROTOCOL 2\n", "OK\n", "OK\n" + std::string(3 * kMostRasBytes, 'x'), ""});
  const auto seen = AskNcclRas(22809, ras.Setting(), Deadline::After(kPlenty));
  REQUIRE(seen.seen());
  CHECK(seen.value() == std::string(kMostRasBytes, 'x'));
}

TEST_CASE("nccl ras: what has no answer is an error that says so") {
  const auto error = [](FakeRas& ras, std::chrono::milliseconds patience = kPlenty) {
    const auto seen = AskNcclRas(22809, ras.Setting(), Deadline::After(patience));
    return seen.failed() ? seen.error().message.substr(seen.error().message.rfind(": ") + 2)
                         : "no error";
  };
  FakeRas refuses({"SERVER PROTOCOL 2\n", "OK\n", "ERROR: Unknown command SET FORMAT json\n"});
  CHECK(error(refuses) == "Unknown command SET FORMAT json' to 'SET FORMAT json'");
  FakeRas hangs_up({""});
  CHECK(error(hangs_up) == "it hung up at 'CLIENT PROTOCOL 2'");
  FakeRas no_answer({"SERVER PROTOCOL 2\n", "OK\n", "OK\n", ""});
  CHECK(error(no_answer) == "it hung up without an answer");
  FakeRas no_lines({std::string(5'000, 'x')});
  CHECK(error(no_lines) == "it does not answer in lines");
  FakeRas silent({"SERVER PROTOCOL 2\n"}, false);
  CHECK(error(silent, kShort) == "it did not answer in time");
  FakeRas no_greeting({}, true, 1);
  CHECK(error(no_greeting, kShort) == "it did not answer in time");
}

TEST_CASE("nccl ras: where nobody listens, or the address is none") {
  const auto ask = [](const std::string& address) {
    return AskNcclRas(22809, {{"NCCL_RAS_ADDR", address, "environment"}}, Deadline::After(kPlenty));
  };
  const std::string closed = [] {
    FakeRas gone({});
    return gone.Setting().front().value;
  }();
  CHECK(ask(closed).error().message == "NCCL's RAS at " + closed + ": Connection refused");
  CHECK(ask("[::1").failed());
  CHECK(ask("localhost").error().message == "NCCL's RAS at localhost: it has no port");
  CHECK(ask("some.host:28028")
            .error()
            .message.starts_with("NCCL's RAS at some.host:28028: it is no address: "));
}

TEST_CASE("nccl ras: not looked at where it cannot answer") {
  CHECK(AskNcclRas(22806, {}, Deadline::After(kPlenty)).not_looked_at());
  CHECK(AskNcclRas(22907, {{"NCCL_RAS_ENABLE", "0", "environment"}}, Deadline::After(kPlenty))
            .why_not()
            .reason == "NCCL_RAS_ENABLE=0");
}

}  // namespace
}  // namespace dlc

#include "probes/control/process/run_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ProcessRequest Shell(const std::string& script) {
  return {{"sh", "-c", script}, "", {}, 1U << 20U, nullptr};
}

Deadline Soon() {
  return Deadline::After(seconds(20));
}

/// No child of this process is left, running or unreaped.
bool NoChildLeft() {
  return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

TEST_CASE("run process: stdin goes in, stdout, stderr and the exit code come out") {
  ProcessRequest request = Shell("cat; echo problem >&2; exit 7");
  request.stdin_bytes = "hello\n";
  const auto output = RunProcess(request, Soon());
  REQUIRE(output.has_value());
  CHECK(output->stdout_bytes == "hello\n");
  CHECK(output->stderr_bytes == "problem\n");
  CHECK(output->exit_code == 7);
  CHECK(output->term_signal == 0);
  CHECK(NoChildLeft());
}

TEST_CASE("run process: more than a pipe holds passes in both directions at once") {
  ProcessRequest request = Shell("cat");
  request.stdin_bytes = std::string(900'000, 'x');
  const auto output = RunProcess(request, Soon());
  REQUIRE(output.has_value());
  CHECK(output->stdout_bytes == request.stdin_bytes);
}

TEST_CASE("run process: a program that does not read its stdin does not end this one") {
  ProcessRequest request = Shell("exec <&-; echo done");
  request.stdin_bytes = std::string(900'000, 'x');
  const auto output = RunProcess(request, Soon());
  REQUIRE(output.has_value());
  CHECK(output->stdout_bytes == "done\n");
  CHECK(output->exit_code == 0);
}

TEST_CASE("run process: no shell looks at the arguments") {
  const auto output =
      RunProcess({{"printf", "%s", "$HOME; `id` *"}, "", {}, 1000, nullptr}, Soon());
  REQUIRE(output.has_value());
  CHECK(output->stdout_bytes == "$HOME; `id` *");
}

TEST_CASE("run process: extra environment is added and replaces") {
  // Not through a shell, which would itself drop one of two equal names.
  const auto output = RunProcess({{"env"},
                                  "",
                                  {{"DLC_TEST_NEW", "yes"}, {"PATH", "/bin:/usr/bin:/nowhere"}},
                                  1U << 20U,
                                  nullptr},
                                 Soon());
  REQUIRE(output.has_value());
  const std::string lines = "\n" + output->stdout_bytes;
  CHECK(lines.find("\nDLC_TEST_NEW=yes\n") != std::string::npos);
  CHECK(lines.find("\nPATH=/bin:/usr/bin:/nowhere\n") != std::string::npos);
  CHECK(lines.find("\nPATH=") == lines.rfind("\nPATH="));
}

TEST_CASE("run process: the deadline kills the program and its children, and reaps") {
  // The grandchild holds a named pipe open: its end is seen even if nobody reaps it.
  const TemporaryDirectory directory;
  const std::string name = directory / "alive";
  REQUIRE(mkfifo(name.c_str(), 0600) == 0);
  const int alive = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto started = Deadline::Clock::now();
  const auto output =
      RunProcess(Shell("sleep 600 >" + name + " & wait"), Deadline::After(milliseconds(1'500)));
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::kTimedOut);
  CHECK(output.error().message.starts_with("'sh' did not end within "));
  CHECK(Deadline::Clock::now() - started < seconds(5));
  CHECK(NoChildLeft());
  pollfd hung_up{alive, POLLIN, 0};
  CHECK(poll(&hung_up, 1, 5'000) == 1);
  CHECK((hung_up.revents & POLLHUP) != 0);
  close(alive);
}

TEST_CASE("run process: a grandchild that outlives the program is not waited for") {
  const auto started = Deadline::Clock::now();
  const auto output = RunProcess(Shell("sleep 30 & echo $!"), Soon());
  REQUIRE(output.has_value());
  CHECK(Deadline::Clock::now() - started < seconds(10));
  const pid_t grandchild = std::stoi(output->stdout_bytes);
  CHECK(kill(grandchild, SIGKILL) == 0);
}

TEST_CASE("run process: a set interrupt flag ends the wait") {
  const std::atomic<bool> interrupted{true};
  ProcessRequest request = Shell("sleep 600");
  request.interrupted = &interrupted;
  const auto output = RunProcess(request, Soon());
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::kInterrupted);
  CHECK(NoChildLeft());
}

TEST_CASE("run process: too much output is an error, at the limit it is not") {
  ProcessRequest request = Shell("printf 12345678");
  request.max_stdout_bytes = 8;
  CHECK(RunProcess(request, Soon()).has_value());
  request.max_stdout_bytes = 7;
  const auto output = RunProcess(request, Soon());
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().message == "'sh' wrote more than 7 bytes and was killed");
  CHECK(NoChildLeft());
}

TEST_CASE("run process: endless output ends at the limit, endless stderr at the deadline") {
  CHECK_FALSE(RunProcess(Shell("yes"), Soon()).has_value());
  const auto flood = RunProcess(Shell("yes >&2"), Deadline::After(milliseconds(300)));
  REQUIRE_FALSE(flood.has_value());
  CHECK(flood.error().code == ErrorCode::kTimedOut);
}

TEST_CASE("run process: of stderr the end is kept") {
  const auto output = RunProcess(Shell("yes | head -c 100000 >&2; echo last >&2"), Soon());
  REQUIRE(output.has_value());
  CHECK(output->stderr_bytes.size() == kStderrBytes);
  CHECK(output->stderr_bytes.ends_with("\nlast\n"));
}

TEST_CASE("run process: a missing program names PATH") {
  const auto output =
      RunProcess({{"no-such-program-here"}, "", {{"PATH", "/nowhere"}}, 1000, nullptr}, Soon());
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::kNotFound);
  CHECK(output.error().message.find("'no-such-program-here' is not in PATH (") !=
        std::string::npos);
}

TEST_CASE("run process: a file that is no program is refused") {
  const auto output = RunProcess({{"/etc/passwd"}, "", {}, 1000, nullptr}, Soon());
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::kPermissionDenied);
}

TEST_CASE("run process: death by signal is told apart from an exit code") {
  const auto output = RunProcess(Shell("kill -KILL $$"), Soon());
  REQUIRE(output.has_value());
  CHECK(output->exit_code == -1);
  CHECK(output->term_signal == SIGKILL);
}

TEST_CASE("run process: no descriptor of this process is inherited") {
  // Opened without O_CLOEXEC, as a library might.
  const int leak = open("/dev/null", O_RDONLY);
  const int high = fcntl(leak, F_DUPFD, 200);
  REQUIRE(high == 200);
  const auto output =
      RunProcess(Shell("if [ -e /proc/self/fd/200 ]; then echo leaked; fi"), Soon());
  close(high);
  close(leak);
  REQUIRE(output.has_value());
  CHECK(output->stdout_bytes.empty());
}

TEST_CASE("run process: one line for a message") {
  CHECK(OneLine("  a\n\tb \x1b[31mred\r\n") == "a b [31mred");
  CHECK(OneLine("abcdef", 3) == "abc...");
  CHECK(OneLine("\n ").empty());
}

}  // namespace
}  // namespace dlc

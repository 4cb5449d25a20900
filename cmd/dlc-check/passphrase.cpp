#include "cmd/dlc-check/passphrase.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "reports/evidence/signer.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxPassphraseBytes = 1024;

/// /dev/tty with echo off while in scope.
class QuietTerminal {
 public:
  QuietTerminal() : fd_(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) {
    if (fd_ >= 0 && tcgetattr(fd_, &before_) == 0) {
      termios quiet = before_;
      quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
      changed_ = tcsetattr(fd_, TCSAFLUSH, &quiet) == 0;
    }
  }
  ~QuietTerminal() {
    if (changed_) {
      tcsetattr(fd_, TCSAFLUSH, &before_);
    }
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

  bool usable() const { return changed_; }
  void Say(const std::string& text) const {
    // A prompt that cannot be written is no reason to stop: the read below still works.
    [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
  }
  std::string ReadLine() const {
    std::string line;
    char c = 0;
    while (line.size() < kMaxPassphraseBytes && read(fd_, &c, 1) == 1 && c != '\n') {
      line.push_back(c);
    }
    return line;
  }

 private:
  int fd_;
  termios before_{};
  bool changed_ = false;
};

}  // namespace

Result<std::string> AskPassphraseOnTerminal(const std::string& key_name) {
  const QuietTerminal terminal;
  if (!terminal.usable()) {
    return Error{
        ErrorCode::kInvalidInput,
        "key '" + key_name + "' is encrypted and there is no terminal to ask for its passphrase",
        std::string("set ") + kPassphraseVariable};
  }
  terminal.Say("passphrase for " + key_name + ": ");
  std::string passphrase = terminal.ReadLine();
  terminal.Say("\n");
  return passphrase;
}

}  // namespace dlc

#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

namespace dlc {

/// A pipe whose reading end sees the end of file when every process that inherited the other is
/// gone.
class Witness {
 public:
  Witness() {
    REQUIRE(pipe(ends_) == 0);
    fcntl(ends_[0], F_SETFD, FD_CLOEXEC);
  }
  ~Witness() {
    close(ends_[0]);
    OnlyOthersHoldIt();
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  void OnlyOthersHoldIt() {
    if (ends_[1] >= 0) {
      close(ends_[1]);
      ends_[1] = -1;
    }
  }
  bool AllGone() {
    OnlyOthersHoldIt();
    char byte = 0;
    alarm(30);  // rather a killed test than one that hangs
    const bool gone = read(ends_[0], &byte, 1) == 0;
    alarm(0);
    return gone;
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace dlc

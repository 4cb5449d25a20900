#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/node/process/experiment.h"
#include "tests/support/temporary_directory.h"

namespace dlc {

inline constexpr std::chrono::milliseconds kPlenty{20'000};

/// Ranks that are threads of this test.
class ThreadExchange {
 public:
  explicit ThreadExchange(int size) : parts_(static_cast<std::size_t>(size)) {}

  class Rank : public Exchange {
   public:
    Rank(ThreadExchange& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(all_.parts_.size()); }
    Result<std::vector<std::string>> AllGather(std::string_view mine, Deadline deadline) override {
      return all_.Gather(rank_, mine, deadline);
    }
    Result<void> Barrier(Deadline deadline) override {
      const auto all = all_.Gather(rank_, "", deadline);
      return all ? Result<void>() : Result<void>(all.error());
    }

   private:
    ThreadExchange& all_;
    int rank_;
  };

 private:
  Result<std::vector<std::string>> Gather(int rank, std::string_view mine, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    parts_[static_cast<std::size_t>(rank)] = mine;
    if (++arrived_ == parts_.size()) {
      arrived_ = 0;
      ++round_;
      gathered_ = parts_;
      all_here_.notify_all();
      return gathered_;
    }
    if (!all_here_.wait_for(lock, deadline.Remaining(), [&] { return round_ != round; })) {
      return Error{ErrorCode::kTimedOut, "a rank was lost", ""};
    }
    return gathered_;
  }

  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::string> parts_;
  std::vector<std::string> gathered_;
  std::size_t arrived_ = 0;
  int round_ = 0;
};

/// Progress that nobody reads.
class NoProgress {
 public:
  NoProgress() : fd_(open("/dev/null", O_WRONLY | O_CLOEXEC)), progress_(fd_) {}
  ~NoProgress() { close(fd_); }
  NoProgress(const NoProgress&) = delete;
  NoProgress& operator=(const NoProgress&) = delete;
  const Progress& get() const { return progress_; }

 private:
  int fd_;
  Progress progress_;
};

/// What each of `size` ranks saw.
template <class T>
std::vector<T> OnRanks(int size, const std::function<Result<T>(Exchange&, const Progress&)>& look) {
  ThreadExchange exchange(size);
  const NoProgress progress;
  std::vector<std::future<Result<T>>> futures;
  for (int rank = 0; rank < size; ++rank) {
    futures.push_back(std::async(std::launch::async, [&, rank] {
      ThreadExchange::Rank me(exchange, rank);
      return look(me, progress.get());
    }));
  }
  std::vector<T> seen;
  for (auto& future : futures) {
    auto result = future.get();
    if (!result) {
      FAIL(result.error().message);
    }
    seen.push_back(std::move(*result));
  }
  return seen;
}

}  // namespace dlc

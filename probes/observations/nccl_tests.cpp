#include "probes/observations/nccl_tests.h"

#include <array>
#include <charconv>

#include "probes/observations/nccl_log_lines.h"

namespace dlc {
namespace {

constexpr std::size_t kMost = 4096;
constexpr std::size_t kFields = 13;

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlank = " \t\r";
  std::size_t at = line.find_first_not_of(kBlank);
  while (at != std::string_view::npos && words.size() <= kFields) {
    const std::size_t end = line.find_first_of(kBlank, at);
    words.push_back(line.substr(at, end == std::string_view::npos ? end : end - at));
    at = end == std::string_view::npos ? end : line.find_first_not_of(kBlank, end);
  }
  return words;
}

template <class T>
bool Parse(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

/// Three numbers as printed, microseconds and GB/s, and the wrong elements.
bool ReadTiming(const std::string_view* words, NcclTestsTiming& out) {
  double microseconds = 0;
  double algorithm = 0;
  double bus = 0;
  if (!Parse(words[0], microseconds) || !Parse(words[1], algorithm) || !Parse(words[2], bus)) {
    return false;
  }
  out = {microseconds / 1e6, algorithm * 1e9, bus * 1e9, std::nullopt};
  return words[3] == "N/A" || Parse(words[3], out.wrong.emplace());
}

std::optional<NcclTestsRow> ReadRow(const std::vector<std::string_view>& words) {
  NcclTestsRow row;
  if (words.size() != kFields || !Parse(words[0], row.size_bytes) || !Parse(words[1], row.count) ||
      !Parse(words[4], row.root) || !ReadTiming(&words[5], row.out_of_place) ||
      !ReadTiming(&words[9], row.in_place)) {
    return std::nullopt;
  }
  row.type = words[2];
  row.op = words[3];
  return row;
}

/// "#  Rank  0 Group  0 Pid   123 on  hostname device  0 [0000:10:1c] NVIDIA ...", without "Group"
/// in old versions.
std::optional<NcclTestsRank> ReadRank(const std::vector<std::string_view>& words) {
  NcclTestsRank rank;
  std::size_t at = 1;
  if (words.size() < 8 || words[0] != "#" || words[at] != "Rank" ||
      !Parse(words[at + 1], rank.rank)) {
    return std::nullopt;
  }
  at += words[at + 2] == "Group" ? 4 : 2;
  if (at + 3 >= words.size() || words[at] != "Pid" || !Parse(words[at + 1], rank.pid) ||
      words[at + 2] != "on") {
    return std::nullopt;
  }
  rank.host = words[at + 3].substr(0, 256);
  return rank;
}

class NcclTestsReader {
 public:
  void Take(std::string_view line) {
    // mpirun -tag-output: "[1,0]<stdout>:#  Rank  0 ..."
    if (const std::size_t tag = line.find(">:");
        line.starts_with('[') && tag != std::string_view::npos && tag < 32) {
      line.remove_prefix(tag + 2);
    }
    const auto words = Words(line);
    std::int64_t number = 0;
    if (words.empty()) {
      return;
    }
    if (words[0] == "#") {
      TakeComment(line, words);
    } else if (Parse(words[0], number) && words.size() > 1 && Parse(words[1], number)) {
      if (auto row = ReadRow(words)) {
        Append(out_.rows, std::move(*row));
      } else {
        ++out_.unread_rows;
      }
    }
  }
  NcclTestsOutput Finish() { return std::move(out_); }

 private:
  template <class T>
  void Append(std::vector<T>& list, T entry) {
    if (list.size() < kMost) {
      list.push_back(std::move(entry));
    } else {
      out_.dropped = true;
    }
  }

  void TakeComment(std::string_view line, const std::vector<std::string_view>& words) {
    nccl_log::LineCursor at(line);
    if (auto rank = ReadRank(words)) {
      Append(out_.ranks, std::move(*rank));
    } else if (at.SkipPast("# nccl-tests version ")) {
      out_.version = std::string(at.Until(" ").substr(0, 64));
      if (at.SkipPast("nccl-headers=")) {
        at.Number(out_.headers_code);
      }
      if (at.SkipPast("nccl-library=")) {
        at.Number(out_.library_code);
      }
    } else if (at.SkipPast("# Collective test starting: ")) {
      out_.collective = NcclTestsCollective(at.Until(" ").substr(0, 64));
    } else if (at.SkipPast("# Using devices")) {
      ++out_.device_tables;
    } else if (at.SkipPast("# Avg bus bandwidth")) {
      ++out_.averages;
    } else if (at.SkipPast("# Out of bounds values :")) {
      TakeOutOfBounds(words);
    }
  }

  /// "# Out of bounds values : 0 OK". Of several tests the worst is kept.
  void TakeOutOfBounds(const std::vector<std::string_view>& words) {
    std::int64_t count = 0;
    if (words.size() != 8 || !Parse(words[6], count)) {
      ++out_.unread_rows;
      return;
    }
    const bool good = words[7] == "OK";
    out_.out_of_bounds_ok = good && (!out_.out_of_bounds || out_.out_of_bounds_ok);
    out_.out_of_bounds = count + out_.out_of_bounds.value_or(0);
  }

  NcclTestsOutput out_;
};

}  // namespace

std::string NcclTestsCollective(std::string_view program) {
  std::string_view name = program.substr(program.rfind('/') + 1);
  name = name.substr(0, name.find("_perf"));
  return name == "sendrecv" ? "send_recv" : std::string(name);
}

NcclTestsOutput ReadNcclTests(std::string_view text) {
  NcclTestsReader reader;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    reader.Take(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.Finish();
}

}  // namespace dlc

#include "probes/control/files/nccl_tests_json.h"

#include <algorithm>
#include <utility>

#include "probes/control/files/fields.h"
#include "probes/documents/node.h"

namespace dlc {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kGigabyte = 1e9;
constexpr double kNone = -1;
constexpr std::size_t kMost = 4096;

std::int64_t WholeOf(const Fields& fields, std::string_view key) {
  const double number = fields.Number(key, 0);
  if (number < 0 || number > 9e15) {
    fields.Fail(key, "must be a number of bytes or elements");
    return 0;
  }
  return static_cast<std::int64_t>(number);
}

/// A placement that was not measured is null, and stays as nothing that was compared.
NcclTestsTiming TimingOf(const Fields& timing) {
  NcclTestsTiming out;
  out.seconds = timing.Number(timing.Has("time") ? "time" : "cpu_time", 0) * kMicrosecond;
  out.algorithm_bandwidth_bytes_per_second = timing.Number("alg_bw", 0) * kGigabyte;
  out.bus_bandwidth_bytes_per_second = timing.Number("bus_bw", 0) * kGigabyte;
  const double wrong = timing.Number("nwrong", kNone);
  if (wrong >= 0) {
    out.wrong = static_cast<std::int64_t>(wrong);
  }
  return out;
}

NcclTestsRow RowOf(const Fields& fields) {
  NcclTestsRow row;
  row.size_bytes = WholeOf(fields, "size");
  row.count = WholeOf(fields, "count");
  row.type = fields.Text("type");
  row.op = fields.Text("redop");
  const std::string root = fields.Text("root");
  const std::size_t digits = root.find_first_not_of(' ');
  row.root = digits == std::string::npos || root[digits] == '-'
                 ? -1
                 : static_cast<int>(std::strtol(root.c_str() + digits, nullptr, 10));
  row.out_of_place = TimingOf(fields.Map("out_of_place"));
  row.in_place = TimingOf(fields.Map("in_place"));
  return row;
}

class NcclTestsJsonReader {
 public:
  explicit NcclTestsJsonReader(const Fields& root) : root_(root) {}

  NcclTestsOutput Read() {
    const std::vector<std::string> args = root_.TextList("args");
    out_.collective = args.empty() ? "" : NcclTestsCollective(args.front());
    out_.version = "-J, file version " + std::to_string(root_.Count("version", 0));
    out_.library_code = root_.Count("nccl_version", 0);
    out_.device_tables = 1;
    ReadRanks(root_.Map("config"));
    root_.Each("results", [this](const Fields& row) {
      if (out_.rows.size() < kMost) {
        out_.rows.push_back(RowOf(row));
      } else {
        out_.dropped = true;
      }
    });
    const Fields bounds = root_.Map("out_of_bounds");
    if (bounds.Present()) {
      out_.out_of_bounds = WholeOf(bounds, "count");
      out_.out_of_bounds_ok = bounds.Text("okay") == "true";
    }
    // The writer closes what is open when it dies; only a test that ended tells when.
    out_.averages = root_.Has("end_time") && root_.Has("average_bus_bandwidth") ? 1 : 0;
    return std::move(out_);
  }

 private:
  void ReadRanks(const Fields& config) {
    const int each =
        std::max(1, config.Count("ngpus", 1)) * std::max(1, config.Count("nthreads", 1));
    const auto read = [&](const Fields& device) {
      NcclTestsRank rank;
      rank.rank = device.Count("rank", 0);
      rank.pid = WholeOf(device, "pid");
      rank.host = device.Text("hostname").substr(0, 256);
      for (int i = 0; i < each; ++i, ++rank.rank) {
        if (out_.ranks.size() < kMost) {
          out_.ranks.push_back(rank);
        } else {
          out_.dropped = true;
        }
      }
    };
    config.Each("devices", read);
    root_.Each("devices", read);
  }

  const Fields& root_;
  NcclTestsOutput out_;
};

}  // namespace

Result<NcclTestsOutput> ParseNcclTestsJson(std::string_view bytes, const std::string& file) {
  auto document = ParseDocument(bytes, file, kClusterFileLimits);
  if (!document) {
    return document.error();
  }
  if (document->roots.size() != 1 || document->roots.front().Find("results") == nullptr) {
    return DocumentError(file, 0, "is no output of nccl-tests: there are no `results`",
                         "pass what -J FILE wrote, or the text output");
  }
  FileReading reading;
  reading.file = file;
  const Fields root(reading, &document->roots.front(), "");
  NcclTestsOutput output = NcclTestsJsonReader(root).Read();
  if (reading.failed) {
    return reading.error;
  }
  return output;
}

Result<NcclTestsOutput> ParseNcclTestsFile(std::string_view bytes, const std::string& file) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && bytes[first] == '{') {
    return ParseNcclTestsJson(bytes, file);
  }
  NcclTestsOutput output = ReadNcclTests(bytes);
  if (output.rows.empty() && output.ranks.empty() && output.device_tables == 0) {
    return DocumentError(file, 0, "is no output of nccl-tests: no row and no device is in it",
                         "pass what all_reduce_perf printed, or what its -J FILE wrote");
  }
  return output;
}

}  // namespace dlc

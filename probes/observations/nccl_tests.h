#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/digest.h"

namespace dlc {

/// One placement of a row.
struct NcclTestsTiming {
  double seconds = 0;
  double algorithm_bandwidth_bytes_per_second = 0;
  double bus_bandwidth_bytes_per_second = 0;
  std::optional<std::int64_t> wrong;  ///< nullopt: "N/A", not compared

  bool operator==(const NcclTestsTiming&) const = default;
};

struct NcclTestsRow {
  std::int64_t size_bytes = 0;
  std::int64_t count = 0;
  std::string type;  ///< "float"
  std::string op;    ///< "sum", "none"
  int root = 0;      ///< -1: none
  NcclTestsTiming out_of_place;
  NcclTestsTiming in_place;

  bool operator==(const NcclTestsRow&) const = default;
};

struct NcclTestsRank {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;

  bool operator==(const NcclTestsRank&) const = default;
};

/// What nccl-tests printed; more than one process may have, into the same output.
struct NcclTestsOutput {
  std::string version;     ///< "2.19.6"; empty before it told
  std::string collective;  ///< "all_reduce", of "Collective test starting"; empty: not told
  int headers_code = 0;    ///< of the NCCL that it was built with; 0: not told
  int library_code = 0;
  int device_tables = 0;  ///< "# Using devices": one for each independent test
  std::vector<NcclTestsRank> ranks;
  std::vector<NcclTestsRow> rows;
  std::int64_t unread_rows = 0;  ///< that begin as one does
  std::optional<std::int64_t> out_of_bounds;
  bool out_of_bounds_ok = false;
  int averages = 0;      ///< lines of the average, which ends a test
  bool dropped = false;  ///< there were more than 4096 ranks or rows

  bool operator==(const NcclTestsOutput&) const = default;
};

/// A file that holds such output.
struct NcclTestsFile {
  std::string file;
  Digest digest;
  NcclTestsOutput output;

  bool operator==(const NcclTestsFile&) const = default;
};

/// Of the program's name, with a path before it or not: "/usr/local/bin/all_reduce_perf_mpi" is
/// "all_reduce", "sendrecv_perf" is "send_recv" as the observations have it.
std::string NcclTestsCollective(std::string_view program);

/// Reads the text output of nccl-tests (src/common.cu up to 2.19.6), with mpirun's prefixes and
/// lines of NCCL among it. By blanks and never by columns, whose widths differ. Never fails.
NcclTestsOutput ReadNcclTests(std::string_view text);

}  // namespace dlc

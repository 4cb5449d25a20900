#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dlc {

/// A line of a job's log, as the driver writes it.
std::string Frame(std::size_t number, const std::string& piece);
/// All of a driver's log: a frame for each piece, and the closing one.
std::string ClosedLog(const std::vector<std::string>& pieces);

}  // namespace dlc

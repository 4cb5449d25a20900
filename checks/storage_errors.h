#pragma once

#include <string>
#include <string_view>

namespace dlc {

/// What to do about an error that a transfer or a small file met ("ENOSPC", "short-read"); empty
/// where the rule's own hint has to do.
std::string StorageErrorHint(std::string_view error);

}  // namespace dlc

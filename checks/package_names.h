#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/package_name.h"
#include "probes/observations/ray.h"

namespace dlc {

/// Exact, or a prefix when `pattern` ends in *. Both sides are normalised: "nvidia-*" matches
/// "NVIDIA_nccl.cu13".
bool PackageNameMatches(std::string_view pattern, std::string_view name);
/// The first pattern that matches, or nullptr.
const std::string* FindPattern(const std::vector<std::string>& patterns, std::string_view name);

/// Normalised name of what a request installs: its name, else that in a wheel's file name or a
/// URL's `#egg=`. nullopt when the text does not tell (a source URL, a path) or is an option.
std::optional<std::string> InstalledName(const RequestedPackage& package);
/// A wheel, archive, path or URL is named, also by "name @ URL": an empty specifier then does not
/// mean any version.
bool IsDirectReference(const RequestedPackage& package);
/// -r, -e and their long forms: they bring packages in that the request itself does not show.
bool OptionBringsPackages(std::string_view option);

/// The text without user and password of a URL: "https://me:token@host/x" -> "https://***@host/x".
/// Index URLs of private repositories carry tokens.
std::string WithoutCredentials(std::string_view text);

}  // namespace dlc

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlc {

/// Whether an installed version satisfies a requirement's version part, by PEP 440 ("==4.46.3",
/// ">=2,<3", "~=2.13", "==2.*", "" admits all). An installed pre-release counts like any version,
/// as pip does it. Conda's single "=" is a prefix match. nullopt: one of the two cannot be read.
std::optional<bool> SpecifierAdmits(std::string_view specifier, std::string_view version);

/// The version of a lone "==V" (no wildcard), else "": for saying "4.46.3" instead of "==4.46.3".
std::string PinnedVersion(std::string_view specifier);

}  // namespace dlc

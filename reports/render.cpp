#include "reports/render.h"

#include <algorithm>

namespace dlc {
namespace {

template <std::string (*render)(const Report&)>
std::string WithoutOptions(const Report& report, const TextOptions& /*options*/) {
  return render(report);
}

constexpr Renderer kRenderers[] = {
    {"text", RenderText},
    {"json", WithoutOptions<RenderJson>},
    {"junit", WithoutOptions<RenderJUnit>},
    {"ctrf", WithoutOptions<RenderCtrf>},
    {"markdown", WithoutOptions<RenderMarkdown>},
};

}  // namespace

std::span<const Renderer> AllRenderers() {
  return kRenderers;
}

const Renderer* FindRenderer(std::string_view format) {
  const auto* it = std::find_if(std::begin(kRenderers), std::end(kRenderers),
                                [&](const Renderer& r) { return r.format == format; });
  return it == std::end(kRenderers) ? nullptr : it;
}

}  // namespace dlc

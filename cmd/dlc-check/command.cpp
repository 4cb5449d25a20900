#include "cmd/dlc-check/command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cmd/dlc-check/environment.h"
#include "reports/color.h"

namespace dlc {
ExitCode CommandContext::Fail(const Error& error) const {
  if (format == "json") {
    const nlohmann::ordered_json document = {
        {"error",
         {{"code", ErrorCodeName(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
    err << document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  } else {
    err << "dlc-check: " << error.message << "\n";
    if (!error.hint.empty()) {
      err << "hint: " << error.hint << "\n";
    }
  }
  return ExitCode::kUsage;
}

bool CommandContext::Color() const {
  return UseColor(color, out_is_terminal, EnvironmentVariable("NO_COLOR"),
                  EnvironmentVariable("TERM"), EnvironmentVariable("CLICOLOR_FORCE"),
                  EnvironmentVariable("FORCE_COLOR"));
}

void AddOutputOptions(CLI::App& app, CommandContext& context,
                      const std::vector<std::string>& formats) {
  app.add_option("--format", context.format, "what stdout gets: " + CLI::detail::join(formats, "|"))
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
  app.add_option("--color", context.color, "auto|always|never; NO_COLOR is respected")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  app.add_flag("-q,--quiet", context.quiet, "no progress on stderr");
  app.add_flag("-v,--verbose", context.verbose, "every finding, passes too; requests on stderr");
}

}  // namespace dlc

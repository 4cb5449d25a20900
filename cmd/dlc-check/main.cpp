#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cmd/dlc-check/command.h"
#include "cmd/dlc-check/signals.h"
#include "cmd/dlc-check/version.h"
#include "cmd/exit_code.h"
#include "probes/documents/node.h"

namespace {

using dlc::Command;
using dlc::CommandContext;
using dlc::Error;
using dlc::ErrorCode;
using dlc::ExitCode;

constexpr const char* kDescription =
    "dlc-check: does AWS's Ray Train Deep Learning Container fit this cluster?\n"
    "Looks, judges by a policy, and leaves signed evidence that another engineer can verify and "
    "judge again.";

constexpr const char* kFooter =
    "Start with: dlc-check cluster -n NAMESPACE --policy POLICY   (the live cluster of your "
    "kubeconfig; bash examples/quickstart.sh shows a whole run without one)\n"
    "Exit codes: 0 passed, 1 failed, 2 usage, 3 incomplete, 4 not trustworthy, 5 not written, 6 "
    "leftovers, "
    "130/143 interrupted";

std::string VersionText() {
  std::string text = std::string("dlc-check ") + dlc::kVersion;
  if (*dlc::kCommit != '\0') {
    text += std::string(" (") + dlc::kCommit + ")";
  }
  return text + "\nbuilt with:    " + dlc::kFeaturesWith +
         "\nbuilt without: " + dlc::kFeaturesWithout + "\n";
}

/// The last subcommand that the parser entered.
const CLI::App* Deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
  }
  return app;
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> SubcommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::string Join(const std::vector<std::string>& words) {
  return CLI::detail::join(words, ", ");
}

/// A word where a subcommand must stand, before CLI11 sees it: its own message does not name the
/// word.
bool CheckSubcommands(const CLI::App& root, const std::vector<std::string>& argv, Error& error) {
  const CLI::App* app = &root;
  for (std::size_t i = 1; !app->get_subcommands(nullptr).empty(); ++i) {
    const auto names = SubcommandNames(*app);
    const std::string what = app == &root ? "command" : "subcommand of '" + app->get_name() + "'";
    if (i >= argv.size()) {
      error = {ErrorCode::kInvalidInput, "no " + what + " given", "one of: " + Join(names)};
      return false;
    }
    if (argv[i].starts_with("-")) {
      return true;  // --help, --version, or an unknown flag that CLI11 reports
    }
    if (std::find(names.begin(), names.end(), argv[i]) == names.end()) {
      const std::string near = dlc::NearestName(argv[i], names);
      error = {ErrorCode::kInvalidInput, "unknown " + what + " '" + argv[i] + "'",
               near.empty() ? "one of: " + Join(names) : "did you mean '" + near + "'?"};
      return false;
    }
    app = app->get_subcommand(argv[i]);
  }
  return true;
}

/// CLI11's complaint in the tool's own form. Its exit codes (100-127) end here.
Error UsageError(const CLI::App& root, const CLI::ParseError& parse_error) {
  const CLI::App* app = Deepest(&root);
  const std::string path = app == &root ? "dlc-check" : "dlc-check " + app->get_name();
  const auto extras = root.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&parse_error) != nullptr && !extras.empty()) {
    const std::string near = dlc::NearestName(extras.front(), FlagNames(*app));
    return {ErrorCode::kInvalidInput,
            "unknown argument '" + extras.front() + "' for '" + path + "'",
            near.empty() ? "see '" + path + " --help'" : "did you mean '" + near + "'?"};
  }
  std::string message = parse_error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  return {ErrorCode::kInvalidInput, message, "see '" + path + " --help'"};
}

ExitCode Main(CommandContext& context) {
  CLI::App app(kDescription, "dlc-check");
  app.footer(kFooter);
  bool version = false;
  app.add_flag("--version", version, "version, and what it was built with and without");
  app.require_subcommand(0, 1);

  std::vector<std::unique_ptr<Command>> commands;
  for (auto make : {dlc::MakeRunCommands, dlc::MakeCleanupCommands, dlc::MakeReportCommands,
                    dlc::MakeManifestCommands, dlc::MakePlainCommands}) {
    for (auto& command : make()) {
      commands.push_back(std::move(command));
    }
  }
  Command* chosen = nullptr;
  for (const auto& command : commands) {
    command->Register(app, context, &chosen);
  }

  Error error;
  if (!CheckSubcommands(app, context.argv, error)) {
    return context.Fail(error);
  }
  try {
    std::vector<std::string> arguments(context.argv.rbegin(), context.argv.rend() - 1);
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    context.out << Deepest(&app)->help();
    return ExitCode::kOk;
  } catch (const CLI::ParseError& parse_error) {
    return context.Fail(UsageError(app, parse_error));
  }
  if (version) {
    context.out << VersionText();
    return ExitCode::kOk;
  }
  if (chosen == nullptr) {
    return context.Fail({ErrorCode::kInvalidInput, "no command given", "see 'dlc-check --help'"});
  }
  dlc::InstallSignalHandlers();
  return chosen->Run(context);
}

}  // namespace

int main(int argc, char** argv) {
  CommandContext context(std::cout, std::cerr);
  context.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  context.err_is_terminal = isatty(STDERR_FILENO) == 1;
  context.argv.assign(argv, argv + argc);
  try {
    const ExitCode code = Main(context);
    std::cout.flush();
    if (!std::cout && code == ExitCode::kOk) {
      std::cerr << "dlc-check: could not write the result to stdout\n";
      return static_cast<int>(ExitCode::kNotWritten);
    }
    return static_cast<int>(code);
  } catch (const std::exception& e) {
    // Nothing that a user can do ends here; whatever does is a bug, and no verdict was given.
    std::cerr << "dlc-check: internal error: " << e.what()
              << "\nhint: this is a bug of dlc-check; please report the command\n";
    return static_cast<int>(ExitCode::kIncomplete);
  }
}

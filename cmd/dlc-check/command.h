#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "cmd/exit_code.h"
#include "probes/observations/result.h"

namespace CLI {
class App;
}

namespace dlc {

/// What every command is given: streams, terminal facts and the flags that every command has.
struct CommandContext {
  CommandContext(std::ostream& result, std::ostream& talk) : out(result), err(talk) {}

  std::ostream& out;  ///< the result
  std::ostream& err;  ///< everything else
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  std::vector<std::string> argv;

  bool quiet = false;
  bool verbose = false;
  std::string color = "auto";
  std::string format = "text";

  /// Prints `error` in the tool's form and gives back the exit code: usage for bad input,
  /// incomplete for the rest.
  ExitCode Fail(const Error& error) const;
  /// Whether stdout gets colour: --color, NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, TERM and the
  /// terminal, in that order.
  bool Color() const;
};

/// One subcommand. Adding one: a file with a Make function, and a line in AllCommands().
class Command {
 public:
  virtual ~Command() = default;
  Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Adds itself below `parent`; `*chosen` becomes this command when it is the one on the command
  /// line.
  virtual void Register(CLI::App& parent, CommandContext& context, Command** chosen) = 0;
  virtual ExitCode Run(CommandContext& context) = 0;
};

std::vector<std::unique_ptr<Command>>
MakeRunCommands();  ///< cluster, image, gpu, nccl, fsdp, checkpoint, snapshot
std::vector<std::unique_ptr<Command>> MakeReportCommands();  ///< judge, report verify, report show
std::vector<std::unique_ptr<Command>>
MakePlainCommands();  ///< keygen, policy check, checks, schema
std::vector<std::unique_ptr<Command>> MakeCleanupCommands();   ///< cleanup
std::vector<std::unique_ptr<Command>> MakeManifestCommands();  ///< manifest rbac, manifest job

/// --format, --color, -q and -v, as every command has them. `formats` lists the command's own.
void AddOutputOptions(CLI::App& app, CommandContext& context,
                      const std::vector<std::string>& formats);

}  // namespace dlc

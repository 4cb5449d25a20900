#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/policy_yaml.h"
#include "cmd/dlc-check/command.h"
#include "cmd/dlc-check/environment.h"
#include "cmd/dlc-check/passphrase.h"
#include "cmd/dlc-check/policy_init.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"
#include "reports/evidence/preflight_schema.h"
#include "reports/evidence/signer.h"

namespace dlc {
namespace {

std::string Text(std::string_view view) {
  return std::string(view);
}

/// `policy`, which its two commands share.
CLI::App& PolicyParent(CLI::App& parent) {
  const auto there =
      parent.get_subcommands([](const CLI::App* app) { return app->get_name() == "policy"; });
  if (!there.empty()) {
    return *there.front();
  }
  CLI::App* policy = parent.add_subcommand("policy", "what is good enough: make one, check one");
  policy->require_subcommand(1);
  return *policy;
}

/// `checks [ID]`: the catalogue, from the same tables that the findings are made of.
class ChecksCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app = parent.add_subcommand(
        "checks", "the catalogue: what each check compares, establishes, does not establish");
    app->add_option("ID", id_, "one check");
    AddOutputOptions(*app, context, {"text", "json"});
    app->footer("Example: dlc-check checks image-digest\n\n" + Text(kPlainExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    std::vector<const Check*> wanted;
    for (const Check* check : AllChecks()) {
      if (id_.empty() || check->id == id_) {
        wanted.push_back(check);
      }
    }
    if (wanted.empty()) {
      return context.Fail(UnknownCheck());
    }
    if (context.format == "json") {
      PrintJson(context.out, wanted);
    } else {
      PrintText(context.out, wanted, !id_.empty() || context.verbose);
    }
    return ExitCode::kOk;
  }

 private:
  Error UnknownCheck() const {
    std::vector<std::string> ids;
    for (const Check* check : AllChecks()) {
      ids.push_back(Text(check->id));
    }
    const std::string near = NearestName(id_, ids);
    return {ErrorCode::kInvalidInput, "unknown check '" + id_ + "'",
            near.empty() ? "'dlc-check checks' lists them" : "did you mean '" + near + "'?"};
  }

  static const char* StageOf(const Check& check) {
    return check.cross_cutting ? "run" : StageName(check.stage);
  }

  static void PrintText(std::ostream& out, const std::vector<const Check*>& checks, bool whole) {
    for (const Check* check : checks) {
      out << check->id << "  [" << StageOf(*check) << "]  " << check->title
          << "\n  compares: " << check->compares << "\n";
      for (const Rule& rule : check->rules) {
        out << "  " << rule.id << "  (" << SeverityName(rule.severity) << ")  " << rule.title
            << "\n";
        if (whole) {
          out << "      establishes:         " << rule.establishes << "\n"
              << "      does not establish:  " << rule.does_not_establish << "\n"
              << "      when it fails:       " << rule.hint << "\n";
          if (rule.blocks_later_stages) {
            out << "      a failure blocks the probes of later stages\n";
          }
        }
      }
    }
  }

  static void PrintJson(std::ostream& out, const std::vector<const Check*>& checks) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Check* check : checks) {
      nlohmann::ordered_json rules = nlohmann::ordered_json::array();
      for (const Rule& rule : check->rules) {
        rules.push_back({{"id", rule.id},
                         {"severity", SeverityName(rule.severity)},
                         {"title", rule.title},
                         {"establishes", rule.establishes},
                         {"doesNotEstablish", rule.does_not_establish},
                         {"hint", rule.hint},
                         {"blocksLaterStages", rule.blocks_later_stages}});
      }
      list.push_back({{"id", check->id},
                      {"stage", StageOf(*check)},
                      {"title", check->title},
                      {"compares", check->compares},
                      {"rules", std::move(rules)}});
    }
    out << list.dump(2) << "\n";
  }

  std::string id_;
};

/// `policy init`: prints, so that the user says where to.
class PolicyInitCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext&, Command** chosen) override {
    CLI::App* app = PolicyParent(parent).add_subcommand(
        "init", "print a policy to begin with, from what AWS promises of an instance type");
    app->add_option("--instance-type", type_, "EC2 instance type of the worker nodes")
        ->type_name("TYPE")
        ->required();
    app->add_option("--nodes", nodes_, "worker nodes, one pod on each")
        ->type_name("N")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    app->footer(
        "Example: dlc-check policy init --instance-type g6.12xlarge --nodes 2 > policy.yaml\n\n" +
        Text(kPlainExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    const auto policy = InitialPolicy(type_, nodes_);
    if (!policy) {
      return context.Fail(policy.error());
    }
    context.out << *policy;
    return ExitCode::kOk;
  }

 private:
  std::string type_;
  int nodes_ = 2;
};

class PolicyCheckCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app = PolicyParent(parent).add_subcommand(
        "check", "read a policy strictly and say what is wrong with it");
    app->add_option("FILE", file_, "a Policy, or a Config with an inline policy")->required();
    AddOutputOptions(*app, context, {"text", "json"});
    app->footer("Example: dlc-check policy check examples/local/policy.yaml\n\n" +
                Text(kPlainExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    const DocumentLimits limits;
    const auto bytes = ReadFileBytes(file_, limits.max_bytes);
    if (!bytes) {
      return context.Fail(bytes.error());
    }
    const auto policy = ParsePolicy(*bytes, file_);
    if (!policy) {
      return context.Fail(policy.error());
    }
    const std::string name = policy->name.empty() ? "(no name)" : policy->name;
    if (context.format == "json") {
      context.out
          << nlohmann::ordered_json{{"file", file_}, {"name", policy->name}, {"valid", true}}.dump(
                 2)
          << "\n";
    } else {
      context.out << file_ << ": valid, policy " << name << "\n";
    }
    return ExitCode::kOk;
  }

 private:
  std::string file_;
};

class SchemaCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext&, Command** chosen) override {
    CLI::App* app =
        parent.add_subcommand("schema", "JSON Schema (draft-07) of the evidence statement");
    app->footer("Example: dlc-check schema > preflight-v1.schema.json\n\n" +
                Text(kPlainExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    context.out << PreflightSchema();
    return ExitCode::kOk;
  }
};

class KeygenCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app = parent.add_subcommand("keygen", "make a key pair to sign evidence with");
    app->add_option("--out-dir", directory_, "gets dlc-check.key (mode 0600) and dlc-check.pub")
        ->required()
        ->type_name("DIR");
    app->add_option("--type", type_, "p256 (default) or ed25519")
        ->check(CLI::IsMember({"p256", "ed25519"}))
        ->type_name("TYPE");
    app->add_flag("--encrypt", encrypt_,
                  "encrypt the private key: done whenever DLC_CHECK_KEY_PASSPHRASE is set; without "
                  "it, ask the terminal for the passphrase");
    AddOutputOptions(*app, context, {"text", "json"});
    app->footer("Example: dlc-check keygen --out-dir keys\n\n" + Text(kPlainExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    const char* variable = EnvironmentVariable(kPassphraseVariable);
    std::string passphrase = variable == nullptr ? "" : variable;
    if (encrypt_ && passphrase.empty()) {
      auto asked = AskPassphraseOnTerminal("the new key");
      if (!asked) {
        return context.Fail(asked.error());
      }
      passphrase = *asked;
    }
    if (encrypt_ && passphrase.empty()) {
      return context.Fail({ErrorCode::kInvalidInput, "an empty passphrase encrypts nothing",
                           "leave --encrypt out, or give one"});
    }
    const KeyType type = type_ == "ed25519" ? KeyType::kEd25519 : KeyType::kP256;
    const auto files = GenerateKeyFiles(directory_, type, passphrase);
    if (!files) {
      return context.Fail(files.error());
    }
    if (context.format == "json") {
      context.out << nlohmann::ordered_json{{"privateKey", files->private_path},
                                            {"publicKey", files->public_path},
                                            {"fingerprint", files->fingerprint},
                                            {"encrypted", !passphrase.empty()}}
                         .dump(2)
                  << "\n";
    } else {
      context.out << "private key: " << files->private_path
                  << (passphrase.empty() ? "" : " (encrypted)")
                  << "\npublic key:  " << files->public_path
                  << "\nfingerprint: " << files->fingerprint << " (" << KeyTypeName(type) << ")\n";
    }
    return ExitCode::kOk;
  }

 private:
  std::string directory_;
  std::string type_ = "p256";
  bool encrypt_ = false;
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakePlainCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<KeygenCommand>());
  commands.push_back(std::make_unique<PolicyInitCommand>());
  commands.push_back(std::make_unique<PolicyCheckCommand>());
  commands.push_back(std::make_unique<ChecksCommand>());
  commands.push_back(std::make_unique<SchemaCommand>());
  return commands;
}

}  // namespace dlc

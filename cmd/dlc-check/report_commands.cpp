#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cmd/dlc-check/command.h"
#include "cmd/dlc-check/plan.h"
#include "cmd/dlc-check/version.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"
#include "probes/observations/json.h"
#include "reports/evidence/contents.h"
#include "reports/evidence/envelope.h"
#include "reports/evidence/verify_evidence.h"
#include "reports/plain_text.h"
#include "reports/render.h"

namespace dlc {
namespace {

std::string Text(std::string_view view) {
  return std::string(view);
}

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const Renderer& renderer : AllRenderers()) {
    names.push_back(Text(renderer.format));
  }
  return names;
}

/// Evidence in any form, or a bare observations document (then `policy` is empty).
Result<EvidenceContents> ReadRecord(const std::string& path) {
  const auto bytes = ReadFileBytes(path, std::size_t{256} << 20U);
  if (!bytes) {
    return bytes.error();
  }
  // An observations document names its apiVersion near the start; evidence has no such key at all.
  if (bytes->substr(0, 4096).find(kObservationsApiVersion) != std::string::npos &&
      bytes->substr(0, 4096).find("\"_type\"") == std::string::npos) {
    auto observations = ParseObservations(*bytes);
    if (!observations) {
      return Error{observations.error().code, path + ": " + observations.error().message,
                   observations.error().hint};
    }
    EvidenceContents contents;
    contents.observations = std::move(observations).value();
    contents.signature = "unsigned";
    return contents;
  }
  auto contents = ReadEvidence(*bytes);
  if (!contents) {
    return Error{contents.error().code, path + ": " + contents.error().message,
                 contents.error().hint};
  }
  return contents;
}

ExitCode Render(CommandContext& context, const Report& report) {
  const TextOptions options{context.Color(), context.verbose};
  context.out << FindRenderer(context.format)->render(report, options);
  return ExitCode::kOk;
}

void WarnUnverified(const CommandContext& context, const EvidenceContents& contents) {
  if (!context.quiet && contents.signature != "unsigned") {
    context.err
        << "dlc-check: warning: the signature was not verified; 'dlc-check report verify' does\n";
  }
}

/// `judge`: the same findings again from what a run saw, or what another policy makes of it. No
/// cluster, no network.
class JudgeCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app =
        parent.add_subcommand("judge", "judge again what a run saw; another policy may be tried");
    app->add_option("FILE", file_,
                    "evidence (bundle, envelope or statement) or an observations document")
        ->required();
    app->add_option("--policy", policy_, "instead of the policy inside the evidence")
        ->type_name("POLICY");
    AddOutputOptions(*app, context, FormatNames());
    app->footer("Example: dlc-check judge evidence.sigstore.json --policy stricter.yaml\n\n" +
                Text(kJudgeExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    auto contents = ReadRecord(file_);
    if (!contents) {
      return context.Fail(contents.error());
    }
    const bool use_own = policy_.empty() && !contents->policy.text.empty();
    const auto source =
        use_own ? Result<PolicySource>(contents->policy) : ChoosePolicySource(policy_, nullptr);
    if (!source) {
      return context.Fail(source.error());
    }
    const auto policy = ReadPolicySource(*source);
    if (!policy) {
      return context.Fail(policy.error());
    }
    WarnUnverified(context, *contents);
    Report report = MakeReport(std::move(contents->observations), *policy, *source);
    report.signature = contents->signature;
    Render(context, report);
    return ExitCodeOf(report.outcome);
  }

 private:
  std::string file_;
  std::string policy_;
};

class ShowCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app = parent.get_subcommand("report")->add_subcommand(
        "show", "show what evidence says, as it was judged then");
    app->add_option("EVIDENCE", file_, "bundle, envelope or statement")->required();
    AddOutputOptions(*app, context, FormatNames());
    app->footer("Example: dlc-check report show evidence.sigstore.json --format markdown\n\n" +
                Text(kPlainExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    auto contents = ReadRecord(file_);
    if (!contents) {
      return context.Fail(contents.error());
    }
    if (contents->policy.text.empty()) {
      return context.Fail({ErrorCode::kInvalidInput, file_ + ": observations hold no verdict",
                           "use 'dlc-check judge'"});
    }
    WarnUnverified(context, *contents);
    Report report;
    report.observations = std::move(contents->observations);
    report.policy_source = contents->policy;
    const auto policy = ReadPolicySource(report.policy_source);
    report.policy_name = policy ? policy->name : "";
    report.findings = std::move(contents->findings);
    report.outcome = contents->outcome;
    report.signature = contents->signature;
    return Render(context, report);
  }

 private:
  std::string file_;
};

/// "30d", "12h", "90m", "45s".
Result<std::chrono::seconds> ParseAge(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const std::int64_t factor = unit == "d"   ? 86400
                              : unit == "h" ? 3600
                              : unit == "m" ? 60
                              : unit == "s" ? 1
                                            : 0;
  std::int64_t seconds = 0;
  if (status != std::errc() || number <= 0 || factor == 0 ||
      __builtin_mul_overflow(number, factor, &seconds) || seconds > std::int64_t{86400} * 36500) {
    return Error{ErrorCode::kInvalidInput, "--max-age '" + text + "' is not an age",
                 "a whole number and d, h, m or s: 30d"};
  }
  return std::chrono::seconds(seconds);
}

class VerifyCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* group = parent.add_subcommand("report", "evidence: `report verify`, `report show`");
    CLI::App* app = group->add_subcommand(
        "verify", "is this evidence genuine, whole, about this image, and what does it say?");
    app->add_option("EVIDENCE", file_, "evidence.sigstore.json or evidence.dsse.json")->required();
    app->add_option("--key", keys_, "public key (PEM) that may have signed; repeatable")
        ->type_name("PUB");
    app->add_option("--keyring", keyring_, "directory: every *.pub in it may have signed")
        ->type_name("DIR");
    app->add_option("--image", image_, "the image it must be about, pinned: REF@sha256:..")
        ->type_name("REF");
    app->add_option("--digest", digests_, "a digest that must be among its subjects; repeatable")
        ->type_name("DIGEST");
    app->add_option("--max-age", max_age_, "refuse older evidence: 30d, 12h")->type_name("AGE");
    AddOutputOptions(*app, context, {"text", "json"});
    app->footer(
        "Example: dlc-check report verify evidence.sigstore.json --key dlc-check.pub --max-age "
        "30d\n\n" +
        Text(kVerifyExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    auto options = Options();
    if (!options) {
      return context.Fail(options.error());
    }
    // One byte over the bound is enough for the verifier to refuse it by size.
    const auto bytes = ReadFileBytes(file_, std::size_t{1} << 30U);
    if (!bytes) {
      return context.Fail(bytes.error());
    }
    const VerifyResult result = VerifyEvidence(*bytes, *options);
    context.format == "json" ? PrintJson(context, result) : PrintText(context, result);
    return CodeOf(result);
  }

 private:
  Result<VerifyOptions> Options() const {
    VerifyOptions options;
    auto key_files = KeyFiles();
    if (!key_files) {
      return key_files.error();
    }
    for (const std::string& path : *key_files) {
      auto key = LoadPublicKey(path);
      if (!key) {
        return key.error();
      }
      options.keys.push_back(std::move(key).value());
    }
    for (const std::string& text : digests_) {
      auto digest = Digest::Parse(text);
      if (!digest) {
        return Error{ErrorCode::kInvalidInput, "--digest " + digest.error().message,
                     digest.error().hint};
      }
      options.expected_digests.push_back(*digest);
    }
    if (!image_.empty()) {
      auto reference = ImageReference::Parse(image_);
      if (!reference) {
        return reference.error();
      }
      if (reference->digest.empty()) {
        return Error{ErrorCode::kInvalidInput,
                     "--image '" + image_ + "' is not pinned: a tag may have moved since the run",
                     "write REF@sha256:..."};
      }
      options.expected_digests.push_back(reference->digest);
    }
    if (!max_age_.empty()) {
      auto age = ParseAge(max_age_);
      if (!age) {
        return age.error();
      }
      options.max_age = *age;
    }
    options.now = std::chrono::system_clock::now();
    options.tool_version = kVersion;
    options.tool_commit = kCommit;
    options.rejudge = [](const Observations& observations,
                         const PolicySource& source) -> Result<Rejudged> {
      auto policy = ReadPolicySource(source);
      if (!policy) {
        return policy.error();
      }
      return Rejudged{JudgeAll(observations, *policy), policy->image.digests};
    };
    return options;
  }

  Result<std::vector<std::string>> KeyFiles() const {
    std::vector<std::string> files = keys_;
    if (!keyring_.empty()) {
      std::error_code status;
      for (const auto& entry : std::filesystem::directory_iterator(keyring_, status)) {
        if (entry.path().extension() == ".pub") {
          files.push_back(entry.path().string());
        }
      }
      if (status) {
        return Error{ErrorCode::kInvalidInput,
                     "cannot read --keyring '" + keyring_ + "': " + status.message(), ""};
      }
      std::sort(files.begin(), files.end());
    }
    if (files.empty()) {
      return Error{ErrorCode::kInvalidInput,
                   keyring_.empty() ? "no key given" : "no *.pub in '" + keyring_ + "'",
                   "pass --key PUB: a key inside the evidence is never trusted"};
    }
    return files;
  }

  static ExitCode CodeOf(const VerifyResult& result) {
    switch (result.trust) {
      case Trust::kNotTrustworthy:
        return ExitCode::kNotTrustworthy;
      case Trust::kTooOld:
        return ExitCode::kIncomplete;
      case Trust::kGenuine:
        break;
    }
    return ExitCodeOf(result.contents.outcome);
  }

  static std::string Conclusion(const VerifyResult& result) {
    switch (result.trust) {
      case Trust::kNotTrustworthy:
        return "NOT TRUSTWORTHY";
      case Trust::kTooOld:
        return std::string("TOO OLD (genuine, ") + OutcomeName(result.contents.outcome) + ")";
      case Trust::kGenuine:
        break;
    }
    return std::string("GENUINE, ") + OutcomeName(result.contents.outcome);
  }

  static void PrintText(const CommandContext& context, const VerifyResult& result) {
    for (const VerifyStep& step : result.steps) {
      context.out << (step.passed ? "ok    " : "FAIL  ") << step.name << ": "
                  << PlainText(step.text) << "\n";
      if (!step.passed && !step.hint.empty()) {
        context.out << "      hint: " << PlainText(step.hint) << "\n";
      }
    }
    for (const std::string& note : result.notes) {
      context.out << "note  " << PlainText(note) << "\n";
    }
    context.out << Conclusion(result) << "\n";
  }

  static void PrintJson(const CommandContext& context, const VerifyResult& result) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const VerifyStep& step : result.steps) {
      steps.push_back(
          {{"name", step.name}, {"passed", step.passed}, {"text", step.text}, {"hint", step.hint}});
    }
    nlohmann::ordered_json subjects = nlohmann::ordered_json::array();
    for (const EvidenceSubject& subject : result.contents.subjects) {
      subjects.push_back(subject.ToString());
    }
    const bool trusted = result.trust != Trust::kNotTrustworthy;
    const nlohmann::ordered_json document = {
        {"trustworthy", trusted},
        {"tooOld", result.trust == Trust::kTooOld},
        {"outcome", trusted ? nlohmann::ordered_json(OutcomeName(result.contents.outcome))
                            : nlohmann::ordered_json()},
        {"key", result.key_fingerprint},
        {"statementDigest", result.statement_digest.ToString()},
        {"subjects", subjects},
        {"finishedAt", result.contents.observations.run.finished_at},
        {"steps", steps},
        {"notes", result.notes}};
    context.out << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                << "\n";
  }

  std::string file_;
  std::vector<std::string> keys_;
  std::string keyring_;
  std::string image_;
  std::vector<std::string> digests_;
  std::string max_age_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeReportCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<JudgeCommand>());
  commands.push_back(
      std::make_unique<VerifyCommand>());  // makes the group `report` that the next one joins
  commands.push_back(std::make_unique<ShowCommand>());
  return commands;
}

}  // namespace dlc

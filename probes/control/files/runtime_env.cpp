#include "probes/control/files/runtime_env.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "probes/control/files/requirement.h"
#include "probes/control/files/secret_text.h"

namespace dlc {
namespace {

constexpr std::array kKeys = {"pip",           "uv",        "conda",
                              "working_dir",   "env_vars",  "py_modules",
                              "py_executable", "image_uri", "container",
                              "excludes",      "config",    "worker_process_setup_hook",
                              "nsight",        "java_jars", "rocprof_sys"};

void AddOption(RuntimeEnv& env, const std::string& installer, const std::string& text) {
  env.packages.push_back({installer, WithoutSecrets(text), "", "", true});
}

void AddRequirements(const std::vector<std::string>& lines, const std::string& installer,
                     RuntimeEnv& env) {
  for (const std::string& line : lines) {
    const RequestedPackage package = ParseRequirement(line, installer);
    if (!package.text.empty() && !package.text.starts_with('#')) {
      env.packages.push_back(package);
    }
  }
}

/// `pip` and `uv`: a list, {packages: [..], ..}, or the path of a requirements file.
void ReadInstaller(const Fields& fields, const std::string& key, RuntimeEnv& env) {
  const DocNode* node = fields.Find(key);
  if (node == nullptr) {
    return;
  }
  if (node->IsScalar()) {
    AddOption(env, key, "-r " + node->text);
    return;
  }
  if (node->IsSequence()) {
    AddRequirements(fields.TextList(key), key, env);
    return;
  }
  const Fields map = fields.Map(key);
  if (const DocNode* packages = map.Find("packages"); packages != nullptr && packages->IsScalar()) {
    AddOption(env, key, "-r " + packages->text);
  } else {
    AddRequirements(map.TextList("packages"), key, env);
  }
  if (const std::string version = map.FreeText(key + "_version"); !version.empty()) {
    AddOption(env, key, key + "_version " + version);
  }
  const std::string options = key == "pip" ? "pip_install_options" : "uv_pip_install_options";
  for (const std::string& option : map.TextList(options)) {
    AddOption(env, key, option);
  }
}

/// `dependencies` of a conda environment: texts, and one map {pip: [..]}.
void ReadCondaDependencies(const Fields& conda, RuntimeEnv& env) {
  const DocNode* list = conda.Find("dependencies");
  if (list == nullptr) {
    return;
  }
  if (!list->IsSequence()) {
    conda.Fail("dependencies", "must be a list, not " + list->Describe());
    return;
  }
  for (const DocNode& item : list->items) {
    if (item.IsScalar()) {
      env.packages.push_back(ParseCondaDependency(item.text));
    } else {
      const Fields inner(conda.Reading(), &item, "conda.dependencies[]");
      AddRequirements(inner.TextList("pip"), "conda-pip", env);
    }
  }
}

void ReadConda(const Fields& fields, RuntimeEnv& env) {
  const DocNode* node = fields.Find("conda");
  if (node == nullptr) {
    return;
  }
  if (node->IsScalar()) {
    if (node->text.ends_with(".yml") || node->text.ends_with(".yaml")) {
      AddOption(env, "conda", "--file " + node->text);
    } else {
      env.conda_env = WithoutUrlCredentials(node->text);
    }
    return;
  }
  const Fields conda = fields.Map("conda");
  for (const std::string& channel : conda.TextList("channels")) {
    AddOption(env, "conda", "--channel " + channel);
  }
  ReadCondaDependencies(conda, env);
}

}  // namespace

RuntimeEnv ReadRuntimeEnv(const Fields& fields) {
  RuntimeEnv env;
  ReadInstaller(fields, "pip", env);
  ReadInstaller(fields, "uv", env);
  ReadConda(fields, env);
  env.py_executable = WithoutSecrets(fields.FreeText("py_executable"));
  env.image_uri = WithoutUrlCredentials(fields.FreeText("image_uri"));
  if (env.image_uri.empty()) {
    env.image_uri = WithoutUrlCredentials(fields.Map("container").FreeText("image"));
  }
  env.working_dir = WithoutUrlCredentials(fields.FreeText("working_dir"));
  const Fields variables = fields.Map("env_vars");
  for (const std::string& name : variables.Keys()) {
    const std::string value = WithoutSecrets(variables.FreeText(name));
    env.env_vars[name] = LooksSecret(name) ? std::string(kRedacted) : value;
  }
  return env;
}

bool LooksLikeRuntimeEnv(const DocNode& node) {
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](const char* key) { return node.Find(key) != nullptr; });
}

}  // namespace dlc

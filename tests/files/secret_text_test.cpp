#include "probes/control/files/secret_text.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace dlc {
namespace {

TEST_CASE("secrets: names of variables and of options") {
  for (const char* name : {"HF_TOKEN", "X_KEY", "--token", "--hf-token", "--hf_token", "--password",
                           "--api-key", "--apikey", "--wandb.apiKey", "redis-password", "--secrets",
                           "authToken", "--auth", "X-Api-Key", "X-Amz-Signature", "--pass"}) {
    CAPTURE(name);
    CHECK(NamesSecret(name));
  }
  for (const char* name :
       {"--max-tokens", "--tokenizer", "--max_tokens", "trainer.max_tokens", "--model",
        "--bypass-cache", "FI_PROVIDER", "", "--keyboard", "--authors"}) {
    CAPTURE(name);
    CHECK_FALSE(NamesSecret(name));
  }
}

TEST_CASE("secrets: a command line keeps everything but the values") {
  const std::vector<std::pair<const char*, const char*>> lines = {
      {"train --token hush --steps 5", "train --token (redacted) --steps 5"},
      {"train --token=hush", "train --token=(redacted)"},
      {"train --token 'hu sh' -x", "train --token '(redacted)' -x"},
      {"train --token=\"hu sh\" -x", "train --token=\"(redacted)\" -x"},
      {"train --token=\"hu\\\"sh\" -x", "train --token=\"(redacted)\" -x"},
      {"train --password hu\\ sh -x", "train --password (redacted) -x"},
      {"train --password=\"hush\"hush -x", "train --password=(redacted) -x"},
      {"train --password=hu,s}h -x", "train --password=(redacted) -x"},
      {"X_KEY=hush HF_TOKEN='hush' python t.py",
       "X_KEY=(redacted) HF_TOKEN='(redacted)' python t.py"},
      {"export X_KEY=hush; pip install torch", "export X_KEY=(redacted); pip install torch"},
      {"export X_KEY=hush&& pip install torch", "export X_KEY=(redacted)&& pip install torch"},
      {"sh -c \"train --token=hush\" && pip install torch",
       "sh -c \"train --token=(redacted)\" && pip install torch"},
      {"sh -c 'train --token hush' && pip install torch",
       "sh -c 'train --token (redacted)' && pip install torch"},
      {"train --token \\\n  hush -x", "train --token \\\n  (redacted) -x"},
      {"curl -u ci:hush https://h", "curl -u (redacted) https://h"},
      {"curl -H \"Authorization: Bearer hush\" https://h",
       "curl -H \"Authorization: Bearer (redacted)\" https://h"},
      {"curl -H 'X-Api-Key: hush' https://h", "curl -H 'X-Api-Key: (redacted)' https://h"},
      {"echo Bearer hush", "echo Bearer (redacted)"},
      {R"x(ray job --runtime-env-json '{"env_vars": {"HF_TOKEN": "hush", "A": "b"}}' -- t)x",
       R"x(ray job --runtime-env-json '{"env_vars": {"HF_TOKEN": "(redacted)", "A": "b"}}' -- t)x"},
      {R"x(ray --json "{\"HF_TOKEN\":\"hush\",\"A\":\"b\"}" t)x",
       R"x(ray --json "{\"HF_TOKEN\":\"(redacted)\",\"A\":\"b\"}" t)x"},
      {R"x(run ["--token", "hush", "-x"])x", R"x(run ["--token", "(redacted)", "-x"])x"},
      {"get https://u:hush@h/a?X-Amz-Signature=hush&b=hush#f -x",
       "get https://(redacted)@h/a?(redacted)#f -x"},
      {"get 'https://h/a?sig=hush' -x", "get 'https://h/a?(redacted)' -x"},
      {"two https://h/?a=hush https://u:hush@i/",
       "two https://h/?(redacted) https://(redacted)@i/"},
      {"train --token hush", "train --token (redacted)"},
  };
  for (const auto& [line, clean] : lines) {
    CAPTURE(line);
    CHECK(WithoutSecrets(line) == clean);
    CHECK(WithoutSecrets(clean) == clean);
  }
}

TEST_CASE("secrets: what is none stays") {
  for (const char* line :
       {"", "--token", "--token=", "train --token --steps 5", "train --token $HF_TOKEN",
        "train --token=\"${HF_TOKEN}\" -x", "python -u train.py", "docker run repo/my-token:v1",
        "train --max-tokens 4096 --tokenizer qwen trainer.max_tokens=5", "pip install torch==2.4",
        "echo don't --token", "https://h/a", "https://h/a?", "a \\", "key:", "--token ''"}) {
    CAPTURE(line);
    CHECK(WithoutSecrets(line) == line);
  }
  // A default is no reference.
  CHECK(WithoutSecrets("t --token ${A:-hush}") == "t --token (redacted)");
}

TEST_CASE("secrets: a value may be an argument of its own, or come with the args") {
  std::vector<std::string> command = {"python", "t.py", "--token", "hush", "--steps", "--password"};
  std::vector<std::string> args = {"hu sh", "--key=hush", "--api-key",   "--other",
                                   "word",  "--token",    "$(HF_TOKEN)", "X_KEY=hush run"};
  RemoveSecrets(command, args);
  CHECK(command == std::vector<std::string>{"python", "t.py", "--token", "(redacted)", "--steps",
                                            "--password"});
  CHECK(args == std::vector<std::string>{"(redacted)", "--key=(redacted)", "--api-key", "--other",
                                         "word", "--token", "$(HF_TOKEN)", "X_KEY=(redacted) run"});
}

TEST_CASE("secrets: nothing breaks it") {
  const std::string alphabet = "\"'\\ :=,-&t?";
  // Every text of five of these after a secret name.
  for (int n = 0; n < 161051; ++n) {
    std::string text = "--token";
    for (int rest = n, i = 0; i < 5; ++i, rest /= 11) {
      text += alphabet[static_cast<std::size_t>(rest % 11)];
    }
    const std::string clean = WithoutSecrets(text);
    if (!clean.starts_with("--token")) {
      FAIL(text);
    }
  }
}

}  // namespace
}  // namespace dlc

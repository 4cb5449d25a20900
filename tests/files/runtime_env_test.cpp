#include "probes/control/files/runtime_env.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace dlc {
namespace {

struct Read {
  RuntimeEnv env;
  bool failed = false;
  Error error;
};
Read Parse(std::string_view text) {
  const auto document = ParseDocument(text, "env.json");
  REQUIRE_MESSAGE(document, document.error().message);
  FileReading reading;
  reading.file = "env.json";
  Read read{ReadRuntimeEnv(Fields(reading, &document->roots.at(0), "")), false, {}};
  read.failed = reading.failed;
  read.error = reading.error;
  return read;
}

std::vector<std::string> Names(const RuntimeEnv& env) {
  std::vector<std::string> names;
  for (const RequestedPackage& package : env.packages) {
    names.push_back(package.installer + ":" + (package.is_option ? package.text : package.name));
  }
  return names;
}

TEST_CASE("runtime_env: each shape of pip, uv and conda gives the same packages") {
  using List = std::vector<std::string>;
  struct Row {
    const char* text;
    List names;
  };
  const Row rows[] = {
      {R"({"pip":["torch==2","nvidia_nccl_cu13"]})", {"pip:torch", "pip:nvidia-nccl-cu13"}},
      {R"({"pip":{"packages":["torch==2"],"pip_check":false}})", {"pip:torch"}},
      {R"({"pip":{"packages":["torch"],"pip_version":"==22.0.2","pip_install_options":["--no-deps"]}})",
       {"pip:torch", "pip:pip_version ==22.0.2", "pip:--no-deps"}},
      {R"({"pip":"requirements.txt"})", {"pip:-r requirements.txt"}},
      {R"({"pip":["# comment","","requests"]})", {"pip:requests"}},
      {R"({"uv":["torch"]})", {"uv:torch"}},
      {R"({"uv":{"packages":["torch"],"uv_version":"==0.8"}})",
       {"uv:torch", "uv:uv_version ==0.8"}},
      {R"({"conda":{"channels":["c"],"dependencies":["numpy=1","pip",{"pip":["torch"]}]}})",
       {"conda:--channel c", "conda:numpy", "conda:pip", "conda-pip:torch"}},
      {R"({"conda":"environment.yaml"})", {"conda:--file environment.yaml"}},
      {R"({"conda":"my-env"})", {}},
      {R"({"pip":null,"uv":[]})", {}},
      {R"({})", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const Read read = Parse(row.text);
    REQUIRE_MESSAGE(!read.failed, read.error.message);
    CHECK(Names(read.env) == row.names);
  }
  CHECK(Parse(R"({"conda":"my-env"})").env.conda_env == "my-env");
}

TEST_CASE("runtime_env: what swaps image, interpreter or directory is kept") {
  const RuntimeEnv env =
      Parse(
          R"({"py_executable":"uv run","image_uri":"other:1","working_dir":"gcs://_ray_pkg_1.zip"})")
          .env;
  CHECK(env.py_executable == "uv run");
  CHECK(env.image_uri == "other:1");
  CHECK(env.working_dir == "gcs://_ray_pkg_1.zip");
  CHECK(Parse(R"({"container":{"image":"other:2","run_options":["-x"]}})").env.image_uri ==
        "other:2");
}

TEST_CASE("runtime_env: values of variables that look secret are not copied") {
  const RuntimeEnv env =
      Parse(R"({"env_vars":{"HF_TOKEN":"hf_1","NCCL_DEBUG":"INFO","INDEX":"https://u:p@x.test/"}})")
          .env;
  CHECK(env.env_vars.at("HF_TOKEN") == "(redacted)");
  CHECK(env.env_vars.at("NCCL_DEBUG") == "INFO");
  CHECK(env.env_vars.at("INDEX") == "https://(redacted)@x.test/");
}

TEST_CASE("runtime_env: shapes that Ray would refuse are errors, not nothing") {
  for (const char* text :
       {R"({"pip":[{"a":1}]})", R"({"pip":{"packages":{"torch":"1"}}})", R"({"conda":["numpy"]})",
        R"({"conda":{"dependencies":"numpy"}})", R"({"env_vars":["A=1"]})", R"(["torch"])"}) {
    CAPTURE(std::string(text));
    const Read read = Parse(text);
    CHECK(read.failed);
    CHECK(read.error.code == ErrorCode::kInvalidInput);
  }
}

}  // namespace
}  // namespace dlc

#include "probes/control/ray/ray_token.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dlc {
namespace {

class TokenHome {
 public:
  TokenHome() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "dlc-ray-token-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TokenHome() { std::filesystem::remove_all(path_); }
  TokenHome(const TokenHome&) = delete;
  TokenHome& operator=(const TokenHome&) = delete;

  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }
  const std::string& Path() const { return path_; }

 private:
  std::string path_;
};

TEST_CASE("ray token: Ray's own order") {
  const TokenHome home;
  const std::string file = home.Write("token", "of-the-file\n");
  home.Write(".ray/auth_token", " of-home \r\n");
  CHECK(FindRayToken({"of-env", file, home.Path()})->value == "of-env");
  CHECK(FindRayToken({"of-env", file, home.Path()})->where == "RAY_AUTH_TOKEN");
  CHECK(FindRayToken({"", file, home.Path()})->value == "of-the-file");
  CHECK(FindRayToken({"", file, home.Path()})->where == "'" + file + "' (RAY_AUTH_TOKEN_PATH)");
  CHECK(FindRayToken({"", "", home.Path()})->value == "of-home");
  CHECK(FindRayToken({"", "", home.Path()})->where == "'" + home.Path() + "/.ray/auth_token'");
}

TEST_CASE("ray token: none is none, and a named file that is not there is an error") {
  const TokenHome home;
  CHECK(FindRayToken({"", "", home.Path()})->value.empty());
  CHECK(FindRayToken({"", "", ""})->value.empty());
  const auto named = FindRayToken({"", home.Path() + "/absent", home.Path()});
  REQUIRE_FALSE(named.has_value());
  CHECK(named.error().code == ErrorCode::kPermissionDenied);
  CHECK(named.error().message.find("absent' (RAY_AUTH_TOKEN_PATH) cannot be read") !=
        std::string::npos);
}

TEST_CASE("ray token: what fits into no header is refused, without a word of it") {
  const TokenHome home;
  for (const char* bad : {"hush hush", "hush\r\nX-Other: 1", "hush\x7f", "hush\xc3\xa9"}) {
    for (const auto& token :
         {FindRayToken({bad, "", ""}), FindRayToken({"", home.Write("bad", bad), ""})}) {
      REQUIRE_FALSE(token.has_value());
      CHECK(token.error().message.find("hush") == std::string::npos);
    }
  }
  CHECK(FindRayToken({" \n", "", ""}).error().message.find("is empty") != std::string::npos);
  CHECK_FALSE(FindRayToken({"", home.Write("empty", "\n"), ""}).has_value());
}

}  // namespace
}  // namespace dlc

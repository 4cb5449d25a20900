#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "reports/render.h"
#include "tests/reports/sample_reports.h"

namespace dlc {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), "cannot read ", path, "; DLC_UPDATE_GOLDEN=1 writes it");
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void CompareWithGolden(const std::string& name, const std::string& rendered) {
  const std::string path = std::string(DLC_GOLDEN) + "/reports/" + name;
  CAPTURE(path);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (const char* update = std::getenv("DLC_UPDATE_GOLDEN"); update != nullptr && *update != '\0') {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << rendered;
  }
  CHECK(rendered == ReadFile(path));
}

std::string Render(std::string_view format, const Report& report) {
  const Renderer* renderer = FindRenderer(format);
  REQUIRE(renderer != nullptr);
  return renderer->render(report, {});
}

TEST_CASE("each sample report renders to its golden text") {
  for (const auto& [name, report] : SampleReports()) {
    CompareWithGolden(name + ".txt", Render("text", report));
  }
}

TEST_CASE("verbose text names every pass and every subject") {
  CompareWithGolden("worst_first.verbose.txt", RenderText(WorstFirst(), {.verbose = true}));
}

TEST_CASE("coloured, narrow text renders to its golden text") {
  CompareWithGolden("worst_first.color60.txt",
                    RenderText(WorstFirst(), {.color = true, .width = 60}));
}

TEST_CASE("each sample report renders to its golden JSON") {
  for (const auto& [name, report] : SampleReports()) {
    CompareWithGolden(name + ".json", Render("json", report));
  }
}

TEST_CASE("each sample report renders to its golden JUnit XML") {
  for (const auto& [name, report] : SampleReports()) {
    CompareWithGolden(name + ".xml", Render("junit", report));
  }
}

TEST_CASE("each sample report renders to its golden CTRF") {
  for (const auto& [name, report] : SampleReports()) {
    CompareWithGolden(name + ".ctrf.json", Render("ctrf", report));
  }
}

TEST_CASE("each sample report renders to its golden Markdown") {
  for (const auto& [name, report] : SampleReports()) {
    CompareWithGolden(name + ".md", Render("markdown", report));
  }
}

}  // namespace
}  // namespace dlc

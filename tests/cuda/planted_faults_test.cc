// docs/gpu-emulation.md names a test for each planted fault.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "tests/catch.h"

namespace leat {
namespace {

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The names in quotes of the last column of the table behind the heading.
std::vector<std::string> tests_of_page() {
  std::ifstream page(LEAT_SOURCE_DIR "/docs/gpu-emulation.md");
  std::vector<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Planted faults";
    if (!inside || !line.starts_with("| ")) continue;
    const std::string column = line.substr(line.rfind('|', line.size() - 2));
    for (size_t at = 0; (at = column.find('"', at)) != std::string::npos;) {
      const size_t end = column.find('"', at + 1);
      names.push_back(column.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return names;
}

// The text with the line breaks that a formatter puts into names taken out.
std::string joined_names(std::string text) {
  for (size_t at = 0; (at = text.find("(\n", at)) != std::string::npos;) {
    const size_t end = text.find_first_not_of(" \n", at + 1);
    text.erase(at + 1, end - at - 1);
  }
  return text;
}

}  // namespace

TEST_CASE("each planted fault of the page about the emulated GPU has its test") {
  std::string tests;
  for (const auto& file : std::filesystem::directory_iterator(LEAT_SOURCE_DIR "/tests/cuda"))
    if (file.is_regular_file()) tests += joined_names(text_of_file(file.path()));
  const std::vector<std::string> named = tests_of_page();
  CHECK(named.size() >= 20);
  for (const std::string& name : named) {
    INFO(name);
    CHECK(tests.find(cat("TEST_CASE(\"", name, "\")")) != std::string::npos);
  }
}

}  // namespace leat

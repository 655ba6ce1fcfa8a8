#include "tests/scheduler/golden_text.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/catch.h"

namespace leat {

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LEAT_SOURCE_DIR) + "/tests/scheduler/golden/" + name;
  if (std::getenv("LEAT_WRITE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream in(path);
  REQUIRE(in.good());
  std::ostringstream golden;
  golden << in.rdbuf();
  CHECK(text == golden.str());
}

}  // namespace leat

#include "tests/daemon/json_lines.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace leat {

std::string last_object(const std::string& lines) {
  std::string last = "{}";
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    if (nlohmann::json::parse(line, nullptr, false).is_object()) last = line;
  }
  return last;
}

}  // namespace leat

// What a command prints with --json: an object a line. Brings nlohmann's header along.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

namespace leat {

// The last object in the text; empty if there is none.
inline nlohmann::json last_object(const std::string& lines) {
  nlohmann::json last = nlohmann::json::object();
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object()) last = std::move(object);
  }
  return last;
}

}  // namespace leat

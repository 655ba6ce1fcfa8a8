// Numbers of trials that the environment may set: `deploy/test --long` sets far larger ones.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace leat {

// Returns the number that the environment variable has, or `usual` where it is not set. Throws
// invalid_argument for a text that is no number.
inline uint64_t environment_number(const char* variable, uint64_t usual) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return usual;
  const std::string all = text;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (error != std::errc() || end != all.data() + all.size())
    throw std::invalid_argument(std::string(variable) + ": expected a number, received " + all);
  return number;
}

}  // namespace leat

// Numbers of trials that the environment may set: `deploy/test --long` sets far larger ones.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace leat {

// Returns the number that the environment variable has, or `usual` where it is not set.
inline uint64_t environment_number(const char* variable, uint64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

}  // namespace leat

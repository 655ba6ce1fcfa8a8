// Returns the value of a Result, or fails the test with the error.
#pragma once

#include <string>
#include <utility>

#include "devices/base/status.h"
#include "tests/catch.h"

namespace leat {

template <typename T>
T must(Result<T> result) {
  INFO((result.ok() ? std::string() : result.status().to_string()));
  REQUIRE(result.ok());
  return std::move(result).value();
}
inline void must(const Status& status) {
  INFO(status.to_string());
  REQUIRE(status.ok());
}

}  // namespace leat

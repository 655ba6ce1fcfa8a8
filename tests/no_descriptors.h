// Keeps this process from opening any more files for the object's lifetime.
#pragma once

#include <sys/resource.h>

#include "tests/catch.h"

namespace leat {

class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none{0, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace leat

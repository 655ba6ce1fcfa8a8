// Counts the calls of operator new in this test binary while a CountedNew lives.
#pragma once

#include <cstdint>

namespace leat {

// Counts from its construction on. Only one at a time.
class CountedNew {
 public:
  CountedNew();
  ~CountedNew();
  CountedNew(const CountedNew&) = delete;
  CountedNew& operator=(const CountedNew&) = delete;

  struct Counts {
    int64_t ours = 0;       // calls from Leat's libraries or the test
    int64_t libraries = 0;  // calls from other libraries
  };
  Counts counts() const;
};

}  // namespace leat

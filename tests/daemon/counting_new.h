// operator new of this test binary, counted while a CountedNew lives.
#pragma once

#include <cstdint>

namespace leat {

class CountedNew {
 public:
  CountedNew();
  ~CountedNew();
  CountedNew(const CountedNew&) = delete;
  CountedNew& operator=(const CountedNew&) = delete;

  struct Counts {
    int64_t ours = 0;       // asked for by Leat's libraries or the test
    int64_t libraries = 0;  // by anybody else's
  };
  Counts counts() const;
};

}  // namespace leat

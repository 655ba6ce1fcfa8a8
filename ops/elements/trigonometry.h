// The functors of the functions beside Sin, Cos and Tanh: see element.h. They are calls of the
// device's library.
#pragma once

#include <cmath>

#include "ops/elements/element.h"

namespace leat::elementwise {

// A functor of a function of the C library.
#define LEAT_LIBRARY_FUNCTION(name, function)        \
  struct name {                                      \
    template <typename T>                            \
    LEAT_INLINE static T apply(T x, const double*) { \
      return std::function(x);                       \
    }                                                \
  };
LEAT_LIBRARY_FUNCTION(TanOf, tan)
LEAT_LIBRARY_FUNCTION(AsinOf, asin)
LEAT_LIBRARY_FUNCTION(AcosOf, acos)
LEAT_LIBRARY_FUNCTION(AtanOf, atan)
LEAT_LIBRARY_FUNCTION(SinhOf, sinh)
LEAT_LIBRARY_FUNCTION(CoshOf, cosh)
LEAT_LIBRARY_FUNCTION(AsinhOf, asinh)
LEAT_LIBRARY_FUNCTION(AcoshOf, acosh)
LEAT_LIBRARY_FUNCTION(AtanhOf, atanh)
#undef LEAT_LIBRARY_FUNCTION

}  // namespace leat::elementwise

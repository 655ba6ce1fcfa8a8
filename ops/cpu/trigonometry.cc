// CPU kernels of ops/definitions/trigonometry.cc: calls of the C library, one for each element.
#include <cmath>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"

namespace leat {
namespace {

using elementwise::unary_floats;

// A functor of a function of the C library.
#define LEAT_LIBRARY_FUNCTION(name, function) \
  struct name {                               \
    template <typename T>                     \
    static T apply(T x, const double*) {      \
      return std::function(x);                \
    }                                         \
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

template <typename F>
void add(Catalogue& catalogue, const char* op) {
  catalogue.add_kernel(op, "cpu", loop_kernel(unary_floats<F>, nullptr));
}

}  // namespace

void add_trigonometry_kernels(Catalogue& catalogue) {
  add<TanOf>(catalogue, "Tan");
  add<AsinOf>(catalogue, "Asin");
  add<AcosOf>(catalogue, "Acos");
  add<AtanOf>(catalogue, "Atan");
  add<SinhOf>(catalogue, "Sinh");
  add<CoshOf>(catalogue, "Cosh");
  add<AsinhOf>(catalogue, "Asinh");
  add<AcoshOf>(catalogue, "Acosh");
  add<AtanhOf>(catalogue, "Atanh");
}

}  // namespace leat

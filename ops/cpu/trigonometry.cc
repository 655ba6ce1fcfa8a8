// CPU kernels of ops/definitions/trigonometry.cc: calls of the C library, one for each element.
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/elements/trigonometry.h"

namespace leat {
namespace {

using elementwise::AcosOf;
using elementwise::AcoshOf;
using elementwise::AsinOf;
using elementwise::AsinhOf;
using elementwise::AtanOf;
using elementwise::AtanhOf;
using elementwise::CoshOf;
using elementwise::SinhOf;
using elementwise::TanOf;
using elementwise::unary_floats;

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

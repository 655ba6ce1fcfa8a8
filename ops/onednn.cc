#include "ops/onednn.h"

#include <dnnl.h>
#include <omp.h>

namespace leat::onednn {
namespace {

// OpenMP keeps its thread count per thread, and the library reads it at creation and at execution.
void single_thread() {
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

}  // namespace

bool sgemm(const Gemm& g, const float* a, const float* b, float* c) {
  single_thread();
  return dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k, g.alpha, a, g.lda,
                    b, g.ldb, 0.0f, c, g.ldc) == dnnl_success;
}

}  // namespace leat::onednn

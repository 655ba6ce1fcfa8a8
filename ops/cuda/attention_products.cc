#include "ops/cuda/attention_products.h"

#include <algorithm>

#include "devices/base/align.h"

namespace leat::cuda {
namespace {

constexpr int64_t kMostScores = int64_t{128} << 20;  // bytes at a time, if a batch has so few
constexpr size_t kScoreAlignment = 256;

DType wide(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// True if the heads of all items of the batch are evenly spaced.
bool is_even(const HeadSteps& steps, int64_t heads) { return steps.batch == heads * steps.head; }

const void* moved(const void* base, int64_t elements, DType dtype) {
  if (!base) return nullptr;
  return static_cast<const std::byte*>(base) + static_cast<size_t>(elements) * dtype_size(dtype);
}
void* moved(void* base, int64_t elements, DType dtype) {
  return const_cast<void*>(moved(static_cast<const void*>(base), elements, dtype));
}

}  // namespace

AttentionProducts::AttentionProducts(const AttentionCall& call, const Form& form)
    : dtype_(form.dtype),
      gradient_(form.gradient),
      tf32_(form.tf32),
      pairs_(call.queries * call.keys) {
  const int64_t heads = call.q_heads;
  const bool even = is_even(call.of_q, heads) && is_even(call.of_k, heads) &&
                    is_even(call.of_v, heads) && is_even(call.of_y, heads);
  const auto score_bytes = static_cast<int64_t>(dtype_size(wide(dtype_)));
  const int64_t most = kMostScores / (heads * pairs_ * score_bytes);
  // The products are the same each time, so the number divides the batch.
  for (int64_t n = even ? std::clamp<int64_t>(most, 1, call.batch) : 1; n > 0; --n) {
    if (call.batch % n != 0) continue;
    at_a_time_ = n;
    break;
  }
  repeats_ = call.batch / at_a_time_;
  items_ = at_a_time_ * heads;
  const auto bytes = [&](DType of) {
    return align_up(static_cast<size_t>(items_ * pairs_) * dtype_size(of), kScoreAlignment);
  };
  weights_at_ = bytes(wide(dtype_));
  score_grads_at_ = weights_at_ + bytes(dtype_);
  weight_grads_at_ = score_grads_at_ + (gradient_ ? bytes(dtype_) : 0);
  products_at_ = weight_grads_at_ + (gradient_ ? bytes(wide(dtype_)) : 0);
}

std::shared_ptr<AttentionProducts> AttentionProducts::make(const CublasLt& library,
                                                           const AttentionCall& call,
                                                           const Form& form) {
  if (call.q_heads != call.kv_heads || call.batch * call.q_heads * call.queries * call.keys == 0 ||
      call.head == 0 || call.v_head == 0)
    return nullptr;
  std::shared_ptr<AttentionProducts> made(new AttentionProducts(call, form));
  return made->make_products(library, call) ? made : nullptr;
}

std::shared_ptr<LibraryProduct> AttentionProducts::product(const CublasLt& library,
                                                           ProductCall call, ProductLayout layout) {
  call.items = items_;
  layout.dtype = dtype_;
  layout.tf32 = tf32_;
  auto made = LibraryProduct::make(library, call, layout);
  if (made) product_bytes_ = std::max(product_bytes_, made->workspace_bytes());
  return made;
}

bool AttentionProducts::make_products(const CublasLt& library, const AttentionCall& call) {
  // A product of matrices [m, k] and [k, n], from one row to the next and one head to the next.
  struct Matrix {
    int64_t row, head;
    bool transposed = false;
  };
  const auto by = [&](int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, Matrix y, double alpha,
                      DType y_dtype) {
    ProductCall product_call;
    product_call.m = m;
    product_call.n = n;
    product_call.k = k;
    product_call.lda = a.row;
    product_call.ldb = b.row;
    product_call.trans_a = a.transposed;
    product_call.trans_b = b.transposed;
    product_call.alpha = alpha;
    return product(library, product_call, {dtype_, y_dtype, a.head, b.head, y.head, y.row});
  };
  const auto of = [](const HeadSteps& steps, bool transposed = false) {
    return Matrix{steps.row, steps.head, transposed};
  };
  const Matrix pairs{call.keys, pairs_}, pairs_back{call.keys, pairs_, true};
  const int64_t q = call.queries, k = call.keys, d = call.head, v = call.v_head;
  scores_ = by(q, k, d, of(call.of_q), of(call.of_k, true), pairs, call.scale, wide(dtype_));
  if (!scores_) return false;
  if (!gradient_) {
    attended_ = by(q, v, k, pairs, of(call.of_v), of(call.of_y), 1, dtype_);
    return attended_ != nullptr;
  }
  weight_grads_ = by(q, k, v, of(call.of_y), of(call.of_v, true), pairs, 1, wide(dtype_));
  dq_ = by(q, d, k, pairs, of(call.of_k), of(call.of_q), call.scale, dtype_);
  dk_ = by(k, d, q, pairs_back, of(call.of_q), of(call.of_k), call.scale, dtype_);
  dv_ = by(k, v, q, pairs_back, of(call.of_y), of(call.of_v), 1, dtype_);
  return weight_grads_ && dq_ && dk_ && dv_;
}

bool AttentionProducts::takes(const AttentionCall& call) const {
  // The first operands of each repeat are evenly spaced: those of two tell of all.
  for (int64_t i = 0; i < std::min<int64_t>(repeats_, 2); ++i) {
    const auto fits = [&](const void* base, const HeadSteps& steps) {
      return LibraryProduct::takes(moved(base, i * at_a_time_ * steps.batch, dtype_));
    };
    if (!fits(call.q, call.of_q) || !fits(call.k, call.of_k) || !fits(call.v, call.of_v) ||
        !fits(gradient_ ? call.dy : call.y, call.of_y) || !fits(call.dq, call.of_q) ||
        !fits(call.dk, call.of_k) || !fits(call.dv, call.of_v))
      return false;
  }
  return true;
}

cudaError_t AttentionProducts::enqueue(const AttentionCall& call, std::byte* workspace,
                                       cudaStream_t stream) const {
  WeightsCall rows;
  rows.scores = workspace;
  rows.weights = workspace + weights_at_;
  rows.score_grads = workspace + score_grads_at_;
  rows.weight_grads = workspace + weight_grads_at_;
  rows.batches = at_a_time_;
  const auto multiply = [&](const LibraryProduct& product, const void* a, const void* b, void* y) {
    ProductCall now;
    now.a = a;
    now.b = b;
    now.y = y;
    return product.enqueue(now, workspace + products_at_, stream);
  };
  for (int64_t i = 0; i < repeats_; ++i) {
    rows.first_batch = i * at_a_time_;
    const auto at = [&](auto* base, const HeadSteps& steps) {
      return moved(base, rows.first_batch * steps.batch, dtype_);
    };
    const void *q = at(call.q, call.of_q), *k = at(call.k, call.of_k), *v = at(call.v, call.of_v);
    cudaError_t error = multiply(*scores_, q, k, rows.scores);
    if (!gradient_) {
      if (error == cudaSuccess) error = launch_attention_weights(call, rows, dtype_, stream);
      if (error == cudaSuccess)
        error = multiply(*attended_, rows.weights, v, at(call.y, call.of_y));
      if (error != cudaSuccess) return error;
      continue;
    }
    const void* dy = at(call.dy, call.of_y);
    if (error == cudaSuccess) error = multiply(*weight_grads_, dy, v, rows.weight_grads);
    if (error == cudaSuccess) error = launch_attention_weights_grad(call, rows, dtype_, stream);
    if (error == cudaSuccess) error = multiply(*dq_, rows.score_grads, k, at(call.dq, call.of_q));
    if (error == cudaSuccess) error = multiply(*dk_, rows.score_grads, q, at(call.dk, call.of_k));
    if (error == cudaSuccess) error = multiply(*dv_, rows.weights, dy, at(call.dv, call.of_v));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace leat::cuda

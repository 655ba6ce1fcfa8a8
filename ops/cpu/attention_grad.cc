// The CPU kernel of leat.AttentionGrad. It computes the probabilities again, block by block, from
// the saved logarithms of their sums. A tile is a head of K and V with all queries that meet it, so
// that each gradient is summed by one thread, in the order of the heads, queries and keys.
#include "ops/cpu/attention_tiles.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"

namespace leat {
namespace {

template <typename T>
class AttentionGradKernel final : public Kernel {
 public:
  AttentionGradKernel(const KernelSetup& setup, const AttentionForm& form)
      : f_(form),
        subject_(setup.subject),
        has_lengths_(setup.types.has_input(kGradLengths)),
        of_mask_(setup.types.has_output(kMaskGrad)) {}

  // The gradient of the mask is a phase of its own, with tiles of the mask: many heads may share
  // one.
  int phases() const override { return of_mask_ ? 2 : 1; }
  int tiles(int phase) const override {
    const int64_t count =
        phase == 0 ? f_.batch * f_.kv_heads : f_.mask.batches * f_.mask.heads * mask_blocks();
    return static_cast<int>(std::max<int64_t>(1, count));
  }
  size_t scratch_bytes() const override {
    const auto bytes = [](int64_t n) { return AttentionScratch::bytes(n, sizeof(T)); };
    return 3 * bytes(kQueryBlock * kKeyBlock) + bytes(kKeyBlock * widest()) + bytes(kQueryBlock) +
           gemm_scratch_bytes<T>();
  }

  Progress run(KernelContext& context, int phase, int tile) override {
    AttentionOperands<T> in{context.in<T>(kGradQuery), context.in<T>(kGradKey),
                            context.in<T>(kGradValue), f_.k, f_.v};
    if (f_.mask.present) in.mask = context.inputs[kGradMask];
    if (has_lengths_) in.lengths = context.in<int64_t>(kGradLengths);
    AttentionScratch memory(context.scratch);
    Work w{};
    w.p = memory.take<T>(kQueryBlock * kKeyBlock);
    w.d = memory.take<T>(kQueryBlock * kKeyBlock);
    w.slope = memory.take<T>(kQueryBlock * kKeyBlock);
    w.part = memory.take<T>(kKeyBlock * widest());
    w.mean = memory.take<T>(kQueryBlock);
    w.gemm = memory.rest();
    w.y = context.in<T>(kGradAttended);
    w.dy = context.in<T>(kGradOfAttended);
    w.log_sums = context.in<T>(kGradLogSumExp);
    w.dq = context.out<T>(kQueryGrad);
    w.dk = context.out<T>(kKeyGrad);
    w.dv = context.out<T>(kValueGrad);
    w.dmask = of_mask_ ? context.out<T>(kMaskGrad) : nullptr;
    const bool done = phase == 0 ? of_head(in, w, tile) : of_mask(in, w, tile);
    return done ? Progress::done : attention_library_error(context, subject_);
  }

 private:
  // p: the probabilities. d: their gradients, and then those of the scores. slope: what the cap
  // multiplies gradients with. mean: of a query's probabilities' gradients.
  struct Work {
    T *p, *d, *slope, *part, *mean;
    std::byte* gemm;
    const T *y, *dy, *log_sums;
    T *dq, *dk, *dv, *dmask;
  };

  int64_t widest() const { return std::max(f_.head, f_.v_head); }
  int64_t mask_blocks() const { return f_.mask.rows > 1 ? tile_count(f_.queries, kQueryBlock) : 1; }

  bool of_head(const AttentionOperands<T>& in, const Work& w, int tile) {
    if (tile >= f_.batch * f_.kv_heads) return true;
    const int64_t n = tile / f_.kv_heads, kv_head = tile % f_.kv_heads;
    for (int64_t key = 0; key < f_.keys; ++key) {
      std::fill_n(w.dk + f_.k.at(n, kv_head, key), f_.head, T(0));
      std::fill_n(w.dv + f_.v.at(n, kv_head, key), f_.v_head, T(0));
    }
    for (int64_t g = 0; g < f_.group(); ++g) {
      const AttentionHead h = in.head(f_, n, kv_head * f_.group() + g);
      for (int64_t row = 0; row < f_.queries; row += kQueryBlock) {
        if (!of_queries(in, w, h, {row, std::min(kQueryBlock, f_.queries - row), 0, 0}))
          return false;
      }
    }
    return true;
  }

  bool of_queries(const AttentionOperands<T>& in, const Work& w, const AttentionHead& h,
                  AttentionBlock b) {
    T* const dq = w.dq + f_.q.at(h.n, h.head, b.row);
    for (int64_t i = 0; i < b.rows; ++i) std::fill_n(dq + i * f_.q.row, f_.head, T(0));
    set_means(w, h, b);
    const AttentionForm::Keys keys = visible_keys(f_, b.row, b.rows, h.length);
    for (b.key = keys.first; b.key < keys.last; b.key += kKeyBlock) {
      b.keys = std::min(kKeyBlock, keys.last - b.key);
      if (!block(in, w, h, b)) return false;
      for (int64_t i = 0; i < b.rows * b.keys && f_.softcap > 0; ++i) w.d[i] *= w.slope[i];
      // dV += P^T dY, dQ += scale dS K, dK += scale dS^T Q.
      const T one = 1, scale = static_cast<T>(f_.scale);
      const onednn::Gemm across{.trans_a = true, .m = b.keys, .k = b.rows, .lda = b.keys};
      const onednn::Gemm along{.m = b.rows, .k = b.keys, .lda = b.keys};
      if (!add(across, w.p, {w.dy + f_.y.at(h.n, h.head, b.row), f_.y.row}, one,
               {w.dv + f_.v.at(h.n, h.kv_head, b.key), f_.v.row}, f_.v_head, w) ||
          !add(along, w.d, {in.k + f_.k.at(h.n, h.kv_head, b.key), f_.k.row}, scale, {dq, f_.q.row},
               f_.head, w) ||
          !add(across, w.d, {in.q + f_.q.at(h.n, h.head, b.row), f_.q.row}, scale,
               {w.dk + f_.k.at(h.n, h.kv_head, b.key), f_.k.row}, f_.head, w))
        return false;
    }
    return true;
  }

  // Rows of a matrix, `stride` apart.
  template <typename U>
  struct Rows {
    U* at;
    int64_t stride;
  };

  // to += factor op(a) b, where b and `to` have `columns` columns.
  bool add(onednn::Gemm g, const T* a, Rows<const T> b, T factor, Rows<T> to, int64_t columns,
           const Work& w) {
    constexpr bool kFloat = std::is_same_v<T, float>;
    g.n = g.ldc = columns;
    g.ldb = b.stride;
    if constexpr (kFloat) g.alpha = factor;
    if (!gemm<T>(g, a, b.at, w.part, w.gemm)) return false;
    for (int64_t i = 0; i < g.m; ++i) {
      T* const line = w.part + i * columns;
      for (int64_t j = 0; j < columns && !kFloat; ++j) line[j] *= factor;
      scale_and_add(line, T(1), to.at + i * to.stride, columns);
    }
    return true;
  }

  // The mean of the probabilities' gradients, weighted by the probabilities: dy y for each query.
  void set_means(const Work& w, const AttentionHead& h, const AttentionBlock& b) {
    for (int64_t i = 0; i < b.rows; ++i) {
      const int64_t at = f_.y.at(h.n, h.head, b.row + i);
      w.mean[i] = dot(w.dy + at, w.y + at, f_.v_head);
    }
  }

  // The probabilities of a block, and the gradients of its masked scores. REQUIRES: the means.
  bool block(const AttentionOperands<T>& in, const Work& w, const AttentionHead& h,
             const AttentionBlock& b) {
    if (!score_products(f_, in, h, b, w.p, w.gemm)) return false;
    const int64_t n = b.rows * b.keys;
    if (f_.softcap > 0) {
      const T cap = static_cast<T>(f_.softcap);
      cap_scores(cap, w.p, n);
      for (int64_t i = 0; i < n; ++i) w.slope[i] = 1 - (w.p[i] / cap) * (w.p[i] / cap);
    }
    mask_scores(f_, in, h, b, w.p);
    const onednn::Gemm g{.trans_b = true,
                         .m = b.rows,
                         .n = b.keys,
                         .k = f_.v_head,
                         .lda = f_.y.row,
                         .ldb = f_.v.row,
                         .ldc = b.keys};
    if (!gemm<T>(g, w.dy + f_.y.at(h.n, h.head, b.row), in.v + f_.v.at(h.n, h.kv_head, b.key), w.d,
                 w.gemm))
      return false;
    const T* const log_sums = w.log_sums + (h.n * f_.q_heads + h.head) * f_.queries + b.row;
    for (int64_t i = 0; i < b.rows; ++i) {
      probabilities(log_sums[i], w.p + i * b.keys, b.keys);
      score_gradients(w.p + i * b.keys, w.mean[i], w.d + i * b.keys, b.keys);
    }
    return true;
  }

  // The rows of the mask that are one tile, from all heads, rows of the batch and queries that have
  // them.
  bool of_mask(const AttentionOperands<T>& in, const Work& w, int tile) {
    const MaskForm& m = f_.mask;
    const int64_t index = tile / mask_blocks();
    if (index >= m.batches * m.heads) return true;
    const int64_t of_n = index / m.heads, of_h = index % m.heads;
    const int64_t first = tile % mask_blocks() * kQueryBlock;
    const int64_t last = m.rows > 1 ? std::min(first + kQueryBlock, f_.queries) : f_.queries;
    const int64_t rows = m.rows > 1 ? last - first : m.rows;
    std::fill_n(w.dmask + m.at(of_n, of_h, first), rows * m.width, T(0));
    const auto range = [](int64_t size, int64_t one, int64_t all) {
      return size > 1 ? std::pair(one, one + 1) : std::pair(int64_t{0}, all);
    };
    const auto [n_from, n_to] = range(m.batches, of_n, f_.batch);
    const auto [h_from, h_to] = range(m.heads, of_h, f_.q_heads);
    for (int64_t n = n_from; n < n_to; ++n) {
      for (int64_t head = h_from; head < h_to; ++head) {
        for (int64_t row = first; row < last; row += kQueryBlock) {
          if (!add_to_mask(in, w, in.head(f_, n, head),
                           {row, std::min(kQueryBlock, last - row), 0, 0}))
            return false;
        }
      }
    }
    return true;
  }

  bool add_to_mask(const AttentionOperands<T>& in, const Work& w, const AttentionHead& h,
                   AttentionBlock b) {
    set_means(w, h, b);
    const AttentionForm::Keys keys = visible_keys(f_, b.row, b.rows, h.length);
    for (b.key = keys.first; b.key < keys.last; b.key += kKeyBlock) {
      b.keys = std::min(kKeyBlock, keys.last - b.key);
      if (!block(in, w, h, b)) return false;
      for (int64_t i = 0; i < b.rows; ++i) {
        scale_and_add(w.d + i * b.keys, T(1), w.dmask + f_.mask.at(h.n, h.head, b.row + i) + b.key,
                      b.keys);
      }
    }
    return true;
  }

  const AttentionForm f_;
  const std::string subject_;
  const bool has_lengths_, of_mask_;
};

Result<std::unique_ptr<Kernel>> make_attention_grad(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(kGradQuery).dtype))
    return compute_in_f32(setup, make_attention_grad);
  const auto form = attention_grad_form(setup.types);
  if (!form.ok()) return invalid_argument(cat(setup.subject, ": ", form.status().message()));
  if (setup.input(kGradQuery).dtype == DType::f64)
    return std::unique_ptr<Kernel>(std::make_unique<AttentionGradKernel<double>>(setup, *form));
  return std::unique_ptr<Kernel>(std::make_unique<AttentionGradKernel<float>>(setup, *form));
}

}  // namespace

void add_attention_grad_kernel(Catalogue& catalogue) {
  catalogue.add_kernel("leat.AttentionGrad", "cpu", make_attention_grad);
}

}  // namespace leat

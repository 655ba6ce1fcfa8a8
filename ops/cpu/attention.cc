// The CPU kernel of Attention (ops/definitions/attention.cc). A tile is a block of queries of one
// head: it goes over the keys block by block, with the largest score and the sum of the
// exponentials so far.
#include <cmath>

#include "ops/cpu/attention_tiles.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"

namespace leat {
namespace {

template <typename T>
class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const KernelSetup& setup, const AttentionForm& form)
      : f_(form), subject_(setup.subject) {
    for (int i = 0; i <= kLengths; ++i) has_input_[i] = setup.types.has_input(i);
    for (int i = 0; i <= kLogSumExp; ++i) has_output_[i] = setup.types.has_output(i);
  }

  int phases() const override { return copies() ? 2 : 1; }
  int tiles(int phase) const override {
    const int64_t count = copies() && phase == 0
                              ? f_.batch * f_.kv_heads
                              : f_.batch * f_.q_heads * tile_count(f_.queries, kQueryBlock);
    return static_cast<int>(std::max<int64_t>(1, count));
  }
  // All keys and values, where there are earlier ones and no output takes them.
  size_t workspace_bytes() const override {
    if (!has_input_[kPastKey]) return 0;
    const int64_t rows = f_.batch * f_.kv_heads * f_.keys;
    return (has_output_[kPresentKey] ? 0 : AttentionScratch::bytes(rows * f_.head, sizeof(T))) +
           (has_output_[kPresentValue] ? 0 : AttentionScratch::bytes(rows * f_.v_head, sizeof(T)));
  }
  size_t scratch_bytes() const override {
    const auto bytes = [](int64_t n) { return AttentionScratch::bytes(n, sizeof(T)); };
    return bytes(kQueryBlock * kKeyBlock) + bytes(kQueryBlock * f_.v_head) +
           3 * bytes(kQueryBlock) + gemm_scratch_bytes<T>();
  }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (copies() && phase == 0) {
      if (tile < f_.batch * f_.kv_heads) join(context, tile / f_.kv_heads, tile % f_.kv_heads);
      return Progress::done;
    }
    const int64_t blocks = tile_count(f_.queries, kQueryBlock), index = tile / blocks;
    if (index >= f_.batch * f_.q_heads) return Progress::done;
    const AttentionOperands<T> in = operands(context);
    const int64_t row = tile % blocks * kQueryBlock;
    const AttentionBlock b{row, std::min(kQueryBlock, f_.queries - row), 0, 0};
    return attend(context, in, in.head(f_, index / f_.q_heads, index % f_.q_heads), b)
               ? Progress::done
               : attention_library_error(context, subject_);
  }

 private:
  struct Work {
    T *scores, *part, *largest, *sum, *factor;
    std::byte* gemm;
  };

  bool copies() const {
    return has_input_[kPastKey] || has_output_[kPresentKey] || has_output_[kPresentValue];
  }

  // All keys and all values, if they are copied.
  T* all_keys(KernelContext& context) const {
    if (has_output_[kPresentKey]) return context.out<T>(kPresentKey);
    return has_input_[kPastKey] ? reinterpret_cast<T*>(context.workspace) : nullptr;
  }
  T* all_values(KernelContext& context) const {
    if (has_output_[kPresentValue]) return context.out<T>(kPresentValue);
    if (!has_input_[kPastKey]) return nullptr;
    AttentionScratch memory(context.workspace);
    if (!has_output_[kPresentKey]) memory.take<T>(f_.batch * f_.kv_heads * f_.keys * f_.head);
    return memory.take<T>(0);
  }

  // Copies the earlier rows and those of this step of one head.
  void join(KernelContext& context, int64_t n, int64_t head) {
    const auto copy = [&](T* to, HeadStrides whole, const T* past, const T* from,
                          HeadStrides strides, int64_t columns) {
      if (!to) return;
      to += whole.at(n, head, 0);
      if (past)
        std::copy_n(past + (n * f_.kv_heads + head) * f_.past * columns, f_.past * columns, to);
      for (int64_t row = 0; row + f_.past < f_.keys; ++row)
        std::copy_n(from + strides.at(n, head, row), columns, to + (f_.past + row) * columns);
    };
    const bool past = has_input_[kPastKey];
    copy(all_keys(context), f_.whole_k, past ? context.in<T>(kPastKey) : nullptr,
         context.in<T>(kKey), f_.k, f_.head);
    copy(all_values(context), f_.whole_v, past ? context.in<T>(kPastValue) : nullptr,
         context.in<T>(kValue), f_.v, f_.v_head);
  }

  AttentionOperands<T> operands(KernelContext& context) const {
    AttentionOperands<T> in{context.in<T>(kQuery), context.in<T>(kKey), context.in<T>(kValue), f_.k,
                            f_.v};
    if (has_input_[kPastKey]) {
      in.k = all_keys(context), in.of_k = f_.whole_k;
      in.v = all_values(context), in.of_v = f_.whole_v;
    }
    if (has_input_[kMask]) in.mask = context.inputs[kMask];
    if (has_input_[kLengths]) in.lengths = context.in<int64_t>(kLengths);
    return in;
  }

  bool attend(KernelContext& context, const AttentionOperands<T>& in, const AttentionHead& h,
              AttentionBlock b) {
    AttentionScratch memory(context.scratch);
    Work w{};
    w.scores = memory.take<T>(kQueryBlock * kKeyBlock);
    w.part = memory.take<T>(kQueryBlock * f_.v_head);
    w.largest = memory.take<T>(kQueryBlock);
    w.sum = memory.take<T>(kQueryBlock);
    w.factor = memory.take<T>(kQueryBlock);
    w.gemm = memory.rest();
    std::fill_n(w.largest, b.rows, -std::numeric_limits<T>::infinity());
    std::fill_n(w.sum, b.rows, T(0));
    // The output with the scores has those of hidden keys, too.
    const AttentionForm::Keys keys = has_output_[kScores]
                                         ? AttentionForm::Keys{0, f_.keys}
                                         : visible_keys(f_, b.row, b.rows, h.length);
    T* const y = context.out<T>(kAttended) + f_.y.at(h.n, h.head, b.row);
    for (int64_t i = 0; i < b.rows; ++i) std::fill_n(y + i * f_.y.row, f_.v_head, T(0));
    for (b.key = keys.first; b.key < keys.last; b.key += kKeyBlock) {
      b.keys = std::min(kKeyBlock, keys.last - b.key);
      if (!scores(context, in, h, b, w)) return false;
      for (int64_t i = 0; i < b.rows; ++i)
        w.factor[i] = add_exponentials(w.scores + i * b.keys, b.keys, w.largest + i, w.sum + i);
      const bool first = b.key == keys.first;
      const onednn::Gemm g{.m = b.rows,
                           .n = f_.v_head,
                           .k = b.keys,
                           .lda = b.keys,
                           .ldb = in.of_v.row,
                           .ldc = first ? f_.y.row : f_.v_head};
      if (!gemm<T>(g, w.scores, in.v + in.of_v.at(h.n, h.kv_head, b.key), first ? y : w.part,
                   w.gemm))
        return false;
      for (int64_t i = 0; i < b.rows && !first; ++i)
        scale_and_add(w.part + i * f_.v_head, w.factor[i], y + i * f_.y.row, f_.v_head);
    }
    finish(context, h, b, w, y);
    return true;
  }

  // The scores of a block, as the softmax gets them. Copies them to the output at its stage.
  bool scores(KernelContext& context, const AttentionOperands<T>& in, const AttentionHead& h,
              const AttentionBlock& b, const Work& w) {
    const auto store = [&](bool now) {
      if (!has_output_[kScores] || !now) return;
      for (int64_t i = 0; i < b.rows; ++i)
        std::copy_n(w.scores + i * b.keys, b.keys, scores_of(context, h, b.row + i) + b.key);
    };
    if (!score_products(f_, in, h, b, w.scores, w.gemm)) return false;
    store(f_.mode == ScoresMode::products);
    if (f_.softcap > 0) cap_scores(static_cast<T>(f_.softcap), w.scores, b.rows * b.keys);
    store(f_.mode == ScoresMode::capped);
    mask_scores(f_, in, h, b, w.scores);
    store(f_.mode == ScoresMode::masked || f_.mode == ScoresMode::probabilities);
    return true;
  }
  T* scores_of(KernelContext& context, const AttentionHead& h, int64_t row) const {
    return context.out<T>(kScores) + ((h.n * f_.q_heads + h.head) * f_.queries + row) * f_.keys;
  }

  // Divides by the sums. A query that sees no key has zeros.
  void finish(KernelContext& context, const AttentionHead& h, const AttentionBlock& b,
              const Work& w, T* y) {
    for (int64_t i = 0; i < b.rows; ++i) {
      T* const line = y + i * f_.y.row;
      const bool empty = w.sum[i] == 0;
      for (int64_t j = 0; j < f_.v_head; ++j) line[j] = empty ? T(0) : line[j] / w.sum[i];
      const T log_sum =
          empty ? std::numeric_limits<T>::infinity() : w.largest[i] + std::log(w.sum[i]);
      if (has_output_[kLogSumExp])
        context.out<T>(kLogSumExp)[(h.n * f_.q_heads + h.head) * f_.queries + b.row + i] = log_sum;
      if (has_output_[kScores] && f_.mode == ScoresMode::probabilities)
        probabilities(log_sum, scores_of(context, h, b.row + i), f_.keys);
    }
  }

  const AttentionForm f_;
  const std::string subject_;
  bool has_input_[kLengths + 1] = {};
  bool has_output_[kLogSumExp + 1] = {};
};

Result<std::unique_ptr<Kernel>> make_attention(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(kQuery).dtype)) return compute_in_f32(setup, make_attention);
  const auto form = attention_form(setup.types);
  if (!form.ok()) return invalid_argument(cat(setup.subject, ": ", form.status().message()));
  if (setup.input(kQuery).dtype == DType::f64)
    return std::unique_ptr<Kernel>(std::make_unique<AttentionKernel<double>>(setup, *form));
  return std::unique_ptr<Kernel>(std::make_unique<AttentionKernel<float>>(setup, *form));
}

}  // namespace

void add_attention_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Attention", "cpu", make_attention);
  add_attention_grad_kernel(catalogue);
}

}  // namespace leat

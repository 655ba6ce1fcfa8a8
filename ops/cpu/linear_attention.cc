// CPU kernels of ops/definitions/linear_attention.cc. A tile is a head of a row, for all steps: the
// state is a matrix that goes from step to step. The gradient keeps the state of every c-th step,
// where c is about the root of the number of steps, and computes the others again.
#include "ops/definitions/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/cpu/cpu_kernels.h"
#include "ops/elements/any_float.h"
#include "ops/graph/kernel.h"

namespace leat {
namespace {

// The elements of operands of any float type, as numbers of type C.
struct FloatOperand {
  DType dtype = DType::invalid;
  bool present = false;

  template <typename C>
  void load(const void* from, int64_t first, int64_t count, C* out) const {
    if (dtype == DTypeOf<C>::value) {
      std::copy_n(static_cast<const C*>(from) + first, count, out);
      return;
    }
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<C>(float_at(from, dtype, first + i));
  }
  template <typename C>
  void store(void* to, int64_t first, int64_t count, const C* values) const {
    if (dtype == DTypeOf<C>::value) {
      std::copy_n(values, count, static_cast<C*>(to) + first);
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      set_float_at(to, dtype, first + i, static_cast<double>(values[i]));
  }
};

FloatOperand operand_of(const std::vector<OperandType>& operands, size_t i) {
  if (i >= operands.size() || !operands[i].present) return {};
  return {operands[i].dtype, true};
}

// The operands of a head at one step, or the gradients of these.
template <typename C>
struct HeadStep {
  C *query, *key, *value, *decay, *beta;  // one query of the group at a time

  static int64_t elements(const LinearAttentionSpec& s) {
    return 2 * s.key_size + s.value_size + s.decays + 1;
  }
  HeadStep(const LinearAttentionSpec& s, C*& memory) {
    const auto take = [&](int64_t count) { return std::exchange(memory, memory + count); };
    query = take(s.key_size);
    key = take(s.key_size);
    value = take(s.value_size);
    decay = take(s.decays);
    beta = take(1);
  }
};

// The recurrence of one head, on numbers of type C.
template <typename C>
class HeadRecurrence {
 public:
  HeadRecurrence(const LinearAttentionSpec& spec, const KernelSetup& setup) : s(spec) {
    for (size_t i = 0; i < 8; ++i) in[i] = operand_of(setup.types.inputs, i);
  }

  // The first element of a head's part of operand `i` at a step of a row.
  int64_t place(int i, int64_t row, int64_t step, int64_t head) const {
    const int64_t at = row * s.steps + step;
    switch (i) {
      case kQueryInput:
        return (at * s.query_heads + head) * s.key_size;
      case kKeyInput:
        return (at * s.heads + head) * s.key_size;
      case kDecayInput:
        return (at * s.heads + head) * s.decays;
      case kBetaInput:
        return s.betas == 1 ? at : at * s.heads + head;
      case kDyInput:
        return (at * s.query_heads + head) * s.value_size;
      default:
        return (at * s.heads + head) * s.value_size;
    }
  }
  void load_state(const KernelContext& context, int i, int64_t row, int64_t head, C* state) const {
    if (in[i].present) {
      in[i].load(context.inputs[i], (row * s.heads + head) * s.state_elements(), s.state_elements(),
                 state);
    } else {
      std::fill_n(state, s.state_elements(), C(0));
    }
  }
  // Loads what changes the state at a step: the key, the value, and the gates.
  void load_step(const KernelContext& context, int64_t row, int64_t step, int64_t head,
                 const HeadStep<C>& x) const {
    const auto load = [&](int i, int64_t count, C* out) {
      if (in[i].present) in[i].load(context.inputs[i], place(i, row, step, head), count, out);
    };
    load(kKeyInput, s.key_size, x.key);
    load(kValueInput, s.value_size, x.value);
    load(kDecayInput, s.decays, x.decay);
    load(kBetaInput, 1, x.beta);
    for (int64_t d = 0; d < s.decays; ++d) x.decay[d] = std::exp(x.decay[d]);
  }
  C decay_of(const HeadStep<C>& x, int64_t d) const { return x.decay[s.decays == 1 ? 0 : d]; }

  void decay(C* state, const HeadStep<C>& x) const {
    if (!s.gated) return;
    for (int64_t d = 0; d < s.key_size; ++d) {
      const C factor = decay_of(x, d);
      for (int64_t m = 0; m < s.value_size; ++m) state[d * s.value_size + m] *= factor;
    }
  }
  // out[m] += sum over d of vector[d] state[d, m].
  void add_product(const C* state, const C* vector, C* out) const {
    for (int64_t d = 0; d < s.key_size; ++d) {
      for (int64_t m = 0; m < s.value_size; ++m) out[m] += vector[d] * state[d * s.value_size + m];
    }
  }
  // The value that is written for the key: with the delta rule, what the state lacks. `error` gets
  // the value without what the decayed state has for the key.
  void find_written(const C* state, const HeadStep<C>& x, C* error, C* written) const {
    std::fill_n(written, s.value_size, C(0));
    if (s.delta) add_product(state, x.key, written);
    for (int64_t m = 0; m < s.value_size; ++m) {
      error[m] = x.value[m] - written[m];
      written[m] = s.delta ? x.beta[0] * error[m] : x.value[m];
    }
  }
  void write(C* state, const HeadStep<C>& x, const C* written) const {
    for (int64_t d = 0; d < s.key_size; ++d) {
      for (int64_t m = 0; m < s.value_size; ++m)
        state[d * s.value_size + m] += x.key[d] * written[m];
    }
  }
  // Goes one step on; `lines` is memory of two values.
  void advance(const KernelContext& context, int64_t row, int64_t step, int64_t head, C* state,
               const HeadStep<C>& x, C* lines) const {
    load_step(context, row, step, head, x);
    decay(state, x);
    find_written(state, x, lines, lines + s.value_size);
    write(state, x, lines + s.value_size);
  }

  const LinearAttentionSpec s;
  FloatOperand in[8];
};

template <typename C>
class LinearAttentionKernel final : public Kernel {
 public:
  LinearAttentionKernel(const LinearAttentionSpec& spec, const KernelSetup& setup)
      : r_(spec, setup),
        s_(spec),
        y_(operand_of(setup.types.outputs, 0)),
        last_(operand_of(setup.types.outputs, 1)) {}
  int tiles(int) const override { return tile_count(s_.rows * s_.heads, 1); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(s_.state_elements() + HeadStep<C>::elements(s_) +
                               3 * s_.value_size) *
           sizeof(C);
  }
  Progress run(KernelContext& context, int, int tile) override {
    if (tile >= s_.rows * s_.heads) return Progress::done;
    const int64_t row = tile / s_.heads, head = tile % s_.heads;
    C* memory = reinterpret_cast<C*>(context.scratch);
    C* const state = std::exchange(memory, memory + s_.state_elements());
    const HeadStep<C> x(s_, memory);
    C *const lines = memory, *const y = memory + 2 * s_.value_size;
    r_.load_state(context, kPastInput, row, head, state);
    for (int64_t t = 0; t < s_.steps; ++t) {
      r_.advance(context, row, t, head, state, x, lines);
      for (int64_t g = 0; g < s_.group(); ++g) {
        const int64_t query = head * s_.group() + g;
        r_.in[kQueryInput].load(context.inputs[kQueryInput], r_.place(kQueryInput, row, t, query),
                                s_.key_size, x.query);
        std::fill_n(y, s_.value_size, C(0));
        r_.add_product(state, x.query, y);
        for (int64_t m = 0; m < s_.value_size; ++m) y[m] *= static_cast<C>(s_.scale);
        y_.store(context.outputs[0], r_.place(kDyInput, row, t, query), s_.value_size, y);
      }
    }
    if (last_.present)
      last_.store(context.outputs[1], tile * s_.state_elements(), s_.state_elements(), state);
    return Progress::done;
  }

 private:
  const HeadRecurrence<C> r_;
  const LinearAttentionSpec s_;
  const FloatOperand y_, last_;
};

// A tile is all heads of a row if they share one beta, whose gradient is their sum.
template <typename C>
class LinearAttentionGradKernel final : public Kernel {
 public:
  LinearAttentionGradKernel(const LinearAttentionSpec& spec, const KernelSetup& setup)
      : r_(spec, setup),
        s_(spec),
        shared_(spec.betas == 1 && spec.heads > 1),
        stretch_(std::max<int64_t>(
            1, static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(spec.steps)))))) {
    for (size_t i = 0; i < 6; ++i) {
      out_[i] = operand_of(setup.types.outputs, i);
      out_[i].present = out_[i].present && r_.in[i].present;
    }
  }
  int tiles(int) const override { return tile_count(shared_ ? s_.rows : s_.rows * s_.heads, 1); }
  size_t scratch_bytes() const override {
    const int64_t states = tile_count(s_.steps, stretch_) + stretch_ + 2;
    const int64_t numbers = states * s_.state_elements() + 2 * HeadStep<C>::elements(s_) +
                            4 * s_.value_size + (shared_ ? s_.steps : 0);
    return static_cast<size_t>(numbers) * sizeof(C);
  }
  Progress run(KernelContext& context, int, int tile) override {
    if (tile >= (shared_ ? s_.rows : s_.rows * s_.heads)) return Progress::done;
    if (!shared_) {
      run_head(context, tile / s_.heads, tile % s_.heads, nullptr);
      return Progress::done;
    }
    C* const dbeta = reinterpret_cast<C*>(context.scratch);
    std::fill_n(dbeta, s_.steps, C(0));
    for (int64_t head = 0; head < s_.heads; ++head) run_head(context, tile, head, dbeta);
    if (out_[kBetaInput].present)
      out_[kBetaInput].store(context.outputs[kBetaInput], tile * s_.steps, s_.steps, dbeta);
    return Progress::done;
  }

 private:
  void run_head(KernelContext& context, int64_t row, int64_t head, C* shared_dbeta) const {
    const int64_t size = s_.state_elements(), stretches = tile_count(s_.steps, stretch_);
    C* at = reinterpret_cast<C*>(context.scratch) + (shared_ ? s_.steps : 0);
    C* const dstate = std::exchange(at, at + size);
    C* const within = std::exchange(at, at + (stretch_ + 1) * size);
    C* const before = std::exchange(at, at + stretches * size);
    const HeadStep<C> x(s_, at), gradient(s_, at);
    // The state before each stretch.
    r_.load_state(context, kPastInput, row, head, within);
    for (int64_t t = 0; t < s_.steps; ++t) {
      if (t % stretch_ == 0) std::copy_n(within, size, before + t / stretch_ * size);
      r_.advance(context, row, t, head, within, x, at);
    }
    r_.load_state(context, kDStateInput, row, head, dstate);
    for (int64_t block = stretches; s_.steps > 0 && block-- > 0;) {
      const int64_t first = block * stretch_, end = std::min(s_.steps, first + stretch_);
      std::copy_n(before + block * size, size, within);
      for (int64_t t = first; t < end; ++t) {
        C* const next = within + (t - first + 1) * size;
        std::copy_n(next - size, size, next);
        r_.advance(context, row, t, head, next, x, at);
      }
      for (int64_t t = end; t-- > first;) {
        C* const state = within + (t - first) * size;  // before the step; the next one is behind it
        step_back(context, row, t, head, state, dstate, x, gradient, at);
        if (shared_dbeta) shared_dbeta[t] += gradient.beta[0];
      }
    }
    if (out_[kPastInput].present)
      out_[kPastInput].store(context.outputs[kPastInput], (row * s_.heads + head) * size, size,
                             dstate);
  }

  // The gradients of one step. `state` is the one before it, and the one behind it follows, whose
  // memory is lost; `dstate` goes from the gradient of the second to that of the first.
  void step_back(KernelContext& context, int64_t row, int64_t t, int64_t head, C* state, C* dstate,
                 const HeadStep<C>& x, const HeadStep<C>& gradient, C* lines) const {
    const int64_t values = s_.value_size;
    C *const error = lines, *const written = error + values, *const dwritten = written + values,
             *const dvalue = gradient.value;
    read_back(context, row, t, head, state + s_.state_elements(), dstate, x, gradient, dwritten);
    r_.load_step(context, row, t, head, x);
    C* const decayed = state + s_.state_elements();  // in place of the state behind the step
    std::copy_n(state, s_.state_elements(), decayed);
    r_.decay(decayed, x);
    r_.find_written(decayed, x, error, written);
    // The state behind the step is the decayed one and the product of the key and the value.
    std::fill_n(dwritten, values, C(0));
    r_.add_product(dstate, x.key, dwritten);
    for (int64_t d = 0; d < s_.key_size; ++d) {
      C sum = 0;
      for (int64_t m = 0; m < values; ++m) sum += dstate[d * values + m] * written[m];
      gradient.key[d] = sum;
    }
    gradient.beta[0] = 0;
    for (int64_t m = 0; m < values; ++m) {
      dvalue[m] = s_.delta ? x.beta[0] * dwritten[m] : dwritten[m];
      if (s_.delta) gradient.beta[0] += dwritten[m] * error[m];
    }
    if (s_.delta) correct_back(decayed, dstate, x, gradient);
    decay_back(decayed, dstate, x, gradient);
    store(context, row, t, head, gradient);
  }
  // The gradients of the queries, and what they add to that of the state behind the step.
  void read_back(KernelContext& context, int64_t row, int64_t t, int64_t head, const C* state,
                 C* dstate, const HeadStep<C>& x, const HeadStep<C>& gradient, C* dy) const {
    const int64_t values = s_.value_size;
    const C scale = static_cast<C>(s_.scale);
    for (int64_t g = 0; g < s_.group(); ++g) {
      const int64_t query = head * s_.group() + g;
      std::fill_n(gradient.query, s_.key_size, C(0));
      if (r_.in[kDyInput].present) {
        r_.in[kQueryInput].load(context.inputs[kQueryInput], r_.place(kQueryInput, row, t, query),
                                s_.key_size, x.query);
        r_.in[kDyInput].load(context.inputs[kDyInput], r_.place(kDyInput, row, t, query), values,
                             dy);
        for (int64_t d = 0; d < s_.key_size; ++d) {
          C sum = 0;
          for (int64_t m = 0; m < values; ++m) {
            sum += state[d * values + m] * dy[m];
            dstate[d * values + m] += scale * x.query[d] * dy[m];
          }
          gradient.query[d] = scale * sum;
        }
      }
      out_[kQueryInput].store(context.outputs[kQueryInput], r_.place(kQueryInput, row, t, query),
                              s_.key_size, gradient.query);
    }
  }
  // The delta rule takes the product of the key and the decayed state off the value.
  void correct_back(const C* state, C* dstate, const HeadStep<C>& x,
                    const HeadStep<C>& gradient) const {
    for (int64_t d = 0; d < s_.key_size; ++d) {
      C sum = 0;
      for (int64_t m = 0; m < s_.value_size; ++m) {
        sum += state[d * s_.value_size + m] * gradient.value[m];
        dstate[d * s_.value_size + m] -= x.key[d] * gradient.value[m];
      }
      gradient.key[d] -= sum;
    }
  }
  // `state` is the decayed one.
  void decay_back(const C* state, C* dstate, const HeadStep<C>& x,
                  const HeadStep<C>& gradient) const {
    if (!s_.gated) return;
    std::fill_n(gradient.decay, s_.decays, C(0));
    for (int64_t d = 0; d < s_.key_size; ++d) {
      const C factor = r_.decay_of(x, d);
      C sum = 0;
      for (int64_t m = 0; m < s_.value_size; ++m) {
        C& ds = dstate[d * s_.value_size + m];
        sum += ds * state[d * s_.value_size + m];
        ds *= factor;
      }
      gradient.decay[s_.decays == 1 ? 0 : d] += sum;
    }
  }
  void store(KernelContext& context, int64_t row, int64_t t, int64_t head,
             const HeadStep<C>& gradient) const {
    const auto put = [&](int i, int64_t count, const C* values) {
      if (out_[i].present)
        out_[i].store(context.outputs[i], r_.place(i, row, t, head), count, values);
    };
    put(kKeyInput, s_.key_size, gradient.key);
    put(kValueInput, s_.value_size, gradient.value);
    put(kDecayInput, s_.decays, gradient.decay);
    if (!shared_) put(kBetaInput, 1, gradient.beta);
  }

  const HeadRecurrence<C> r_;
  const LinearAttentionSpec s_;
  const bool shared_;
  const int64_t stretch_;
  FloatOperand out_[6];
};

template <template <typename> class K>
Result<std::unique_ptr<Kernel>> make_linear_attention(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const LinearAttentionSpec spec, linear_attention_spec(setup));
  bool doubles = false;
  for (const OperandType& input : setup.types.inputs)
    doubles = doubles || (input.present && input.dtype == DType::f64);
  if (doubles) return std::unique_ptr<Kernel>(std::make_unique<K<double>>(spec, setup));
  return std::unique_ptr<Kernel>(std::make_unique<K<float>>(spec, setup));
}

}  // namespace

void add_linear_attention_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("LinearAttention", "cpu", make_linear_attention<LinearAttentionKernel>);
  catalogue.add_kernel("leat.LinearAttentionGrad", "cpu",
                       make_linear_attention<LinearAttentionGradKernel>);
}

}  // namespace leat

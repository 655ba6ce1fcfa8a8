#include "ops/cpu/elementwise.h"

#include <algorithm>
#include <array>
#include <optional>

#include "devices/base/text.h"
#include "ops/cpu/convert16.h"
#include "ops/definitions/broadcast.h"

namespace leat {
namespace {

// Runs a loop for f32 on operands of a 16-bit float, piece by piece: a piece of each operand is
// converted on the stack. The loop may write where it reads, since a piece is read before it is
// written.
class LoopIn16Bits {
 public:
  LoopIn16Bits(Loop loop, DType dtype) : loop_(loop), dtype_(dtype) {}

  void run(void* out, const void* const* x, const int64_t* steps, size_t operands, int64_t n,
           const double* params) const {
    alignas(64) std::array<std::array<float, kPiece>, kMaxLoopInputs> wide;
    alignas(64) std::array<float, kPiece> result;
    std::array<const void*, kMaxLoopInputs> addresses{};
    std::array<int64_t, kMaxLoopInputs> wide_steps{};
    for (int64_t begin = 0; begin < n; begin += kPiece) {
      const int64_t count = std::min(kPiece, n - begin);
      for (size_t i = 0; i < operands; ++i) {
        if (x[i] == nullptr) continue;
        addresses[i] = wide[i].data();
        wide_steps[i] = steps[i] == 0 ? 0 : 1;
        if (steps[i] == 0 && begin > 0) continue;  // the single value is there already
        gather(static_cast<const uint16_t*>(x[i]) + begin * steps[i], steps[i],
               steps[i] == 0 ? 1 : count, wide[i].data());
      }
      loop_(result.data(), addresses.data(), wide_steps.data(), count, params);
      narrow(dtype_, result.data(), static_cast<uint16_t*>(out) + begin, count);
    }
  }

 private:
  static constexpr int64_t kPiece = 1024;  // elements: five pieces are 20 KiB, in the first cache

  void gather(const uint16_t* x, int64_t step, int64_t n, float* wide) const {
    if (step == 1 || n == 1) return widen(dtype_, x, wide, n);
    for (int64_t i = 0; i < n; ++i) {
      const uint16_t bits = x[i * step];
      wide[i] = dtype_ == DType::f16 ? to_float(Half{bits}) : to_float(BFloat16{bits});
    }
  }

  Loop loop_;
  DType dtype_;
};

// One call of the loop over a range of rows: the operands that it reads and their steps.
struct Pass {
  std::vector<int> operands;  // kOutput: output 0 itself
  BroadcastWalk full, last;   // of a full tile, if there are several, and of the last one
};
constexpr int kOutput = -1;

class ElementwiseKernel final : public Kernel {
 public:
  // Each of `passes` lists the operands of one call of the loop.
  ElementwiseKernel(const KernelSetup& setup, Loop loop, std::vector<double> params,
                    const std::vector<std::vector<int>>& passes)
      : loop_(loop), params_(std::move(params)), subject_(setup.subject) {
    BroadcastWalk walk = broadcast_walk(setup.types);
    elements_ = walk.elements();
    // The tiles of a chain are rows of dimension 0. Without a chain, the kernel cuts the merged
    // axes. A merged first axis would mix rows of dimension 0.
    if (setup.tile_rows == 0) walk = collapsed(walk);
    rows_ = walk.rank > 0 ? walk.sizes[0] : 1;
    const int64_t row_elements = rows_ > 0 ? elements_ / rows_ : 0;
    tile_rows_ = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows_, row_elements);
    tiles_ = tile_count(rows_, tile_rows_);
    // A tile moves an operand by its step along the first axis; an operand that is broadcast there
    // stays.
    for (size_t i = 0; i < setup.types.inputs.size(); ++i) {
      const int64_t step = walk.rank > 0 ? walk.steps[i][0] : 0;
      const auto bytes = static_cast<int64_t>(dtype_size(setup.types.inputs[i].dtype));
      present_.push_back(setup.types.inputs[i].present);
      tile_bytes_.push_back(step * tile_rows_ * bytes);
      element_bytes_.push_back(bytes);
    }
    output_bytes_ = static_cast<int64_t>(dtype_size(setup.output(0).dtype));
    output_tile_bytes_ = tile_rows_ * row_elements * output_bytes_;
    for (const auto& operands : passes) passes_.push_back(make_pass(walk, operands));
  }

  // Makes the kernel run `fast` on converted operands.
  void compute_in_f32(Loop fast, DType dtype) { in_16_bits_ = LoopIn16Bits(fast, dtype); }

  // Makes the kernel fail the step if input `divisor` has a zero.
  void refuse_zero(int divisor, DType dtype) {
    divisor_ = divisor;
    divisor_dtype_ = dtype;
  }

  int tiles(int) const override { return tiles_; }

  Progress run(KernelContext& context, int, int tile) override {
    if (elements_ == 0) return Progress::done;
    // The passes of a tile follow each other at once, while its output is in the cache.
    for (const Pass& pass : passes_) {
      const BroadcastWalk& walk = tile + 1 == tiles_ ? pass.last : pass.full;
      // The divisor is checked before the loop, because an integer division by 0 would end the
      // process.
      if (divisor_ >= 0 && has_zero(context, walk, tile)) {
        context.step->fail(context.instruction,
                           invalid_argument(cat(subject_, ": expected a divisor other than 0")));
        return Progress::failed;
      }
      run_pass(context, pass, walk, tile);
    }
    return Progress::done;
  }

 private:
  // The walk over one tile, merged again for this pass: fewer operands may allow longer inner
  // loops. All tiles have the same walk, except that the last one may have fewer rows.
  Pass make_pass(const BroadcastWalk& walk, const std::vector<int>& operands) const {
    BroadcastWalk mine = walk;
    mine.steps.clear();
    for (int i : operands) {
      mine.steps.push_back(i == kOutput ? walk.steps.back() : walk.steps[static_cast<size_t>(i)]);
    }
    const auto tile_of = [&](int64_t rows) {
      if (walk.rank > 0) mine.sizes[0] = rows;
      return collapsed(mine);
    };
    Pass pass{operands, {}, {}};
    if (tiles_ > 1) pass.full = tile_of(tile_rows_);
    pass.last = tile_of(rows_ - (tiles_ - 1) * tile_rows_);
    return pass;
  }

  const char* operand(const KernelContext& context, int i, int tile) const {
    if (i == kOutput)
      return static_cast<const char*>(context.outputs[0]) + tile * output_tile_bytes_;
    if (!present_[static_cast<size_t>(i)]) return nullptr;  // the context may lack it
    return static_cast<const char*>(context.inputs[i]) + tile * tile_bytes_[static_cast<size_t>(i)];
  }

  void run_pass(const KernelContext& context, const Pass& pass, const BroadcastWalk& walk,
                int tile) const {
    const size_t operands = pass.operands.size();
    // The last axis is the inner loop. A walk of rank 0 is a single element.
    const int inner = walk.rank - 1;
    const int64_t n = inner < 0 ? 1 : walk.sizes[static_cast<size_t>(inner)];
    std::array<const void*, kMaxLoopInputs> x{};
    std::array<int64_t, kMaxLoopInputs> steps{};
    std::array<const char*, kMaxLoopInputs> at{};
    for (size_t i = 0; i < operands; ++i) {
      at[i] = operand(context, pass.operands[i], tile);
      steps[i] = inner < 0 ? 0 : walk.steps[i][static_cast<size_t>(inner)];
    }
    char* y = static_cast<char*>(context.outputs[0]) + tile * output_tile_bytes_;
    std::array<int64_t, kMaxRank> index{};
    while (true) {
      for (size_t i = 0; i < operands; ++i) x[i] = at[i];
      if (in_16_bits_)
        in_16_bits_->run(y, x.data(), steps.data(), operands, n, params_.data());
      else
        loop_(y, x.data(), steps.data(), n, params_.data());
      y += n * output_bytes_;
      // Steps to the next index of the outer axes, like a counter: an axis that wraps around moves
      // its operands back, and the axis before it goes on. The output is contiguous and only goes
      // forward.
      int d = inner - 1;
      for (; d >= 0; --d) {
        const auto k = static_cast<size_t>(d);
        const int64_t move = ++index[k] < walk.sizes[k] ? 1 : 1 - walk.sizes[k];
        for (size_t i = 0; i < operands; ++i) {
          if (at[i] != nullptr) at[i] += move * walk.steps[i][k] * bytes_of(pass.operands[i]);
        }
        if (move == 1) break;
        index[k] = 0;
      }
      if (d < 0) return;
    }
  }
  int64_t bytes_of(int operand) const {
    return operand == kOutput ? output_bytes_ : element_bytes_[static_cast<size_t>(operand)];
  }

  bool has_zero(const KernelContext& context, const BroadcastWalk& walk, int tile) const {
    // The elements of the divisor in this tile are contiguous: axes with step 0 repeat them.
    int64_t n = 1;
    const auto& steps = walk.steps[static_cast<size_t>(divisor_)];
    for (int d = 0; d < walk.rank; ++d) {
      if (steps[static_cast<size_t>(d)] != 0) n *= walk.sizes[static_cast<size_t>(d)];
    }
    return dispatch_dtype(divisor_dtype_, [&](auto tag) {
      using T = decltype(tag);
      const T* data = reinterpret_cast<const T*>(operand(context, divisor_, tile));
      if constexpr (std::is_integral_v<T>) return std::find(data, data + n, T{}) != data + n;
      return false;
    });
  }

  Loop loop_;
  std::optional<LoopIn16Bits> in_16_bits_;  // runs instead of loop_
  std::vector<double> params_;
  std::string subject_;
  int64_t elements_ = 0, rows_ = 0, tile_rows_ = 1;
  int tiles_ = 1;
  std::vector<bool> present_;
  std::vector<int64_t> tile_bytes_, element_bytes_;  // by input; a whole operand does not move
  int64_t output_bytes_ = 0, output_tile_bytes_ = 0;
  std::vector<Pass> passes_;
  int divisor_ = -1;
  DType divisor_dtype_ = DType::invalid;
};

Status no_kernel(const KernelSetup& setup) {
  return unimplemented(cat(setup.subject, ": has no cpu kernel for ", setup.input(0).dtype));
}

// The operands of an op with a single pass: every input, in order.
std::vector<int> all_inputs(const KernelSetup& setup) {
  std::vector<int> operands;
  for (size_t i = 0; i < setup.types.inputs.size(); ++i) operands.push_back(static_cast<int>(i));
  return operands;
}

// Lets the kernel run `fast`, if there is one and all operands have one 16-bit type.
void use_fast_loop(ElementwiseKernel& kernel, const KernelSetup& setup, Loop fast) {
  const DType dtype = setup.output(0).dtype;
  if (fast == nullptr || !is_16bit_float(dtype)) return;
  for (const OperandType& input : setup.types.inputs) {
    if (input.present && input.dtype != dtype) return;
  }
  kernel.compute_in_f32(fast, dtype);
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_elementwise(const KernelSetup& setup, Loop loop,
                                                 std::vector<double> params, Loop fast) {
  if (loop == nullptr) return no_kernel(setup);
  auto kernel = std::make_unique<ElementwiseKernel>(
      setup, loop, std::move(params), std::vector<std::vector<int>>{all_inputs(setup)});
  use_fast_loop(*kernel, setup, fast);
  return std::unique_ptr<Kernel>(std::move(kernel));
}

Result<std::unique_ptr<Kernel>> make_elementwise_fold(const KernelSetup& setup, Loop binary,
                                                      Loop copy, Loop fast) {
  if (binary == nullptr || copy == nullptr) return no_kernel(setup);
  const auto inputs = static_cast<int>(setup.types.inputs.size());
  // The first pass writes f(x0, x1) to the output; each later one reads it back and folds one more
  // input into it.
  std::vector<std::vector<int>> passes;
  if (inputs == 1) passes.push_back({0});
  if (inputs > 1) passes.push_back({0, 1});
  for (int i = 2; i < inputs; ++i) passes.push_back({kOutput, i});
  auto kernel = std::make_unique<ElementwiseKernel>(setup, inputs == 1 ? copy : binary,
                                                    std::vector<double>(), passes);
  if (inputs > 1) use_fast_loop(*kernel, setup, fast);
  return std::unique_ptr<Kernel>(std::move(kernel));
}

Result<std::unique_ptr<Kernel>> make_elementwise_division(const KernelSetup& setup, Loop loop,
                                                          int divisor, Loop fast) {
  if (loop == nullptr) return no_kernel(setup);
  auto kernel = std::make_unique<ElementwiseKernel>(
      setup, loop, std::vector<double>(), std::vector<std::vector<int>>{all_inputs(setup)});
  // Floats need no check: they divide by zero without a fault.
  if (is_int(setup.input(divisor).dtype)) kernel->refuse_zero(divisor, setup.input(divisor).dtype);
  use_fast_loop(*kernel, setup, fast);
  return std::unique_ptr<Kernel>(std::move(kernel));
}

KernelFactory loop_kernel(Loop (*pick)(DType, Loop), Loop fast, std::vector<std::string> params) {
  return [pick, fast, params = std::move(params)](const KernelSetup& setup) {
    std::vector<double> values;
    for (const std::string& name : params) values.push_back(attr_float(setup.attrs(), name));
    return make_elementwise(setup, pick(setup.output(0).dtype, fast), std::move(values), fast);
  };
}

}  // namespace leat

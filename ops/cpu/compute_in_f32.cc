#include "ops/cpu/compute_in_f32.h"

#include <algorithm>
#include <array>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/graph/kernel_note.h"

namespace leat {
namespace {

constexpr int64_t kChunk = 32 * 1024;  // elements converted by one tile
constexpr size_t kMostOperands = 12;

// An operand that is converted, and the place of its float copy in the workspace.
struct Copy {
  size_t operand = 0;
  DType dtype = DType::invalid;
  int64_t elements = 0;
  size_t offset = 0;
  int first_tile = 0;
};

// to_half() or to_bfloat16(), by type: both round to nearest even.
template <typename T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(value);
  else
    return to_bfloat16(value);
}

// Converts the elements [begin, end) of an operand. Both sides begin at element 0 of the operand.
template <typename T>
void widen(const void* from, float* to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) to[i] = to_float(static_cast<const T*>(from)[i]);
}
template <typename T>
void narrow(const float* from, void* to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<T*>(to)[i] = from_float<T>(from[i]);
}

// The phases are: all inputs become floats, the phases of `inner` run, the outputs are rounded. The
// workspace has the float copies first, and then the workspace of `inner`.
class ConvertingKernel final : public Kernel, public NotedKernel {
 public:
  ConvertingKernel(std::unique_ptr<Kernel> inner, std::vector<Copy> inputs,
                   std::vector<Copy> outputs, size_t copies_bytes)
      : inner_(std::move(inner)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        copies_bytes_(copies_bytes) {}

  int phases() const override { return inner_->phases() + 2; }
  int tiles(int phase) const override {
    if (phase == 0) return tiles_of(inputs_);
    if (phase == phases() - 1) return tiles_of(outputs_);
    return inner_->tiles(phase - 1);
  }
  size_t workspace_bytes() const override { return copies_bytes_ + inner_->workspace_bytes(); }
  size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::string note() const override { return kernel_note(*inner_); }

  // The context belongs to the instruction, and other threads run tiles with it now. The inner
  // kernel therefore gets a copy, with addresses in arrays on this thread's stack.
  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 0) return convert(context, inputs_, tile, true);
    if (phase == phases() - 1) return convert(context, outputs_, tile, false);
    std::array<void*, kMostOperands> inputs{}, outputs{};
    for (size_t i = 0; i < kMostOperands; ++i) {
      inputs[i] = i < input_count ? context.inputs[i] : nullptr;
      outputs[i] = i < output_count ? context.outputs[i] : nullptr;
    }
    // Operands that are not converted (indices, argmax) keep their own addresses.
    for (const Copy& c : inputs_) inputs[c.operand] = context.workspace + c.offset;
    for (const Copy& c : outputs_) outputs[c.operand] = context.workspace + c.offset;
    KernelContext inner = context;
    inner.inputs = inputs.data();
    inner.outputs = outputs.data();
    inner.workspace = context.workspace + copies_bytes_;
    return inner_->run(inner, phase - 1, tile);
  }

  size_t input_count = 0, output_count = 0;

 private:
  // A list without operands has one tile, too, in which convert() does nothing.
  static int tiles_of(const std::vector<Copy>& copies) {
    return copies.empty() ? 1
                          : copies.back().first_tile + tile_count(copies.back().elements, kChunk);
  }
  static Progress convert(KernelContext& context, const std::vector<Copy>& copies, int tile,
                          bool in) {
    if (copies.empty()) return Progress::done;
    // The tiles of all operands are numbered one after the other. The operand of this tile is the
    // last one that begins at or before it.
    const Copy* copy = &copies[0];
    for (const Copy& c : copies) {
      if (c.first_tile <= tile) copy = &c;
    }
    const int64_t begin = (tile - copy->first_tile) * kChunk;
    const int64_t end = std::min(begin + kChunk, copy->elements);
    auto* wide = reinterpret_cast<float*>(context.workspace + copy->offset);
    const bool half = copy->dtype == DType::f16;
    if (in) {
      const void* from = context.inputs[copy->operand];
      half ? widen<Half>(from, wide, begin, end) : widen<BFloat16>(from, wide, begin, end);
    } else {
      void* to = context.outputs[copy->operand];
      half ? narrow<Half>(wide, to, begin, end) : narrow<BFloat16>(wide, to, begin, end);
    }
    return Progress::done;
  }

  std::unique_ptr<Kernel> inner_;
  std::vector<Copy> inputs_, outputs_;
  size_t copies_bytes_;
};

// Lists the operands to convert and changes their types to float.
std::vector<Copy> widen_types(std::vector<OperandType>& operands, size_t& bytes) {
  std::vector<Copy> copies;
  int tile = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    OperandType& operand = operands[i];
    if (!operand.present || !is_16bit_float(operand.dtype)) continue;
    copies.push_back({i, operand.dtype, operand.shape.elements(), bytes, tile});
    operand.dtype = DType::f32;
    bytes += align_up(operand.bytes(), 64);
    tile += tile_count(copies.back().elements, kChunk);
  }
  return copies;
}

}  // namespace

Result<std::unique_ptr<Kernel>> compute_in_f32(const KernelSetup& setup,
                                               const KernelFactory& factory) {
  // The inner kernel is made as if the operands were float from the start. The known constants
  // would not fit these types, and the rows of a chain do not reach through the conversions.
  KernelSetup wide = setup;
  if (wide.types.inputs.size() > kMostOperands || wide.types.outputs.size() > kMostOperands) {
    return internal_error(cat(setup.subject, ": expected at most ", kMostOperands, " operands"));
  }
  size_t bytes = 0;
  std::vector<Copy> inputs = widen_types(wide.types.inputs, bytes);
  std::vector<Copy> outputs = widen_types(wide.types.outputs, bytes);
  wide.constants.clear();
  wide.tile_rows = 0;
  LEAT_ASSIGN_OR_RETURN(auto inner, factory(wide));
  auto kernel = std::make_unique<ConvertingKernel>(std::move(inner), std::move(inputs),
                                                   std::move(outputs), bytes);
  kernel->input_count = setup.types.inputs.size();
  kernel->output_count = setup.types.outputs.size();
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace leat

#include "ops/cpu/compute_in_f32.h"

#include <algorithm>
#include <array>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cpu/convert16.h"
#include "ops/graph/attrs.h"
#include "ops/graph/kernel_note.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

constexpr int64_t kChunk = 32 * 1024;  // elements converted by one tile
constexpr size_t kMostOperands = 12;

// An operand that is converted whole, and the place of its float copy in the workspace.
struct Copy {
  size_t operand = 0;
  DType dtype = DType::invalid;
  int64_t elements = 0;
  size_t offset = 0;
  int first_tile = 0;
};

// An operand of which each tile converts its rows, and their place in the scratch memory.
struct RowCopy {
  size_t operand = 0;
  DType dtype = DType::invalid;
  int64_t row_elements = 0;
  size_t offset = 0;
};

// The conversions of one kernel.
struct Conversions {
  std::vector<Copy> inputs, outputs;
  std::vector<RowCopy> row_inputs, row_outputs;
  int64_t rows = 0, tile_rows = 0;  // of the row phase, if an operand is converted by rows
  size_t workspace_bytes = 0, scratch_bytes = 0;
};

// The addresses of the operands, for the inner kernel.
struct Operands {
  std::array<void*, kMostOperands> inputs{}, outputs{};
};

// The phases are: whole inputs become floats, the phases of `inner` run, whole outputs are rounded.
// The first and the last one are there only if they have operands. Workspace and scratch memory
// have the float copies first, and then those of `inner`.
class ConvertingKernel final : public Kernel, public NotedKernel {
 public:
  ConvertingKernel(std::unique_ptr<Kernel> inner, Conversions conversions, size_t inputs,
                   size_t outputs)
      : inner_(std::move(inner)),
        c_(std::move(conversions)),
        input_count_(inputs),
        output_count_(outputs),
        before_(c_.inputs.empty() ? 0 : 1),
        after_(c_.outputs.empty() ? 0 : 1) {}

  int phases() const override { return before_ + inner_->phases() + after_; }
  int row_phase() const override { return before_ + inner_->row_phase(); }
  int tiles(int phase) const override {
    if (phase < before_) return tiles_of(c_.inputs);
    if (phase == before_ + inner_->phases()) return tiles_of(c_.outputs);
    return inner_->tiles(phase - before_);
  }
  size_t workspace_bytes() const override { return c_.workspace_bytes + inner_->workspace_bytes(); }
  size_t scratch_bytes() const override { return c_.scratch_bytes + inner_->scratch_bytes(); }
  std::string note() const override { return kernel_note(*inner_); }

  // The inner kernel gets a copy of the context: its operands are the float copies, whose addresses
  // are in arrays on this thread's stack.
  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase < before_) {
      const Copy& copy = copy_of(c_.inputs, tile);
      return convert(copy, context.inputs[copy.operand], context.workspace, tile, true);
    }
    if (phase == before_ + inner_->phases()) {
      const Copy& copy = copy_of(c_.outputs, tile);
      return convert(copy, context.outputs[copy.operand], context.workspace, tile, false);
    }
    Operands operands;
    for (size_t i = 0; i < input_count_; ++i) operands.inputs[i] = context.inputs[i];
    for (size_t i = 0; i < output_count_; ++i) operands.outputs[i] = context.outputs[i];
    for (const Copy& c : c_.inputs) operands.inputs[c.operand] = context.workspace + c.offset;
    for (const Copy& c : c_.outputs) operands.outputs[c.operand] = context.workspace + c.offset;
    KernelContext inner = context;
    inner.inputs = operands.inputs.data();
    inner.outputs = operands.outputs.data();
    inner.workspace = context.workspace + c_.workspace_bytes;
    inner.scratch = context.scratch + c_.scratch_bytes;
    if (phase != row_phase()) return inner_->run(inner, phase - before_, tile);
    return run_rows(context, inner, operands, tile);
  }

 private:
  static int tiles_of(const std::vector<Copy>& copies) {
    return copies.back().first_tile + tile_count(copies.back().elements, kChunk);
  }
  // The tiles of all operands are numbered one after the other. The operand of a tile is the last
  // one that begins at or before it.
  static const Copy& copy_of(const std::vector<Copy>& copies, int tile) {
    const Copy* copy = &copies[0];
    for (const Copy& c : copies) {
      if (c.first_tile <= tile) copy = &c;
    }
    return *copy;
  }
  static Progress convert(const Copy& copy, void* operand, std::byte* workspace, int tile,
                          bool in) {
    const int64_t begin = (tile - copy.first_tile) * kChunk;
    const int64_t count = std::min(kChunk, copy.elements - begin);
    auto* narrowed = static_cast<uint16_t*>(operand) + begin;
    auto* wide = reinterpret_cast<float*>(workspace + copy.offset) + begin;
    if (count <= 0) return Progress::done;
    in ? widen(copy.dtype, narrowed, wide, count) : narrow(copy.dtype, wide, narrowed, count);
    return Progress::done;
  }

  // Runs a tile of the row phase. The inner kernel finds the rows of the tile at their place of an
  // operand of which nothing else is there.
  Progress run_rows(const KernelContext& context, KernelContext& inner, Operands& operands,
                    int tile) {
    const int64_t begin = tile * c_.tile_rows;
    const int64_t rows = std::min(c_.tile_rows, c_.rows - begin);
    const auto whole = [&](const RowCopy& c) {
      const auto before = static_cast<uintptr_t>(begin * c.row_elements) * sizeof(float);
      const auto first = reinterpret_cast<uintptr_t>(context.scratch + c.offset);
      return reinterpret_cast<void*>(first - before);
    };
    for (const RowCopy& c : c_.row_inputs) {
      operands.inputs[c.operand] = whole(c);
      widen(c.dtype, context.in<uint16_t>(static_cast<int>(c.operand)) + begin * c.row_elements,
            reinterpret_cast<float*>(context.scratch + c.offset), rows * c.row_elements);
    }
    for (const RowCopy& c : c_.row_outputs) operands.outputs[c.operand] = whole(c);
    const Progress progress = inner_->run(inner, inner_->row_phase(), tile);
    if (progress != Progress::done) return progress;
    for (const RowCopy& c : c_.row_outputs) {
      narrow(c.dtype, reinterpret_cast<const float*>(context.scratch + c.offset),
             context.out<uint16_t>(static_cast<int>(c.operand)) + begin * c.row_elements,
             rows * c.row_elements);
    }
    return Progress::done;
  }

  std::unique_ptr<Kernel> inner_;
  Conversions c_;
  size_t input_count_, output_count_;
  int before_, after_;  // phases around those of inner_
};

// The rows by which the kernel is cut; without rows if nothing cuts it, or if a phase after the row
// phase would read rows that only the row phase has.
Tiling row_tiling(const KernelSetup& setup, const ComputeInF32& how) {
  if (!setup.node || !setup.node->op->tiling) return {};
  const Tiling tiling = setup.node->op->tiling(setup.types);
  const bool cut = setup.tile_rows > 0 || how.tile_rows > 0 || tiling.fixed_rows > 0;
  return cut && tiling.late_inputs == 0 ? tiling : Tiling{};
}

// Lists the conversions of the operands that `skipped` does not name, and changes their types to
// float.
void list_conversions(std::vector<OperandType>& operands, uint32_t rows_of, uint32_t skipped,
                      Conversions& c, std::vector<Copy>& whole, std::vector<RowCopy>& by_rows) {
  int tile = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    OperandType& operand = operands[i];
    if (!operand.present || !is_16bit_float(operand.dtype) || (skipped >> i & 1)) continue;
    const int64_t elements = operand.shape.elements();
    const DType dtype = operand.dtype;
    operand.dtype = DType::f32;
    if (c.rows > 0 && (rows_of >> i & 1)) {
      const int64_t row = elements / c.rows;
      by_rows.push_back({i, dtype, row, c.scratch_bytes});
      c.scratch_bytes += align_up(static_cast<size_t>(c.tile_rows * row) * sizeof(float), 64);
      continue;
    }
    whole.push_back({i, dtype, elements, c.workspace_bytes, tile});
    c.workspace_bytes += align_up(operand.bytes(), 64);
    tile += tile_count(elements, kChunk);
  }
}

}  // namespace

Result<std::unique_ptr<Kernel>> compute_in_f32(const KernelSetup& setup,
                                               const KernelFactory& factory, ComputeInF32 how) {
  // The inner kernel is made as if the operands were float from the start. The known constants
  // would not fit these types.
  KernelSetup wide = setup;
  if (wide.types.inputs.size() > kMostOperands || wide.types.outputs.size() > kMostOperands) {
    return internal_error(cat(setup.subject, ": expected at most ", kMostOperands, " operands"));
  }
  const Tiling tiling = row_tiling(setup, how);
  Conversions c;
  c.rows = tiling.rows;
  if (c.rows > 0) {
    c.tile_rows = setup.tile_rows > 0     ? setup.tile_rows
                  : tiling.fixed_rows > 0 ? tiling.fixed_rows
                                          : how.tile_rows;
    c.tile_rows = std::min(c.tile_rows, c.rows);
  }
  list_conversions(wide.types.inputs, tiling.row_inputs, how.kept_inputs, c, c.inputs,
                   c.row_inputs);
  list_conversions(wide.types.outputs, tiling.row_outputs, how.rounded_outputs, c, c.outputs,
                   c.row_outputs);
  wide.constants.clear();
  wide.tile_rows = c.tile_rows;
  LEAT_ASSIGN_OR_RETURN(auto inner, factory(wide));
  return std::unique_ptr<Kernel>(std::make_unique<ConvertingKernel>(
      std::move(inner), std::move(c), setup.types.inputs.size(), setup.types.outputs.size()));
}

}  // namespace leat

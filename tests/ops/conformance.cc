#include "tests/ops/conformance.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

constexpr int64_t kLargeCase = 20'000;  // elements: above this, only one dtype is tried
constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xA5;

bool is_resource(const ConformanceCase& c, size_t input) { return (c.resources >> input) & 1; }

std::vector<ValueType> value_types(const ConformanceCase& c) {
  std::vector<ValueType> types;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& tensor = c.inputs[i];
    ValueType type;
    if (tensor.valid()) type = tensor_type(tensor.dtype(), SymbolicShape(tensor.shape()));
    if (is_resource(c, i)) type.kind = ValueKind::resource;
    types.push_back(type);
  }
  return types;
}

// Allocates `size` bytes of `value` at a multiple of 64, with a guard after them.
Tensor filled(size_t size, uint8_t value) {
  Tensor bytes(DType::u8, {static_cast<int64_t>(size + kGuard)});
  std::memset(bytes.raw(), value, size);
  std::memset(bytes.data<uint8_t>() + size, kGuardByte, kGuard);
  return bytes;
}

void check_guard(const Tensor& bytes, size_t size) {
  for (size_t i = size; i < size + kGuard; ++i) {
    if (bytes.data<uint8_t>()[i] != kGuardByte)
      FAIL("byte " << i << " of " << size << " was written");
  }
}

// One kernel, and the memory of its operands.
class CaseRun final : private StepContext {
 public:
  CaseRun(const ConformanceCase& c, const Conditions& conditions)
      : case_(c), conditions_(conditions), attrs_(with_defaults(op_of(c), c.attrs)) {
    seed = 7;
    step = 3;
    setup_.types = types_of(c, attrs_);
    setup_.subject = c.op;
    setup_.tile_rows = conditions.tile_rows;
    node_.op = &op_of(c);
    node_.attrs = c.attrs;
    node_.source = 5;
    node_.first_row = conditions.first_row;
    setup_.node = &node_;
    bind_inputs();
    bind_outputs();
    if (conditions.blocked) block();
    if (op_of(c).tiling) tiling_ = op_of(c).tiling(setup_.types);
  }

  std::vector<Tensor> run() {
    auto made = op_of(case_).kernels.at("cpu")(setup_);
    INFO(made.status());
    REQUIRE(made.ok());
    kernel_ = std::move(*made);
    const size_t workspace = kernel_->workspace_bytes();
    workspace_ = filled(workspace, conditions_.before);
    for (int phase = 0; phase < kernel_->phases(); ++phase) run_phase(phase);
    INFO(failure_);
    REQUIRE(failure_.ok());
    check_guard(workspace_, workspace);
    return results();
  }

 private:
  void fail(uint32_t, Status status) override {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }

  void bind_inputs() {
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const Tensor& given = case_.inputs[i];
      inputs_.push_back(given.valid() ? given.clone() : Tensor());
      const bool small = given.valid() && (!is_float(given.dtype()) || given.elements() <= 4);
      const bool known =
          given.valid() && !is_resource(case_, i) && (conditions_.all_known || small);
      setup_.constants.push_back(known ? &case_.inputs[i] : nullptr);
    }
  }

  void bind_outputs() {
    for (const OperandType& type : setup_.types.outputs) {
      const bool tensor = type.present && type.kind == ValueKind::tensor;
      memory_.push_back(tensor ? filled(type.bytes(), conditions_.before) : Tensor());
      outputs_.push_back(tensor ? at(memory_.back(), type) : Tensor());
    }
    for (auto [output, input] : conditions_.in_place) {
      outputs_[static_cast<size_t>(output)] = at(inputs_[static_cast<size_t>(input)],
                                                 setup_.types.outputs[static_cast<size_t>(output)]);
    }
  }

  static Tensor at(const Tensor& memory, const OperandType& type) {
    return Tensor::wrap(type.dtype, type.shape, memory.raw(), std::make_shared<Tensor>(memory));
  }

  void block() {
    const LayoutSupport support = op_of(case_).layouts(setup_.types);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (((support.inputs >> i) & 1) == 0 || !inputs_[i].valid()) continue;
      inputs_[i] = to_channels16(inputs_[i]);
      setup_.types.inputs[i].layout = Layout::channels16;
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (((support.outputs >> o) & 1) && outputs_[o].valid()) {
        setup_.types.outputs[o].layout = Layout::channels16;
      }
    }
  }

  void run_phase(int phase) {
    const int tiles = kernel_->tiles(phase);
    std::atomic<int> next{0};
    const auto work = [&] {
      const size_t scratch = kernel_->scratch_bytes();
      const Tensor memory = filled(scratch, conditions_.before);
      for (int claimed = next++; claimed < tiles; claimed = next++) {
        run_tile(phase, conditions_.reverse ? tiles - 1 - claimed : claimed, memory);
      }
      if (memory.data<uint8_t>()[scratch] != kGuardByte)
        fail(0, failed_precondition("wrote past its scratch"));
    };
    if (conditions_.threads == 0) return work();
    std::vector<std::thread> threads;
    for (int i = 0; i < conditions_.threads; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
  }

  void run_tile(int phase, int tile, const Tensor& scratch) {
    std::vector<void*> in, out;
    for (const Tensor& tensor : inputs_) in.push_back(tensor.valid() ? tensor.raw() : nullptr);
    for (const Tensor& tensor : outputs_) out.push_back(tensor.valid() ? tensor.raw() : nullptr);
    const bool row_phase = phase == kernel_->row_phase();
    std::vector<Tensor> rows;
    if (conditions_.rows_apart) rows = take_rows_apart(in, out, row_phase ? tile : -1);
    KernelContext context;
    context.inputs = in.data();
    context.outputs = out.data();
    context.workspace = static_cast<std::byte*>(workspace_.raw());
    context.scratch = static_cast<std::byte*>(scratch.raw());
    context.step = this;
    const Progress progress = kernel_->run(context, phase, tile);
    if (progress != Progress::done && progress != Progress::failed) {
      fail(0, failed_precondition("expected a kernel that is done"));
    }
    if (conditions_.rows_apart && row_phase) put_rows_back(rows, tile);
  }

  bool of_rows(const Tensor& tensor, uint32_t bits, size_t i) const {
    return tensor.valid() && i < 32 && (bits >> i & 1) && tensor.shape().rank() > 0 &&
           tensor.shape()[0] == tiling_.rows;
  }
  size_t tile_bytes(const Tensor& tensor) const {
    return tensor.bytes() / static_cast<size_t>(tiling_.rows) *
           static_cast<size_t>(conditions_.tile_rows);
  }
  size_t bytes_in(const Tensor& tensor, int tile) const {
    const size_t whole = tile_bytes(tensor);
    return std::min(whole, tensor.bytes() - static_cast<size_t>(tile) * whole);
  }

  // Points operands of rows to memory of one tile: garbage, except for the tile's rows of inputs.
  // In another phase (tile -1) all of it is garbage. The order is: inputs, then outputs.
  std::vector<Tensor> take_rows_apart(std::vector<void*>& in, std::vector<void*>& out, int tile) {
    std::vector<Tensor> memory;
    const auto move = [&](const std::vector<Tensor>& tensors, std::vector<void*>& addresses,
                          uint32_t bits, bool read) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        memory.emplace_back();
        if (!of_rows(tensors[i], bits, i)) continue;
        const size_t size = tile_bytes(tensors[i]), offset = static_cast<size_t>(tile) * size;
        memory.back() = filled(tile < 0 ? tensors[i].bytes() : size, 0xEE);
        auto* base = static_cast<std::byte*>(memory.back().raw());
        addresses[i] = base;
        if (tile < 0) continue;
        addresses[i] = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(base) - offset);
        const auto* rows = static_cast<const std::byte*>(tensors[i].raw()) + offset;
        if (read) std::memcpy(base, rows, bytes_in(tensors[i], tile));
      }
    };
    move(inputs_, in, tiling_.row_inputs & ~tiling_.late_inputs, true);
    move(outputs_, out, tiling_.row_outputs, false);
    return memory;
  }
  void put_rows_back(const std::vector<Tensor>& memory, int tile) {
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const Tensor& rows = memory[inputs_.size() + o];
      if (!rows.valid()) continue;
      const size_t size = tile_bytes(outputs_[o]);
      std::memcpy(static_cast<std::byte*>(outputs_[o].raw()) + static_cast<size_t>(tile) * size,
                  rows.raw(), bytes_in(outputs_[o], tile));
      check_guard(rows, size);
    }
  }

  std::vector<Tensor> results() {
    std::vector<Tensor> results;
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (memory_[o].valid()) check_guard(memory_[o], setup_.types.outputs[o].bytes());
      if (!outputs_[o].valid()) continue;
      const bool blocked = setup_.types.outputs[o].layout == Layout::channels16;
      results.push_back(blocked ? from_channels16(outputs_[o]) : outputs_[o].clone());
    }
    for (int input : op_of(case_).writes) results.push_back(inputs_[static_cast<size_t>(input)]);
    return results;
  }

  const ConformanceCase& case_;
  const Conditions& conditions_;
  const Attrs attrs_;
  KernelSetup setup_;
  Tiling tiling_;
  Node node_;
  std::vector<Tensor> inputs_, memory_, outputs_;
  std::unique_ptr<Kernel> kernel_;
  Tensor workspace_;
  std::mutex mutex_;
  Status failure_;
};

// Converts a tensor. An integer is the number of eighths in the value, but never 0, and not
// negative if the type is unsigned.
Tensor as(const Tensor& tensor, DType dtype) {
  if (is_float(dtype)) return tensor.cast(dtype);
  Tensor out(dtype, tensor.shape());
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double eighths = std::trunc(tensor.at(i) * 8);
    const double value = eighths == 0 ? 1 : eighths;
    out.set(i, dtype == DType::boolean  ? tensor.at(i) > 0
               : is_unsigned_int(dtype) ? std::abs(value)
                                        : value);
  }
  return out;
}

const Operand& operand(const std::vector<Operand>& operands, size_t i) {
  return operands[std::min(i, operands.size() - 1)];
}

}  // namespace

const OpDef& op_of(const ConformanceCase& c) {
  const OpDef* op = test_catalogue().find(c.op);
  INFO("op " << c.op);
  REQUIRE(op != nullptr);
  return *op;
}

OpTypes types_of(const ConformanceCase& c, const Attrs& attrs) {
  const auto outcome = infer(c.op, value_types(c), c.attrs, c.outputs, c.inputs);
  INFO(outcome.status());
  REQUIRE(outcome.ok());
  OpTypes types;
  types.attrs = &attrs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& tensor = c.inputs[i];
    const ValueKind kind = is_resource(c, i) ? ValueKind::resource : ValueKind::tensor;
    types.inputs.push_back({tensor.dtype(), tensor.shape(), Layout::plain, kind, tensor.valid()});
  }
  for (const ValueType& type : outcome->outputs) {
    const auto shape = type.shape.concrete();
    REQUIRE(shape.has_value());
    types.outputs.push_back({type.dtype, *shape, Layout::plain, type.kind, true});
  }
  return types;
}

std::vector<Tensor> run_case(const ConformanceCase& c, const Conditions& conditions) {
  return CaseRun(c, conditions).run();
}

std::vector<ConformanceCase> dtype_variants(const ConformanceCase& c) {
  std::vector<ConformanceCase> variants;
  int64_t elements = 0;
  for (const Tensor& tensor : c.inputs) elements += tensor.valid() ? tensor.elements() : 0;
  if (!c.dtypes || elements > kLargeCase) return variants;
  const OpDef& op = op_of(c);
  for (const auto& [variable, allowed] : op.types) {
    for (int code = 1; code < kDTypeCount; ++code) {
      const auto dtype = static_cast<DType>(code);
      if (dtype == DType::f32 || !allowed.has(dtype)) continue;
      ConformanceCase variant = c;
      bool changed = false;
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        if (operand(op.inputs, i).type != variable || c.inputs[i].dtype() != DType::f32) continue;
        variant.inputs[i] = as(c.inputs[i], dtype);
        changed = true;
      }
      // The gate may refuse types that depend on others, such as those of saved statistics.
      if (changed &&
          infer(variant.op, value_types(variant), variant.attrs, variant.outputs, variant.inputs)
              .ok()) {
        variants.push_back(std::move(variant));
      }
    }
  }
  return variants;
}

}  // namespace leat::testing

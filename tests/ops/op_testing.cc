#include "tests/ops/op_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/graph/gradients.h"
#include "tests/catch.h"
#include "tests/slowness.h"

namespace leat::testing {
namespace {

const OpDef& find_op(std::string_view name) {
  const OpDef* op = test_catalogue().find(name);
  INFO("op " << name);
  REQUIRE(op != nullptr);
  return *op;
}

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool close(double actual, double expected, double rtol, double atol) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  return std::abs(actual - expected) <= atol + rtol * std::abs(expected);
}

SymbolicShape symbolic(const Tensor& tensor) { return SymbolicShape(tensor.shape()); }

// Runs one op's kernel without the interpreter, so that a test can inspect its tiles.
class HandKernel final : private StepContext {
 public:
  HandKernel(const OpDef& op, const std::vector<Tensor>& inputs, const Attrs& attrs, int outputs)
      : op_(op), inputs_(inputs), attrs_(with_defaults(op, attrs)) {
    std::vector<ValueType> types;
    for (const Tensor& tensor : inputs) {
      types.push_back(tensor.valid() ? tensor_type(tensor.dtype(), symbolic(tensor)) : ValueType());
    }
    auto outcome = infer(op.full_name(), types, attrs, outputs, inputs);
    INFO(outcome.status());
    REQUIRE(outcome.ok());
    setup_.types.attrs = &attrs_;
    setup_.subject = op.full_name();
    node_.op = &op;
    node_.attrs = attrs;
    node_.source = 0;
    setup_.node = &node_;
    for (const Tensor& tensor : inputs_) {
      setup_.types.inputs.push_back(
          {tensor.dtype(), tensor.shape(), Layout::plain, ValueKind::tensor, tensor.valid()});
      setup_.constants.push_back(tensor.valid() ? &tensor : nullptr);
    }
    for (const ValueType& type : outcome->outputs) {
      const Shape shape = type.shape.concrete().value();
      setup_.types.outputs.push_back({type.dtype, shape, Layout::plain, type.kind, true});
      outputs_.emplace_back(type.dtype, shape);
    }
  }

  const OpTypes& types() const { return setup_.types; }
  KernelSetup& setup() { return setup_; }
  std::vector<Tensor>& inputs() { return inputs_; }
  std::vector<Tensor>& outputs() { return outputs_; }

  void make() {
    auto made = op_.kernels.at("cpu")(setup_);
    INFO(made.status());
    REQUIRE(made.ok());
    kernel_ = std::move(*made);
    workspace_ = Tensor(DType::u8, {static_cast<int64_t>(kernel_->workspace_bytes()) + 64});
    scratch_ = Tensor(DType::u8, {static_cast<int64_t>(kernel_->scratch_bytes()) + 64});
  }
  Kernel& kernel() { return *kernel_; }

  void run(int phase, int tile) {
    std::vector<void*> in, out;
    for (const Tensor& tensor : inputs_) in.push_back(tensor.valid() ? tensor.raw() : nullptr);
    for (const Tensor& tensor : outputs_) out.push_back(tensor.raw());
    KernelContext context;
    context.inputs = in.data();
    context.outputs = out.data();
    context.workspace = static_cast<std::byte*>(workspace_.raw());
    context.scratch = static_cast<std::byte*>(scratch_.raw());
    context.step = this;
    const Progress progress = kernel_->run(context, phase, tile);
    INFO(failure_);
    REQUIRE(progress == Progress::done);
  }
  void run_phase(int phase) {
    for (int tile = 0; tile < kernel_->tiles(phase); ++tile) run(phase, tile);
  }
  void run_all() {
    for (int phase = 0; phase < kernel_->phases(); ++phase) run_phase(phase);
  }

 private:
  void fail(uint32_t, Status status) override { failure_ = std::move(status); }

  const OpDef& op_;
  std::vector<Tensor> inputs_;
  Attrs attrs_;
  Node node_;
  KernelSetup setup_;
  std::vector<Tensor> outputs_;
  std::unique_ptr<Kernel> kernel_;
  Tensor workspace_, scratch_;
  Status failure_;
};

// The rows of `tensor` outside [begin, end) become NaN.
Tensor poisoned_outside(const Tensor& tensor, int64_t begin, int64_t end) {
  Tensor out = tensor.clone();
  const int64_t row = tensor.shape().elements(1, tensor.shape().rank());
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (i / row < begin || i / row >= end) out.set(i, std::nan(""));
  }
  return out;
}

// Runs every tile of the row phase on inputs whose other rows are poison.
void check_tiles_read_their_own_rows(const OpDef& op, const std::vector<Tensor>& inputs,
                                     const Attrs& attrs, const std::vector<Tensor>& expected,
                                     int64_t tile_rows) {
  HandKernel hand(op, inputs, attrs, static_cast<int>(expected.size()));
  const Tiling tiling = op.tiling(hand.types());
  hand.setup().tile_rows = tile_rows;
  hand.make();
  const int phase = hand.kernel().row_phase();
  REQUIRE(hand.kernel().tiles(phase) == tile_count(tiling.rows, tile_rows));
  for (int before = 0; before < phase; ++before) hand.run_phase(before);
  for (int tile = 0; tile < hand.kernel().tiles(phase); ++tile) {
    const int64_t begin = tile * tile_rows, end = std::min(tiling.rows, begin + tile_rows);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (((tiling.row_inputs >> i) & 1) == 0) continue;
      REQUIRE(inputs[i].shape()[0] == tiling.rows);
      if (is_float(inputs[i].dtype())) hand.inputs()[i] = poisoned_outside(inputs[i], begin, end);
    }
    hand.run(phase, tile);
    for (size_t o = 0; o < expected.size(); ++o) {
      if (((tiling.row_outputs >> o) & 1) == 0) continue;
      REQUIRE(expected[o].shape()[0] == tiling.rows);
      const size_t row = expected[o].bytes() / static_cast<size_t>(tiling.rows);
      const size_t at = row * static_cast<size_t>(begin),
                   size = row * static_cast<size_t>(end - begin);
      INFO(op.full_name() << " output " << o << " rows [" << begin << "," << end << ")");
      CHECK(std::memcmp(hand.outputs()[o].data<char>() + at, expected[o].data<char>() + at, size) ==
            0);
    }
  }
}

// A graph of one op whose weighted float outputs can be fetched and differentiated.
struct WeightedOp {
  Graph graph{test_catalogue()};
  Inference inference{graph};
  std::vector<ValueId> inputs;
  std::vector<ValueId> weighted;
};

ValueId add(WeightedOp& w, std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  auto node = w.graph.add_node(find_op(op), std::move(inputs), std::move(attrs), 1);
  const Status status = w.inference.infer(node);
  INFO(status);
  REQUIRE(status.ok());
  return w.graph.node(node).outputs[0];
}

void build(WeightedOp& w, std::string_view op, const std::vector<Tensor>& inputs,
           const Attrs& attrs, const std::vector<int>& differentiable, int outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool fed =
        std::count(differentiable.begin(), differentiable.end(), static_cast<int>(i)) > 0;
    if (!inputs[i].valid()) {
      w.inputs.push_back(kNone);
    } else if (fed) {
      REQUIRE(inputs[i].dtype() == DType::f64);
      w.inputs.push_back(
          w.graph.add_input(cat("x", i), tensor_type(DType::f64, symbolic(inputs[i]))));
    } else {
      w.inputs.push_back(add(w, "Constant", {}, {{"value", inputs[i]}}));
    }
  }
  const NodeId node = w.graph.add_node(find_op(op), w.inputs, attrs, outputs);
  const Status status = w.inference.infer(node);
  INFO(status);
  REQUIRE(status.ok());
  for (int o = 0; o < outputs; ++o) {
    const ValueId y = w.graph.node(node).outputs[static_cast<size_t>(o)];
    const ValueType type = w.graph.value(y).type;
    if (!is_float(type.dtype)) continue;
    const Tensor weights =
        random_tensor(type.dtype, type.shape.concrete().value(), 77 + static_cast<uint64_t>(o));
    w.weighted.push_back(add(w, "Mul", {y, add(w, "Constant", {}, {{"value", weights}})}, {}));
  }
  REQUIRE(!w.weighted.empty());
}

double weighted_sum(const WeightedOp& w, const std::map<ValueId, Tensor>& feeds) {
  auto outputs = interpret(w.graph, feeds, w.weighted);
  INFO(outputs.status());
  REQUIRE(outputs.ok());
  double sum = 0;
  for (const Tensor& tensor : *outputs) {
    for (int64_t i = 0; i < tensor.elements(); ++i) sum += tensor.at(i);
  }
  return sum;
}

std::vector<Tensor> computed_gradients(WeightedOp& w, const std::map<ValueId, Tensor>& feeds,
                                       const std::vector<ValueId>& xs) {
  ValueId y = w.weighted[0];
  for (size_t i = 1; i < w.weighted.size(); ++i) {
    if (i == 1) y = add(w, "ReduceSum", {y}, {{"keepdims", int64_t{0}}});
    y = add(w, "Add", {y, add(w, "ReduceSum", {w.weighted[i]}, {{"keepdims", int64_t{0}}})}, {});
  }
  auto gradients = add_gradients(w.inference, y, xs);
  INFO(gradients.status());
  REQUIRE(gradients.ok());
  for (ValueId gradient : *gradients) REQUIRE(gradient != kNone);
  auto values = interpret(w.graph, feeds, *gradients);
  INFO(values.status());
  REQUIRE(values.ok());
  return *values;
}

Tensor reorder_channels16(const Tensor& in, bool to_blocked) {
  REQUIRE(in.shape().rank() == 4);
  const int64_t n = in.shape()[0], c = in.shape()[1], area = in.shape()[2] * in.shape()[3];
  REQUIRE(c % 16 == 0);
  Tensor out(in.dtype(), in.shape());
  const size_t size = dtype_size(in.dtype());
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t k = 0; k < c; ++k) {
      for (int64_t s = 0; s < area; ++s) {
        const auto plain = static_cast<size_t>((b * c + k) * area + s);
        const auto blocked =
            static_cast<size_t>(((b * (c / 16) + k / 16) * area + s) * 16 + k % 16);
        const size_t from = to_blocked ? plain : blocked, to = to_blocked ? blocked : plain;
        std::memcpy(out.data<char>() + to * size, in.data<char>() + from * size, size);
      }
    }
  }
  return out;
}

}  // namespace

const Catalogue& test_catalogue() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

std::vector<Tensor> run(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                        int outputs, const InterpretOptions& options) {
  auto result = run_op(find_op(op), attrs, inputs, outputs, std::string(op), options);
  INFO(result.status());
  REQUIRE(result.ok());
  return *result;
}

Tensor run1(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  return run(op, inputs, attrs)[0];
}

Status run_error(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                 int outputs) {
  auto result = run_op(find_op(op), attrs, inputs, outputs, std::string(op));
  INFO(op << " must fail");
  REQUIRE(!result.ok());
  return result.status();
}

ValueType tensor_type(DType dtype, SymbolicShape shape) {
  return {ValueKind::tensor, dtype, std::move(shape)};
}

Result<OpOutcome> infer(std::string_view op, const std::vector<ValueType>& types,
                        const Attrs& attrs, int outputs, const std::vector<Tensor>& values) {
  OpCall call;
  call.op = &find_op(op);
  call.attrs = &attrs;
  call.subject = std::string(op);
  for (size_t i = 0; i < types.size(); ++i) {
    const bool present = types[i].dtype != DType::invalid;
    call.inputs.push_back(present ? &types[i] : nullptr);
    call.constants.push_back(i < values.size() && values[i].valid() ? &values[i] : nullptr);
  }
  call.wanted.assign(static_cast<size_t>(outputs), true);
  SymbolId fresh = 1000;
  call.fresh_symbol = [&fresh] { return fresh++; };
  call.shape_text = [](const SymbolicShape& shape) {
    std::vector<std::string> sizes;
    for (Dim dim : shape.dims()) {
      sizes.push_back(dim.is_constant() ? cat(dim.factor) : cat(dim.factor, "*s", dim.symbol));
    }
    return "[" + join(sizes, ",") + "]";
  };
  return infer_op(call);
}

Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double low, double high) {
  Tensor out(dtype, shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const uint64_t bits = mix(mix(seed) + static_cast<uint64_t>(i));
    const double unit = static_cast<double>(bits >> 11) * 0x1.0p-53;
    const double value = low + (high - low) * unit;
    if (dtype == DType::boolean) {
      out.set(i, unit >= 0.5);
    } else {
      out.set(i, is_float(dtype) ? value : std::floor(value));
    }
  }
  return out;
}

Tensor ints(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

Tensor counting(DType dtype, const Shape& shape) {
  Tensor out(dtype, shape);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, static_cast<double>(i));
  return out;
}

void check_close(const Tensor& actual, const Tensor& expected, double rtol, double atol) {
  REQUIRE(actual.dtype() == expected.dtype());
  REQUIRE(actual.shape() == expected.shape());
  for (int64_t i = 0; i < expected.elements(); ++i) {
    if (close(actual.at(i), expected.at(i), rtol, atol)) continue;
    FAIL("element " << i << ": expected " << expected.at(i) << ", received " << actual.at(i)
                    << "\n  expected " << expected << "\n  received " << actual);
  }
  SUCCEED();
}

void check_identical(const Tensor& actual, const Tensor& expected) {
  INFO("expected " << expected << "\n  received " << actual);
  CHECK(actual.identical(expected));
}

void check_gradients(std::string_view op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                     const std::vector<int>& differentiable, int outputs, double tolerance) {
  WeightedOp w;
  build(w, op, inputs, attrs, differentiable, outputs);
  std::map<ValueId, Tensor> feeds;
  std::vector<ValueId> xs;
  for (int i : differentiable) {
    const ValueId x = w.inputs[static_cast<size_t>(i)];
    xs.push_back(x);
    feeds[x] = inputs[static_cast<size_t>(i)].clone();
  }
  const std::vector<Tensor> gradients = computed_gradients(w, feeds, xs);
  for (size_t k = 0; k < xs.size(); ++k) {
    const Tensor& x = feeds[xs[k]];
    INFO(op << ": gradient of input " << differentiable[k]);
    REQUIRE(gradients[k].shape() == x.shape());
    Tensor numeric(DType::f64, x.shape());
    // Sanitizers look at addresses, not at values: some of a large operand's elements do there.
    const int64_t stride = kSlowness > 1 ? 1 + x.elements() / 32 : 1;
    for (int64_t i = 0; i < x.elements(); ++i) {
      if (i % stride != 0) {
        numeric.data<double>()[i] = gradients[k].at(i);
        continue;
      }
      const double at = x.at(i), h = 1e-5 * std::max(1.0, std::abs(at));
      x.data<double>()[i] = at + h;
      const double above = weighted_sum(w, feeds);
      x.data<double>()[i] = at - h;
      const double below = weighted_sum(w, feeds);
      x.data<double>()[i] = at;
      numeric.data<double>()[i] = (above - below) / (2 * h);
    }
    check_close(gradients[k], numeric, tolerance, tolerance);
  }
}

std::vector<Tensor> gradients_of(std::string_view op, const std::vector<Tensor>& inputs,
                                 const Attrs& attrs) {
  WeightedOp w;
  std::map<ValueId, Tensor> feeds;
  for (const Tensor& input : inputs) {
    w.inputs.push_back(w.graph.add_input("x", tensor_type(input.dtype(), symbolic(input))));
    feeds[w.inputs.back()] = input;
  }
  w.weighted = {add(w, op, w.inputs, attrs)};
  return computed_gradients(w, feeds, w.inputs);
}

void check_tiles(std::string_view name, const std::vector<Tensor>& inputs, const Attrs& attrs,
                 int outputs) {
  const OpDef& op = find_op(name);
  INFO("op " << name);
  REQUIRE(op.tiling);
  const Tiling tiling = op.tiling(HandKernel(op, inputs, attrs, outputs).types());
  REQUIRE(tiling.rows > 1);
  REQUIRE((tiling.row_inputs | tiling.row_outputs) != 0);
  const std::vector<Tensor> expected = run(name, inputs, attrs, outputs);
  for (int64_t tile_rows : {int64_t{0}, int64_t{1}, int64_t{3}, tiling.rows}) {
    for (bool reverse : {false, true}) {
      InterpretOptions options;
      options.tile_rows = tile_rows;
      options.reverse_tiles = reverse;
      const std::vector<Tensor> received = run(name, inputs, attrs, outputs, options);
      for (size_t o = 0; o < expected.size(); ++o) {
        INFO("output " << o << " with tiles of " << tile_rows << " rows, reverse " << reverse);
        check_identical(received[o], expected[o]);
      }
    }
  }
  for (int64_t tile_rows : {int64_t{1}, int64_t{3}}) {
    check_tiles_read_their_own_rows(op, inputs, attrs, expected, tile_rows);
  }
}

void check_channels16(std::string_view name, const std::vector<Tensor>& inputs, const Attrs& attrs,
                      int outputs, double rtol, double atol) {
  const OpDef& op = find_op(name);
  INFO("op " << name);
  REQUIRE(op.layouts);
  HandKernel hand(op, inputs, attrs, outputs);
  const LayoutSupport support = op.layouts(hand.types());
  REQUIRE((support.inputs | support.outputs) != 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (((support.inputs >> i) & 1) == 0) continue;
    hand.inputs()[i] = to_channels16(inputs[i]);
    hand.setup().types.inputs[i].layout = Layout::channels16;
  }
  for (size_t o = 0; o < hand.outputs().size(); ++o) {
    if ((support.outputs >> o) & 1) hand.setup().types.outputs[o].layout = Layout::channels16;
  }
  hand.make();
  hand.run_all();
  const std::vector<Tensor> expected = run(name, inputs, attrs, outputs);
  for (size_t o = 0; o < expected.size(); ++o) {
    const bool blocked = (support.outputs >> o) & 1;
    const Tensor received = blocked ? from_channels16(hand.outputs()[o]) : hand.outputs()[o];
    INFO("output " << o);
    if (rtol == 0 && atol == 0) {
      check_identical(received, expected[o]);
    } else {
      check_close(received, expected[o], rtol, atol);
    }
  }
}

void run_kernel(Kernel& kernel, std::vector<void*> inputs, std::vector<void*> outputs) {
  struct FailingStep final : StepContext {
    void fail(uint32_t, Status status) override { FAIL(status.message()); }
  } step;
  const Tensor workspace(DType::u8, {static_cast<int64_t>(kernel.workspace_bytes())});
  const Tensor scratch(DType::u8, {static_cast<int64_t>(kernel.scratch_bytes())});
  KernelContext context;
  context.inputs = inputs.data();
  context.outputs = outputs.data();
  context.workspace = static_cast<std::byte*>(workspace.raw());
  context.scratch = static_cast<std::byte*>(scratch.raw());
  context.step = &step;
  for (int phase = 0; phase < kernel.phases(); ++phase) {
    for (int tile = 0; tile < kernel.tiles(phase); ++tile)
      REQUIRE(kernel.run(context, phase, tile) == Progress::done);
  }
}

Tensor to_channels16(const Tensor& plain) { return reorder_channels16(plain, true); }
Tensor from_channels16(const Tensor& blocked) { return reorder_channels16(blocked, false); }

}  // namespace leat::testing

// The kernels of recurrent cells that multiply bf16, on any processor with AVX-512.
#include "ops/cpu/onednn.h"
#include "ops/cpu/recurrent.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

constexpr int64_t kSteps = 5, kState = 32;
constexpr double kLengths[] = {5, 3, 0, 9};  // of sequences; one has more than there are steps

using MakeKernel = Result<std::unique_ptr<Kernel>> (*)(const KernelSetup&);

// Runs a kernel on bf16 operands; `like` has the shapes of the outputs.
std::vector<Tensor> run_narrow(const std::string& name, MakeKernel make, const Attrs& given,
                               const std::vector<Tensor>& inputs, const std::vector<Tensor>& like) {
  const OpDef& op = *test_catalogue().find(name);
  const Attrs attrs = with_defaults(op, given);
  Node node;
  node.op = &op;
  node.attrs = given;
  KernelSetup setup;
  setup.types.attrs = &attrs;
  setup.node = &node;
  setup.subject = name;
  std::vector<void*> in, out;
  for (const Tensor& input : inputs) {
    const bool present = input.dtype() != DType::invalid;
    setup.types.inputs.push_back(
        {input.dtype(), input.shape(), Layout::plain, ValueKind::tensor, present});
    in.push_back(present ? input.raw() : nullptr);
  }
  std::vector<Tensor> outputs;
  for (const Tensor& each : like) {
    outputs.emplace_back(DType::bf16, each.shape());
    setup.types.outputs.push_back(
        {DType::bf16, each.shape(), Layout::plain, ValueKind::tensor, true});
    out.push_back(outputs.back().raw());
  }
  auto kernel = make(setup);
  REQUIRE(kernel.status().message() == "");
  run_kernel(**kernel, in, out);
  return outputs;
}

bool library_multiplies_cells() {
  return onednn::make_bf16_product({false, false, 16, 64, 64, 64, 64, 64}, true).ok();
}

struct CellCase {
  const char* cell;
  int64_t gates;
  bool linear_before_reset;
  Attrs attrs() const {
    Attrs all{{"cell", std::string(cell)}};
    if (linear_before_reset) all["linear_before_reset"] = int64_t{1};
    return all;
  }
};
const CellCase kCells[] = {{"lstm", 4, false}, {"gru", 3, true}, {"rnn", 1, false}};

Tensor widened(const Tensor& t) { return t.dtype() == DType::bf16 ? t.cast(DType::f32) : t; }
Tensor narrowed(const Tensor& t) { return t.dtype() == DType::f32 ? t.cast(DType::bf16) : t; }
std::vector<Tensor> widened(const std::vector<Tensor>& all) {
  std::vector<Tensor> out;
  for (const Tensor& each : all) out.push_back(widened(each));
  return out;
}

// The operands of a cell and of its gradient, in bf16, for so many rows; and what the cell of f32
// computes from them. `all`: with the ones that may be absent; the sequences differ in length then.
struct CellOperands {
  CellOperands(const CellCase& c, int64_t rows, bool all) {
    auto random = [seed = uint64_t{0}](Shape shape) mutable {
      return random_tensor(DType::bf16, shape, ++seed);
    };
    const bool is_lstm = c.gates == 4, is_gru = c.gates == 3;
    const auto optional = [&](bool given, const Shape& shape) {
      return given && all ? random(shape) : Tensor();
    };
    const Shape state{rows, kState};
    // Small, so that the state forgets and differences do not grow from step to step.
    const Tensor r = random_tensor(DType::bf16, {kState, c.gates * kState}, 100, -0.2, 0.2);
    const Tensor h0 = optional(true, state), c0 = optional(is_lstm, state);
    const Tensor extra = optional(is_lstm || is_gru, {is_lstm ? 3 * kState : kState});
    Tensor lengths;
    if (all) {
      lengths = Tensor(DType::i32, {rows});
      for (int64_t i = 0; i < rows; ++i) lengths.set(i, kLengths[i % 4]);
    }
    inputs = {random({kSteps, rows, c.gates * kState}), r, h0, c0, extra, lengths};
    forward = run("leat.Recurrent", widened(inputs), c.attrs(), 5);
    for_gradient = {r,
                    narrowed(forward[0]),
                    narrowed(forward[3]),
                    narrowed(forward[4]),
                    h0,
                    c0,
                    extra,
                    lengths,
                    random({kSteps, rows, kState}),
                    optional(true, state),
                    optional(is_lstm, state)};
    gradient = run("leat.RecurrentGrad", widened(for_gradient), c.attrs(), 6);
  }
  const Tensor& x() const { return inputs[0]; }
  const Tensor& r() const { return inputs[1]; }

  std::vector<Tensor> inputs, forward, for_gradient, gradient;
};

TEST_CASE("cells that multiply bf16 compute what those of f32 do") {
  if (!library_multiplies_cells()) return;  // no AVX-512
  for (const CellCase& c : kCells) {
    for (const int64_t rows : {3, 16, 19}) {
      const bool all = rows != 16;
      INFO(c.cell << ", rows " << rows);
      const CellOperands o(c, rows, all);
      const auto forward =
          run_narrow("leat.Recurrent", make_bf16_recurrent_kernel, c.attrs(), o.inputs, o.forward);
      const auto gradient = run_narrow("leat.RecurrentGrad", make_bf16_recurrent_grad_kernel,
                                       c.attrs(), o.for_gradient, o.gradient);
      for (size_t i = 0; i < forward.size(); ++i) {
        if (i == 4 && c.gates == 1) continue;  // a plain cell has no further states
        INFO("output " << i);
        check_close(forward[i], narrowed(o.forward[i]), 3e-2, 3e-2);
      }
      for (size_t i = 0; i < gradient.size(); ++i) {
        INFO("gradient " << i);
        check_close(gradient[i], narrowed(o.gradient[i]), 5e-2, 5e-2);
      }
    }
  }
}

TEST_CASE("a row of a cell that multiplies bf16 does not depend on the others") {
  if (!library_multiplies_cells()) return;  // no AVX-512
  const CellCase& lstm = kCells[0];
  const CellOperands o(lstm, 19, false);
  const Tensor whole = run_narrow("leat.Recurrent", make_bf16_recurrent_kernel, lstm.attrs(),
                                  {o.x(), o.r()}, o.forward)[0];
  // The last three rows alone.
  const int64_t columns = 4 * kState, rows = 19, last = 3;
  Tensor x(DType::bf16, {kSteps, last, columns});
  Tensor expected(DType::bf16, {kSteps, last, kState});
  for (int64_t t = 0; t < kSteps; ++t) {
    const int64_t from = t * rows + rows - last;
    std::memcpy(x.data<BFloat16>() + t * last * columns, o.x().data<BFloat16>() + from * columns,
                static_cast<size_t>(last * columns) * sizeof(BFloat16));
    std::memcpy(expected.data<BFloat16>() + t * last * kState,
                whole.data<BFloat16>() + from * kState,
                static_cast<size_t>(last * kState) * sizeof(BFloat16));
  }
  const auto shapes = run("leat.Recurrent", {widened(x), widened(o.r())}, lstm.attrs(), 5);
  check_identical(
      run_narrow("leat.Recurrent", make_bf16_recurrent_kernel, lstm.attrs(), {x, o.r()}, shapes)[0],
      expected);
}

TEST_CASE("a GRU that resets first has no products of bf16") {
  const OpDef& op = *test_catalogue().find("leat.Recurrent");
  const Attrs attrs = with_defaults(op, {{"cell", std::string("gru")}});
  KernelSetup setup;
  setup.types.attrs = &attrs;
  setup.subject = "leat.Recurrent";
  for (const Shape& shape : {Shape{2, 3, 96}, Shape{32, 96}})
    setup.types.inputs.push_back({DType::bf16, shape, Layout::plain, ValueKind::tensor, true});
  CHECK(make_bf16_recurrent_kernel(setup).status().code() == Code::unimplemented);
}

}  // namespace
}  // namespace leat::testing

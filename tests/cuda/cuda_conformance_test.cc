// Every op that has a CUDA kernel, on the emulated GPU or a real one (deploy/gpu-check), against
// the CPU: the cases and dtypes of the conformance suite (tests/ops/conformance.h).
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>

#include "devices/base/text.h"
#include "ops/graph/validate.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/environment_number.h"
#include "tests/must.h"
#include "tests/ops/conformance.h"

namespace leat {
namespace {

using testing::ConformanceCase;
using testing::gpu_catalogue;

constexpr auto kCaseDeadline = std::chrono::seconds(60);

// The elements of an image [N, C, H, W] with the channels last, or back from there.
Tensor with_channels_last(const Tensor& plain, bool back = false) {
  Tensor out(plain.dtype(), plain.shape());
  const Shape& s = plain.shape();
  const int64_t area = s[2] * s[3];
  for (int64_t i = 0; i < plain.elements(); ++i) {
    const int64_t n = i / (s[1] * area), c = i / area % s[1];
    const int64_t last = (n * area + i % area) * s[1] + c;
    if (back)
      out.set(i, plain.at(last));
    else
      out.set(last, plain.at(i));
  }
  return out;
}

// One op on the GPU. The memory of its outputs begins at NaN.
class GpuCase final : private StepContext {
 public:
  // The node does not have the outputs that are left out. With `channels_last`, the operands that
  // may be in that layout are.
  GpuCase(Device& device, const ConformanceCase& c, const std::vector<size_t>& left_out = {},
          bool channels_last = false)
      : device_(device),
        case_(c),
        op_(*gpu_catalogue().find(c.op)),
        attrs_(with_defaults(op_, c.attrs)) {
    seed = 7;
    step = 3;
    numbers_ = must(device.allocate_host(sizeof(StepNumbers)));
    for_device = static_cast<StepNumbers*>(numbers_->data());
    std::memcpy(numbers_->data(), static_cast<StepNumbers*>(this), sizeof(StepNumbers));
    setup_.types = testing::types_of(c, attrs_);
    for (const size_t output : left_out) setup_.types.outputs[output].present = false;
    setup_.subject = c.op;
    setup_.device = &device;
    node_.op = &op_;
    node_.attrs = c.attrs;
    node_.source = 5;
    setup_.node = &node_;
    if (channels_last) {
      const LayoutSupport support = op_.device_layouts.at("cuda")(setup_.types);
      REQUIRE((support.inputs | support.outputs) != 0);
      const auto mark = [](std::vector<OperandType>& types, uint32_t bits) {
        for (size_t i = 0; i < types.size(); ++i) {
          if (types[i].present && (bits >> i & 1)) types[i].layout = Layout::channels_last;
        }
      };
      mark(setup_.types.inputs, support.inputs);
      mark(setup_.types.outputs, support.outputs);
    }
    for (const Tensor& input : c.inputs)
      setup_.constants.push_back(input.valid() ? &input : nullptr);
  }
  bool supported() const {
    const auto supports = op_.supports.find("cuda");
    return supports == op_.supports.end() || supports->second(setup_.types);
  }

  // The outputs, and then the final content of each written variable. `recorded`: the kernel's work
  // is recorded, and done as a whole.
  std::vector<Tensor> run(bool recorded = false) {
    std::vector<std::unique_ptr<Buffer>> memory;
    std::vector<void*> in, out;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const Tensor& given = case_.inputs[i];
      const bool last = setup_.types.inputs[i].layout == Layout::channels_last;
      const Tensor input = last ? with_channels_last(given) : given;
      in.push_back(input.valid() ? place(memory, input.bytes(), input.raw()) : nullptr);
    }
    for (const OperandType& type : setup_.types.outputs) {
      const bool tensor = type.present && type.kind == ValueKind::tensor;
      out.push_back(tensor ? place(memory, type.bytes(), nullptr) : nullptr);
    }
    const std::unique_ptr<Kernel> kernel = must(op_.kernels.at("cuda")(setup_));
    KernelContext context;
    context.inputs = in.data();
    context.outputs = out.data();
    context.workspace = static_cast<std::byte*>(place(memory, kernel->workspace_bytes(), nullptr));
    context.step = this;
    context.queue = &device_.queue();
    REQUIRE(kernel->phases() == 1);
    REQUIRE(kernel->tiles(0) == 1);
    REQUIRE(kernel->repeats());
    if (recorded) {
      REQUIRE(device_.queue().begin_recording());
      device_.queue().begin_piece({});
    }
    const Progress progress = kernel->run(context, 0, 0);
    const std::unique_ptr<Recording> recording =
        recorded ? device_.queue().end_recording() : nullptr;
    INFO(failure_);
    REQUIRE(progress == Progress::pending);
    if (recorded) {
      REQUIRE(recording);
      recording->enqueue();
    }
    must(device_.queue().settle(std::chrono::steady_clock::now() + kCaseDeadline));
    std::vector<Tensor> results;
    for (size_t o = 0; o < out.size(); ++o) {
      const OperandType& type = setup_.types.outputs[o];
      if (!out[o]) continue;
      results.push_back(fetch(type.dtype, type.shape, out[o]));
      if (type.layout == Layout::channels_last)
        results.back() = with_channels_last(results.back(), true);
    }
    for (const int input : op_.writes) {
      const Tensor& given = case_.inputs[static_cast<size_t>(input)];
      results.push_back(fetch(given.dtype(), given.shape(), in[static_cast<size_t>(input)]));
    }
    return results;
  }

 private:
  void fail(uint32_t, Status status) override { failure_ = std::move(status); }

  // Memory of the device, with these bytes or with ones in all bits.
  void* place(std::vector<std::unique_ptr<Buffer>>& memory, size_t bytes, const void* from) {
    memory.push_back(must(device_.allocate(bytes)));
    void* at = memory.back()->data();
    const std::unique_ptr<Buffer> staging = must(device_.allocate_host(bytes));
    if (bytes > 0) std::memset(staging->data(), 0xff, bytes);
    if (bytes > 0 && from) std::memcpy(staging->data(), from, bytes);
    device_.copy_to_device(at, staging->data(), bytes);
    must(device_.queue(QueueFor::copies_in)
             .settle(std::chrono::steady_clock::now() + kCaseDeadline));
    return at;
  }
  Tensor fetch(DType dtype, const Shape& shape, const void* from) {
    Tensor tensor(dtype, shape);
    const std::unique_ptr<Buffer> staging = must(device_.allocate_host(tensor.bytes()));
    device_.copy_to_host(staging->data(), from, tensor.bytes());
    must(device_.queue(QueueFor::copies_out)
             .settle(std::chrono::steady_clock::now() + kCaseDeadline));
    if (tensor.bytes() > 0) std::memcpy(tensor.raw(), staging->data(), tensor.bytes());
    return tensor;
  }

  Device& device_;
  const ConformanceCase& case_;
  const OpDef& op_;
  const Attrs attrs_;
  KernelSetup setup_;
  Node node_;
  std::unique_ptr<Buffer> numbers_;
  Status failure_;
};

// These add products in another order than the CPU's library.
const std::set<std::string> kOtherOrder = {"MatMul",
                                           "leat.MatMul",
                                           "Gemm",
                                           "Conv",
                                           "ConvTranspose",
                                           "leat.ConvGradInput",
                                           "leat.ConvGradWeights",
                                           "Attention",
                                           "leat.AttentionGrad",
                                           "leat.Recurrent",
                                           "leat.RecurrentGrad"};
// These call functions of the device's own library, in any dtype or in f64 alone. A GPU's library
// may differ from the CPU's in the last places; the emulated GPU has the CPU's.
const std::set<std::string> kLibrary = {"Log",
                                        "Sin",
                                        "Cos",
                                        "Tan",
                                        "Asin",
                                        "Acos",
                                        "Atan",
                                        "Sinh",
                                        "Cosh",
                                        "Asinh",
                                        "Acosh",
                                        "Atanh",
                                        "Pow",
                                        "leat.PowGrad",
                                        "Elu",
                                        "Softplus",
                                        "LogSoftmax",
                                        "RandomNormal",
                                        "RandomNormalLike",
                                        "SoftmaxCrossEntropyLoss",
                                        "leat.CrossEntropy",
                                        "leat.ApplyAdam",
                                        "leat.ApplyAdamW"};
const std::set<std::string> kLibraryInDouble = {"Exp",
                                                "Erf",
                                                "Sigmoid",
                                                "Tanh",
                                                "Gelu",
                                                "Softmax",
                                                "leat.GeluGrad",
                                                "leat.EluGrad",
                                                "leat.LogSoftmaxGrad",
                                                "leat.CrossEntropyGrad",
                                                "leat.SoftmaxCrossEntropyLossGrad"};

bool may_differ(const ConformanceCase& c, DType dtype) {
  if (kOtherOrder.contains(c.op)) return true;
  if (testing::gpu_is_emulated()) return false;
  return kLibrary.contains(c.op) || (dtype == DType::f64 && kLibraryInDouble.contains(c.op));
}

// How far the results of an op are from the CPU's, for the report of a real GPU.
struct Distances {
  int tensors = 0, identical = 0;
  double largest = 0;  // relative to the largest element
};
std::map<std::string, Distances>& distances() {
  static std::map<std::string, Distances> all;
  return all;
}

// `long_sums`: of thousands of products, by a library.
double tolerance_of(DType dtype, bool long_sums) {
  if (long_sums && dtype == DType::f32) return 2e-5;
  switch (dtype) {
    case DType::f64:
      return 1e-13;
    case DType::f16:
      return 2e-3;
    case DType::bf16:
      return 1.6e-2;
    default:
      return 2e-6;
  }
}

// The dtype of the case's first float operand.
DType compute_dtype(const ConformanceCase& c) {
  for (const Tensor& input : c.inputs) {
    if (input.valid() && is_float(input.dtype())) return input.dtype();
  }
  return DType::f32;
}

// Each step of a recurrent layer goes on from the sums of the one before it. Its input is
// [steps, rows, gates].
int64_t steps_of(const ConformanceCase& c) {
  return c.op == "leat.Recurrent" ? c.inputs[0].shape()[0] : 1;
}

// `other_order`: the sums of floats may be in another order.
void compare(const ConformanceCase& c, const std::vector<Tensor>& actual,
             const std::vector<Tensor>& expected, bool other_order = false) {
  REQUIRE(actual.size() == expected.size());
  for (size_t o = 0; o < actual.size(); ++o) {
    INFO("output " << o << ": expected " << expected[o] << "\n  received " << actual[o]);
    REQUIRE(actual[o].dtype() == expected[o].dtype());
    REQUIRE(actual[o].shape() == expected[o].shape());
    Distances& found = distances()[c.op];
    ++found.tensors;
    if (actual[o].identical(expected[o])) {
      ++found.identical;
      continue;
    }
    double largest = 1, farthest = 0;
    for (int64_t i = 0; i < expected[o].elements(); ++i) {
      const double e = expected[o].at(i), a = actual[o].at(i);
      if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
      if (e == a || (std::isnan(e) && std::isnan(a))) continue;
      farthest = std::isfinite(e - a) ? std::max(farthest, std::abs(e - a)) : HUGE_VAL;
    }
    found.largest = std::max(found.largest, farthest / largest);
    const bool allowed =
        is_float(actual[o].dtype()) &&
        (other_order || may_differ(c, c.inputs.empty() ? actual[o].dtype() : compute_dtype(c)));
    INFO("the farthest element differs by " << farthest);
    const double tolerance = tolerance_of(actual[o].dtype(), c.op == "leat.ConvGradWeights") *
                             static_cast<double>(steps_of(c));
    CHECK(farthest <= (allowed ? largest * tolerance : 0));
  }
}

Tensor waves(DType dtype, const Shape& shape, int64_t seed) {
  Tensor x(dtype, shape);
  for (int64_t i = 0; i < x.elements(); ++i)
    x.set(i, std::sin(static_cast<double>(i * 7 + 1000 * seed)));
  return x;
}

std::string case_text(const ConformanceCase& c) {
  std::vector<std::string> inputs;
  for (const Tensor& t : c.inputs)
    inputs.push_back(t.valid() ? cat(dtype_name(t.dtype()), t.shape().to_string()) : "-");
  return cat(c.op, "(", join(inputs, ", "), ")");
}

// A case with an operand of 16 bits on the GPU, against the same with operands of 32 on the CPU.
// The first output has this dtype; the others, and what is written, that of the CPU.
void compare_narrow(Device& device, const ConformanceCase& narrow, const ConformanceCase& wide,
                    DType first) {
  INFO(case_text(narrow));
  std::vector<Tensor> expected = testing::run_case(wide);
  if (first != DType::f32) expected[0] = expected[0].cast(first);
  compare(narrow, GpuCase(device, narrow).run(), expected);
}

// The cases of ops that have a CUDA kernel, by op; with `dtypes`, as other dtypes, too.
std::map<std::string, std::vector<ConformanceCase>> cuda_cases(bool dtypes) {
  std::map<std::string, std::vector<ConformanceCase>> cases;
  for (const ConformanceCase& c : testing::conformance_cases()) {
    const OpDef* op = gpu_catalogue().find(c.op);
    if (!op || !op->kernels.contains("cuda")) continue;
    auto& of_op = cases[c.op];
    of_op.push_back(c);
    if (!dtypes) continue;
    for (ConformanceCase& variant : testing::dtype_variants(c)) of_op.push_back(std::move(variant));
  }
  return cases;
}

}  // namespace

TEST_CASE("CUDA kernels give the CPU's results") {
  const bool reverse = GENERATE(false, true);
  if (reverse && !testing::gpu_is_emulated()) return;
  static const auto all = cuda_cases(true), plain = cuda_cases(false);
  const auto& cases = reverse ? plain : all;
  // A barrier that is missing shows when the threads of a block start from the last one.
  testing::prepare_gpu(0, reverse);
  const auto device = must(testing::open_gpu());
  // An emulated GPU takes minutes for all of them: one in so many is drawn of each op.
  const uint64_t one_in =
      testing::gpu_is_emulated() ? environment_number("LEAT_EMULATED_ONE_IN", 4) : 1;
  REQUIRE(one_in > 0);
  for (const auto& [op, of_op] : cases) {
    DYNAMIC_SECTION(op << (reverse ? ", from the last thread" : "")) {
      std::mt19937 draw(reverse);
      for (const ConformanceCase& c : of_op) {
        if (draw() % one_in != 0 && &c != &of_op.front()) continue;
        INFO(case_text(c));
        GpuCase on_gpu(*device, c);
        if (!on_gpu.supported()) continue;
        const std::vector<Tensor> plain = on_gpu.run();
        compare(c, plain, testing::run_case(c));
        // Recordings do not know dtypes: on an emulated GPU, one of them is enough.
        if (testing::gpu_is_emulated() && compute_dtype(c) != DType::f32) continue;
        const std::vector<Tensor> recorded = on_gpu.run(true);
        REQUIRE(recorded.size() == plain.size());
        for (size_t o = 0; o < plain.size(); ++o) CHECK(recorded[o].identical(plain[o]));
      }
    }
  }
  testing::prepare_gpu();
}

TEST_CASE("sums of many lines and of long ones have the CPU's tree") {
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  // Leaves of the tree: 40, more than a block of threads folds; more than 1024, which take two
  // passes, or several for each thread; and the blocks of a long line.
  const std::vector<std::pair<Shape, int64_t>> sums = {
      {Shape{1280, 3}, 0},   {Shape{1280, 40}, 0}, {Shape{33000, 2}, 0},
      {Shape{33000, 32}, 0}, {Shape{2, 6000}, 1},  {Shape{1, 2200000}, 1}};
  for (const auto& [shape, axis] : sums) {
    ConformanceCase c{"ReduceSum"};
    Tensor x(DType::f32, shape);
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, std::sin(static_cast<double>(i)));
    c.inputs = {x, Tensor::of<int64_t>({1}, {axis})};
    INFO(case_text(c));
    compare(c, GpuCase(*device, c).run(), testing::run_case(c));
  }
  testing::prepare_gpu();
}

TEST_CASE("copies of lines, which may be joined to words of 16 bytes") {
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    for (const int64_t line : {1, 2, 3, 4, 8, 16, 24}) {
      Tensor x(dtype, Shape{3, 5, line});
      for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i % 100));
      ConformanceCase transpose{"Transpose", {x}};
      transpose.attrs = {{"perm", std::vector<int64_t>{1, 0, 2}}};
      // A part that begins within a word.
      const auto ints = [](std::vector<int64_t> values) {
        return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
      };
      ConformanceCase slice{"Slice", {x, ints({0, 1}), ints({3, line}), ints({0, 2})}};
      for (const ConformanceCase& c : {transpose, slice}) {
        INFO(case_text(c));
        compare(c, GpuCase(*device, c).run(), testing::run_case(c));
      }
    }
  }
  testing::prepare_gpu();
}

TEST_CASE("elements that a thread reads and writes together, as their neighbours allow") {
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const auto x = [&](const Shape& shape, int64_t seed = 1) { return waves(dtype, shape, seed); };
    const auto f = [&](const Shape& shape, int64_t seed = 1) {
      return waves(DType::f32, shape, seed);
    };
    std::vector<ConformanceCase> cases;
    // The last axis is whole, divided by none, or broadcast; and a row that begins between words.
    for (const int64_t columns : {64, 40, 12, 7}) {
      cases.push_back({"Add", {x({33, columns}), x({columns}, 2)}});
      cases.push_back({"Mul", {x({3, 5, columns}), x({3, 1, columns}, 2)}});
      cases.push_back({"Sub", {x({33, columns}), x({33, 1}, 2)}});
      cases.push_back({"leat.GeluGrad", {x({33, columns}), x({33, columns}, 2)}});
      cases.push_back({"Relu", {x({33, columns})}});
      for (const DType to : {DType::f32, DType::bf16, DType::f64})
        cases.push_back({"Cast", {x({33, columns})}, {{"to", int64_t{dtype_onnx_code(to)}}}});
      const Tensor rows = Tensor::of<int64_t>({1}, {0});
      cases.push_back({"ReduceSum", {x({1100, columns}), rows}});
      cases.push_back({"ReduceMax", {x({2100, columns}), rows}});
      cases.push_back({"ReduceMean", {x({3, 70, columns}), Tensor::of<int64_t>({1}, {1})}});
      ConformanceCase apply{"leat.ApplyMomentum",
                            {x({33, columns}), x({33, columns}, 2), x({33, columns}, 3),
                             Tensor::scalar_of(dtype, 0.5)},
                            {{"momentum", 0.5}},
                            0};
      apply.resources = 3;
      cases.push_back(apply);
    }
    // Planes of two leaves, of a multiple of 4 and of an odd number.
    for (const Shape& shape : {Shape{3, 2, 64, 40}, Shape{3, 2, 6, 6}, Shape{3, 2, 5, 5}}) {
      const Attrs training{{"training_mode", int64_t{1}}};
      const auto channel = [&](int64_t seed) { return f({shape[1]}, seed); };
      Tensor positive(DType::f32, {shape[1]});
      for (int64_t c = 0; c < shape[1]; ++c) positive.set(c, 0.5 + static_cast<double>(c));
      cases.push_back({"BatchNormalization",
                       {x(shape), channel(2), channel(3), channel(4), positive},
                       training,
                       3});
      cases.push_back({"leat.BatchNormalizationGrad",
                       {x(shape), x(shape, 2), channel(3), channel(4), positive},
                       training,
                       3});
    }
    // Classes of several blocks of a line, and scores whose neighbours are read together.
    cases.push_back({"SoftmaxCrossEntropyLoss",
                     {x({3, 5000}), Tensor::of<int64_t>({3}, {0, 4999, 17})},
                     {},
                     2});
    for (const int64_t classes : {5000, 5001, 24, 7}) {
      const Tensor labels = Tensor::of<int64_t>({3}, {0, classes - 1, 5});
      const Attrs ignores{{"ignore_index", int64_t{5}}};
      cases.push_back({"leat.CrossEntropy", {x({3, classes}), labels}, {}, 2});
      cases.push_back({"leat.CrossEntropy", {x({3, classes}), labels}, ignores, 2});
      const Tensor stats = Tensor::of<float>({2, 3}, {1, 0.9F, 0.8F, 3, 2, 4});
      cases.push_back({"leat.CrossEntropyGrad", {f({}), x({3, classes}), stats, labels}, ignores});
    }
    // A layer norm, its gradient and an optimizer beside 16 bits.
    if (dtype != DType::f32) {
      const Attrs to{{"leat_to", int64_t{dtype_onnx_code(dtype)}}};
      compare_narrow(*device, {"LayerNormalization", {f({9, 24}), f({24}, 2), f({24}, 3)}, to, 3},
                     {"LayerNormalization", {f({9, 24}), f({24}, 2), f({24}, 3)}, {}, 3}, dtype);
      const ConformanceCase wide{
          "leat.LayerNormalizationGrad",
          {x({70, 24}).cast(DType::f32), f({70, 24}, 2), f({24}, 3), f({70, 1}, 4), f({70, 1}, 5)},
          {},
          3};
      ConformanceCase narrow = wide;
      narrow.inputs[0] = x({70, 24});
      narrow.attrs = {{"leat_from", int64_t{dtype_onnx_code(dtype)}}};
      compare_narrow(*device, narrow, wide, DType::f32);
      const Attrs momentum{{"momentum", 0.5}};
      Attrs from = momentum;
      from["leat_from"] = int64_t{dtype_onnx_code(dtype)};
      for (const int64_t columns : {24, 7}) {
        ConformanceCase whole{"leat.ApplyMomentum",
                              {f({33, columns}), f({33, columns}, 2),
                               x({33, columns}, 3).cast(DType::f32), Tensor::scalar<float>(1)},
                              momentum,
                              0};
        whole.resources = 3;
        ConformanceCase half = whole;
        half.inputs[2] = x({33, columns}, 3);
        half.attrs = from;
        compare_narrow(*device, half, whole, DType::f32);
      }
      // Programs whose neighbours are read together, or not.
      for (const int64_t columns : {40, 24, 7}) {
        const Attrs program{
            {"steps", std::vector<std::string>{"Cast 0 float", "Mul 3 1 float", "Add 4 2 bfloat16",
                                               "Sub 5 3 float"}},
            {"params", std::vector<double>(8)},
            {"results", std::vector<int64_t>{5, 6}}};
        cases.push_back(
            {"leat.Elementwise", {x({3, 5, columns}), f({5, 1}), f({columns}, 2)}, program, 2});
      }
    }
    // Programs that have kernels of their own.
    if (dtype != DType::f32) {
      const std::string narrow(dtype_name(dtype));
      const auto x2 = x({9, 40}, 2), x3 = x({9, 40}, 3);
      const auto add = [&](std::vector<Tensor> inputs, const std::string& first,
                           const std::string& second, std::vector<int64_t> results) {
        const auto outputs = static_cast<int>(results.size());
        cases.push_back({"leat.Elementwise",
                         std::move(inputs),
                         {{"steps", std::vector<std::string>{first, second}},
                          {"params", std::vector<double>(4)},
                          {"results", std::move(results)}},
                         outputs});
      };
      add({x({9, 40}), x2}, "Add 0 1 " + narrow, "Relu 2 " + narrow, {3});
      add({x({9, 40}), x2, x3}, "Add 0 1 " + narrow, "leat.ReluGrad 3 2 " + narrow, {3, 4});
      add({x({9, 40})}, "Sigmoid 0 " + narrow, "Mul 0 1 " + narrow, {2});
      add({x({9, 40}), f({9, 40})}, "Cast 0 float", "Add 1 2 float", {3});
      add({x({9, 40}), f({9, 40})}, "Cast 0 float", "Add 2 1 float", {3});
      add({f({9, 40}), f({40}, 2)}, "Add 0 1 float", "Cast 2 " + narrow, {2, 3});
    }
    // Leaves of several blocks of threads, and one of a part of them.
    for (const int64_t columns : {12, 72, 7}) {
      const Shape lines{1100, columns};
      cases.push_back({"leat.LayerNormalizationGrad",
                       {x(lines), x(lines, 2), x({columns}, 3), f({1100, 1}, 4), f({1100, 1}, 5)},
                       {},
                       3});
    }
    for (const ConformanceCase& c : cases) {
      INFO(case_text(c));
      compare(c, GpuCase(*device, c).run(), testing::run_case(c));
    }
  }
  testing::prepare_gpu();
}

TEST_CASE("images whose channels come last") {
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto x = [&](const Shape& shape, int64_t seed = 1) { return waves(dtype, shape, seed); };
    const auto f = [&](int64_t n, int64_t seed) { return waves(DType::f32, {n}, seed); };
    const std::vector<int64_t> two{2, 2}, three{3, 3}, ones{1, 1, 1, 1};
    const Attrs padded{{"pads", ones}}, strided{{"strides", two}},
        training{{"training_mode", int64_t{1}}};
    const Attrs window{{"kernel_shape", three}, {"strides", two}, {"pads", ones}};
    const Shape image{2, 8, 7, 6}, half{2, 8, 4, 3};
    Tensor argmax(DType::u8, half), positive(DType::f32, {8}), many(DType::f32, {136});
    for (int64_t c = 0; c < 136; ++c) many.set(c, 0.5 + static_cast<double>(c));
    for (int64_t i = 0; i < argmax.elements(); ++i) argmax.set(i, static_cast<double>(4 + i % 5));
    for (int64_t c = 0; c < 8; ++c) positive.set(c, 0.5 + static_cast<double>(c));
    Attrs kernel = padded, spatial = padded;
    kernel["kernel_shape"] = three;
    spatial["spatial"] = std::vector<int64_t>{7, 6};
    Attrs pool_grad = window;
    pool_grad["spatial"] = std::vector<int64_t>{7, 6};
    std::vector<ConformanceCase> cases = {
        {"Conv", {x(image), x({16, 8, 3, 3}, 2), x({16}, 3)}, padded},
        {"Conv", {x({2, 3, 7, 6}), x({16, 3, 1, 1}, 2)}, strided},
        {"leat.ConvGradInput", {x({2, 16, 7, 6}), x({16, 8, 3, 3}, 2)}, spatial},
        {"leat.ConvGradWeights", {x(image), x({2, 16, 7, 6}, 2)}, kernel, 2},
        {"BatchNormalization", {x(image), f(8, 2), f(8, 3), f(8, 4), positive}, training, 5},
        {"BatchNormalization", {x(image), f(8, 2), f(8, 3), f(8, 4), positive}},
        {"BatchNormalization", {x({9, 8, 5, 7}), f(8, 2), f(8, 3), f(8, 4), positive}, training, 5},
        {"BatchNormalization", {x({2, 5, 7, 6}), f(5, 2), f(5, 3), f(5, 4), f(5, 5)}},
        {"leat.BatchNormalizationGrad",
         {x(image), x(image, 2), f(8, 3), f(8, 4), positive},
         training,
         3},
        {"leat.BatchNormalizationGrad",
         {x({9, 8, 5, 7}), x({9, 8, 5, 7}, 2), f(8, 3), f(8, 4), positive},
         training,
         3},
        // Channels of several blocks of threads, and rows of more than one.
        {"BatchNormalization",
         {x({3, 136, 19, 20}), f(136, 2), f(136, 3), f(136, 4), many},
         training,
         5},
        {"leat.BatchNormalizationGrad",
         {x({3, 136, 19, 20}), x({3, 136, 19, 20}, 2), f(136, 3), f(136, 4), many},
         training,
         3},
        {"MaxPool", {x(image)}, window, 3},
        {"MaxPool", {x({2, 5, 7, 6})}, window, 3},
        {"leat.MaxPoolGrad", {x(half), argmax}, pool_grad},
        {"AveragePool", {x(image)}, window},
        {"leat.AveragePoolGrad", {x(half)}, pool_grad},
        {"GlobalAveragePool", {x(image)}},
        {"Relu", {x(image)}},
        {"Add", {x(image), x(image, 2)}},
        {"Mul", {x(image), x({1}, 2)}},
        {"leat.ReluGrad", {x(image), x(image, 2)}},
        {"Cast", {x(image)}, {{"to", int64_t{1}}}},
    };
    for (const ConformanceCase& c : cases) {
      INFO(case_text(c));
      // Of a max-pool, the indices that ONNX counts are the CPU's alone.
      std::vector<size_t> left_out;
      if (c.op == "MaxPool") left_out = {1};
      std::vector<Tensor> expected = testing::run_case(c);
      if (c.op == "MaxPool") expected.erase(expected.begin() + 1);
      compare(c, GpuCase(*device, c, left_out, true).run(), expected, true);
    }
  }
  testing::prepare_gpu();
}

TEST_CASE("updates of more rows than a block sorts are added in their order") {
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  for (const int64_t lines : {1, 700, 1024, 2500}) {
    Tensor values(DType::f32, Shape{lines, 2}), ids(DType::i64, Shape{lines});
    for (int64_t i = 0; i < values.elements(); ++i) values.set(i, std::sin(static_cast<double>(i)));
    for (int64_t i = 0; i < lines; ++i) ids.set(i, static_cast<double>(i * i % 37) - 18);
    ConformanceCase c{"leat.SumRows", {values, ids}};
    c.attrs = {{"rows", int64_t{40}}};
    INFO(case_text(c));
    compare(c, GpuCase(*device, c).run(), testing::run_case(c));
  }
  testing::prepare_gpu();
}

namespace {

// An Attention [batch, heads, queries, columns] and what may be special about it.
struct AttentionSizes {
  int64_t batch, queries, keys, heads, kv_heads, columns, v_columns;
};
struct AttentionForTiles {
  AttentionSizes sizes;
  Attrs attrs = {};
  Shape mask = {};
  bool boolean = false;
  std::vector<int64_t> lengths = {};
};

ConformanceCase attention_case(const AttentionForTiles& given, DType dtype) {
  const AttentionSizes& s = given.sizes;
  ConformanceCase c{"Attention",
                    {waves(dtype, {s.batch, s.heads, s.queries, s.columns}, 1),
                     waves(dtype, {s.batch, s.kv_heads, s.keys, s.columns}, 2),
                     waves(dtype, {s.batch, s.kv_heads, s.keys, s.v_columns}, 3)},
                    given.attrs,
                    5};
  Tensor mask, lengths;
  if (given.mask.rank() > 0) mask = waves(given.boolean ? DType::boolean : dtype, given.mask, 4);
  if (given.boolean) {
    for (int64_t i = 0; i < mask.elements(); ++i) mask.set(i, i % 3 != 0);
  }
  if (!given.lengths.empty()) lengths = Tensor::of<int64_t>({s.batch}, given.lengths);
  c.inputs.insert(c.inputs.end(), {mask, Tensor(), Tensor(), lengths});
  return c;
}

}  // namespace

TEST_CASE("attention of 16-bit elements, in tiles") {
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  const Attrs causal{{"is_causal", int64_t{1}}};
  const AttentionSizes small{1, 70, 90, 2, 1, 16, 24};
  const std::vector<AttentionForTiles> cases = {
      {small},
      {small, causal},
      {{1, 130, 130, 2, 2, 64, 64}, causal},
      {{2, 33, 40, 1, 1, 72, 128}, causal},
      {small, {{"left_window_size", int64_t{9}}, {"right_window_size", int64_t{2}}}},
      {small, {{"softcap", 1.5}, {"scale", 0.5}}},
      {small, {}, {70, 60}},
      {small, causal, {2, 70, 90}, true},
      {{2, 8, 70, 2, 2, 8, 8}, causal, {}, false, {70, 0}},
  };
  const std::vector<size_t> unneeded = {1, 2, 3};  // outputs that the CPU alone has
  for (const AttentionForTiles& given : cases) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const ConformanceCase c = attention_case(given, dtype);
      INFO(case_text(c));
      const std::vector<Tensor> on_cpu = testing::run_case(c);
      const Tensor &y = on_cpu[0], &log_sums = on_cpu[4];
      GpuCase forward(*device, c, unneeded);
      REQUIRE(forward.supported());
      const std::vector<Tensor> attended = forward.run();
      compare(c, attended, {y, log_sums});
      ConformanceCase grad{"leat.AttentionGrad",
                           {c.inputs[0], c.inputs[1], c.inputs[2], y, log_sums,
                            waves(dtype, y.shape(), 5), c.inputs[3], Tensor(), c.inputs[6]},
                           given.attrs,
                           3};
      compare(grad, GpuCase(*device, grad).run(), testing::run_case(grad));
      if (!testing::gpu_is_emulated()) continue;
      // The kernels that the tiles stand in for agree.
      ::setenv("LEAT_GPU_PLAIN", "tiles", 1);
      compare(c, GpuCase(*device, c, unneeded).run(), attended);
      ::unsetenv("LEAT_GPU_PLAIN");
    }
  }
  testing::prepare_gpu();
}

TEST_CASE("the report of all ops") {
  if (testing::gpu_is_emulated()) return;
  for (const auto& [op, found] : distances()) {
    std::cout << R"({"op": ")" << op << R"(", "tensors": )" << found.tensors << R"(, "identical": )"
              << found.identical << R"(, "largest_distance": )" << found.largest << "}\n";
  }
}

TEST_CASE("an op has a CUDA kernel only if a case tests it") {
  const auto cases = cuda_cases(false);
  std::set<std::string> exempt;
  for (const testing::ExemptOp& op : testing::exempt_ops()) exempt.insert(op.op);
  for (const OpDef* op : gpu_catalogue().all()) {
    if (!op->kernels.contains("cuda")) continue;
    INFO(op->full_name());
    CHECK((cases.contains(op->full_name()) || exempt.contains(op->full_name())));
  }
}

}  // namespace leat

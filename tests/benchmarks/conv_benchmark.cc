// Measures convolutions, pools and products on one thread, which runs all tiles of an instruction
// in order. GF/s count two operations for each multiply-add.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "ops/catalogue.h"
#include "ops/cpu/conv_kernel.h"
#include "ops/cpu/conv_winograd.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"

namespace leat {
namespace {

using Ints = std::vector<int64_t>;

// One instruction, in the form in which an executor holds it.
class Instruction final : private StepContext {
 public:
  Instruction(const Catalogue& catalogue, std::string_view name, std::vector<OperandType> inputs,
              std::vector<OperandType> outputs, Attrs attrs) {
    const OpDef& op = *catalogue.find(name);
    attrs_ = with_defaults(op, attrs);
    KernelSetup setup;
    setup.types = {std::move(inputs), std::move(outputs), &attrs_};
    setup.subject = std::string(name);
    Node node;
    node.op = &op;
    node.attrs = std::move(attrs);
    setup.node = &node;
    auto kernel = op.kernels.at("cpu")(setup);
    if (!kernel.ok()) fail(0, kernel.status());
    kernel_ = std::move(*kernel);
    bind(setup.types.inputs, inputs_, 0.01);
    bind(setup.types.outputs, outputs_, 0);
    workspace_ = Tensor(DType::u8, {static_cast<int64_t>(kernel_->workspace_bytes())});
    scratch_ = Tensor(DType::u8, {static_cast<int64_t>(kernel_->scratch_bytes())});
    context_.inputs = inputs_.data();
    context_.outputs = outputs_.data();
    context_.workspace = static_cast<std::byte*>(workspace_.raw());
    context_.scratch = static_cast<std::byte*>(scratch_.raw());
    context_.step = this;
  }

  void run() {
    for (int phase = 0; phase < kernel_->phases(); ++phase) {
      for (int tile = 0; tile < kernel_->tiles(phase); ++tile) kernel_->run(context_, phase, tile);
    }
  }

 private:
  void fail(uint32_t, Status status) override {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    std::exit(1);
  }
  void bind(const std::vector<OperandType>& types, std::vector<void*>& addresses, double scale) {
    for (const OperandType& type : types) {
      if (!type.present) {
        addresses.push_back(nullptr);
        continue;
      }
      Tensor tensor(type.dtype, type.shape);
      for (int64_t i = 0; i < tensor.elements(); ++i)
        tensor.set(i, scale * static_cast<double>(i % 101 - 50));
      tensors_.push_back(tensor);
      addresses.push_back(tensor.raw());
    }
  }

  Attrs attrs_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Tensor> tensors_;
  std::vector<void*> inputs_, outputs_;
  Tensor workspace_, scratch_;
  KernelContext context_;
};

OperandType operand(const Shape& shape, Layout layout = Layout::plain, DType dtype = DType::f32) {
  return {dtype, shape, layout, ValueKind::tensor, true};
}

void measure(benchmark::State& state, Instruction& instruction, double multiply_adds) {
  instruction.run();
  for (auto _ : state) instruction.run();
  state.counters["GF/s"] = benchmark::Counter(
      2e-9 * multiply_adds * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// A k x k convolution that keeps the size.
struct Conv {
  int64_t images, inputs, outputs, size, kernel;
  bool blocked;
  DType dtype = DType::f32;

  Shape x() const { return {images, inputs, size, size}; }
  Shape w() const { return {outputs, inputs, kernel, kernel}; }
  Shape y() const { return {images, outputs, size, size}; }
  Layout layout(int64_t channels) const {
    return blocked && channels % 16 == 0 ? Layout::channels16 : Layout::plain;
  }
  Attrs attrs() const { return {{"pads", Ints(4, kernel / 2)}}; }
  double multiply_adds() const {
    return static_cast<double>(y().elements() * inputs * kernel * kernel);
  }
};

enum Direction { kForward, kBackwardData, kBackwardWeights };

void run_conv(benchmark::State& state, const Catalogue& catalogue, const Conv& c,
              Direction direction) {
  const OperandType x = operand(c.x(), c.layout(c.inputs), c.dtype),
                    y = operand(c.y(), c.layout(c.outputs), c.dtype),
                    w = operand(c.w(), Layout::plain, c.dtype),
                    b = operand({c.outputs}, Layout::plain, c.dtype);
  Attrs attrs = c.attrs();
  if (direction == kForward) {
    Instruction forward(catalogue, "Conv", {x, w, b}, {y}, attrs);
    measure(state, forward, c.multiply_adds());
  } else if (direction == kBackwardData) {
    attrs["spatial"] = Ints{c.size, c.size};
    Instruction backward(catalogue, "leat.ConvGradInput", {y, w}, {x}, attrs);
    measure(state, backward, c.multiply_adds());
  } else {
    attrs["kernel_shape"] = Ints{c.kernel, c.kernel};
    Instruction backward(catalogue, "leat.ConvGradWeights", {x, y}, {w, b}, attrs);
    measure(state, backward, c.multiply_adds());
  }
}

void register_convs(const Catalogue& catalogue) {
  const Conv convs[] = {{128, 32, 64, 14, 3, true},
                        {128, 32, 64, 14, 3, false},
                        {128, 1, 32, 28, 3, true},
                        {32, 64, 64, 32, 3, true},
                        {32, 256, 256, 8, 3, true},
                        {32, 256, 256, 14, 3, true},
                        {32, 512, 512, 4, 3, true},
                        {32, 512, 512, 7, 3, true},
                        {32, 64, 64, 32, 3, true, DType::bf16},
                        {32, 128, 128, 16, 3, true, DType::bf16},
                        {32, 512, 512, 4, 3, true, DType::bf16}};
  for (const Conv& c : convs) {
    const std::string name = "conv" + std::to_string(c.inputs) + "to" + std::to_string(c.outputs) +
                             "/" + std::to_string(c.size) + (c.blocked ? "/blocked" : "/plain") +
                             (c.dtype == DType::f32 ? "" : "/bf16");
    for (auto [suffix, direction] : {std::pair{"/forward", kForward},
                                     {"/data", kBackwardData},
                                     {"/weights", kBackwardWeights}}) {
      if (direction == kBackwardData && c.inputs == 1) continue;  // an image needs no gradient
      benchmark::RegisterBenchmark((name + suffix).c_str(), [&catalogue, c, direction = direction](
                                                                benchmark::State& state) {
        run_conv(state, catalogue, c, direction);
      })->Unit(benchmark::kMillisecond);
    }
  }
}

// Runs the engine of a convolution, direct or by Winograd's algorithm, on one tile of images after
// the other, and includes the packing of the weights.
void run_engine(benchmark::State& state, const Conv& c, Direction direction, bool winograd) {
  ConvSpec spec;
  spec.kind = static_cast<ConvKind>(direction);
  spec.inputs = c.inputs;
  spec.outputs = c.outputs;
  spec.window.rank = 2;
  spec.window.input = spec.window.output = {1, c.size, c.size};
  spec.window.kernel = {1, 3, 3};
  spec.window.begin = spec.window.end = {0, 1, 1};
  spec.x_layout = spec.y_layout = Layout::channels16;
  spec.winograd = winograd;
  spec.images = conv_tile_images(c.images, spec.multiply_adds());
  if (winograd && !winograd_fits(spec)) return state.SkipWithError("not on this processor");
  const auto engine = make_conv_engine(spec);
  const auto bytes = [](size_t size) { return Tensor(DType::u8, {static_cast<int64_t>(size)}); };
  const Tensor x(DType::f32, c.x()), w(DType::f32, c.w()), y(DType::f32, c.y());
  const Tensor packed = bytes(engine->packed_bytes()), scratch = bytes(engine->scratch_bytes());
  for (auto _ : state) {
    for (int i = 0; i < engine->slices() && direction != kBackwardWeights; ++i)
      engine->pack(w.raw(), packed.raw(), i);
    for (int64_t image = 0; image + spec.images <= c.images; image += spec.images) {
      engine->run(x.data<float>() + image * spec.x_image(), packed.raw(), nullptr,
                  y.data<float>() + image * spec.y_image(), static_cast<std::byte*>(scratch.raw()));
    }
    for (int i = 0; i < engine->slices() && direction == kBackwardWeights; ++i)
      engine->unpack(packed.raw(), w.raw(), i);
  }
  const double done = c.multiply_adds() * static_cast<double>(c.images / spec.images) *
                      static_cast<double>(spec.images) / static_cast<double>(c.images);
  state.counters["GF/s"] = benchmark::Counter(2e-9 * done * static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate);
}

// Measurements for the choice in winograd_is_faster().
void register_engines() {
  const Conv convs[] = {
      {128, 32, 64, 14, 3, true},  {128, 16, 16, 14, 3, true},  {32, 64, 64, 28, 3, true},
      {64, 64, 128, 14, 3, true},  {64, 128, 128, 14, 3, true}, {64, 128, 128, 7, 3, true},
      {32, 256, 256, 14, 3, true}, {32, 256, 256, 8, 3, true},  {32, 512, 512, 7, 3, true},
      {32, 512, 512, 4, 3, true},  {128, 512, 512, 4, 3, true}, {4, 512, 512, 7, 3, true},
      {1, 256, 256, 14, 3, true},  {4, 256, 256, 14, 3, true},  {1, 64, 64, 28, 3, true},
      {128, 64, 64, 3, 3, true},   {128, 64, 64, 5, 3, true},   {128, 64, 64, 6, 3, true},
      {128, 64, 64, 9, 3, true}};
  for (const Conv& c : convs) {
    for (auto [name, direction] : {std::pair{"/forward", kForward},
                                   {"/data", kBackwardData},
                                   {"/weights", kBackwardWeights}}) {
      for (bool winograd : {false, true}) {
        benchmark::RegisterBenchmark(
            ("engine" + std::to_string(c.inputs) + "to" + std::to_string(c.outputs) + "/" +
             std::to_string(c.size) + "x" + std::to_string(c.images) + name +
             (winograd ? "/winograd" : "/direct"))
                .c_str(),
            [c, direction = direction, winograd](benchmark::State& state) {
              run_engine(state, c, direction, winograd);
            })
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

void register_products(const Catalogue& catalogue) {
  struct Product {
    int64_t m, n, k;
    int64_t trans_a, trans_b;
  };
  const Product products[] = {{128, 512, 784, 0, 0},   {128, 784, 512, 0, 1},
                              {784, 512, 128, 1, 0},   {128, 128, 3136, 0, 0},
                              {128, 3136, 128, 0, 1},  {3136, 128, 128, 1, 0},
                              {128, 512, 512, 0, 0},   {1024, 1024, 256, 0, 0},
                              {1024, 256, 1024, 0, 1}, {1024, 256, 1024, 1, 0}};
  std::vector<std::pair<Product, DType>> typed;
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (const Product& p : products) typed.emplace_back(p, dtype);
  }
  for (const auto& [p, dtype] : typed) {
    const std::string name = "gemm" + std::to_string(p.m) + "x" + std::to_string(p.n) + "x" +
                             std::to_string(p.k) + (p.trans_a ? "/T" : "/N") +
                             (p.trans_b ? "T" : "N") + (dtype == DType::f32 ? "" : "/bf16");
    benchmark::RegisterBenchmark(name.c_str(), [&catalogue, p = p,
                                                dtype = dtype](benchmark::State& state) {
      Instruction gemm(
          catalogue, "Gemm",
          {operand(p.trans_a ? Shape{p.k, p.m} : Shape{p.m, p.k}, Layout::plain, dtype),
           operand(p.trans_b ? Shape{p.n, p.k} : Shape{p.k, p.n}, Layout::plain, dtype)},
          {operand({p.m, p.n}, Layout::plain, dtype)},
          {{"transA", p.trans_a}, {"transB", p.trans_b}});
      measure(state, gemm, static_cast<double>(p.m * p.n * p.k));
    })->Unit(benchmark::kMillisecond);
  }
}

void register_pools(const Catalogue& catalogue) {
  for (Layout layout : {Layout::channels16, Layout::plain}) {
    const std::string suffix = layout == Layout::plain ? "/plain" : "/blocked";
    const OperandType x = operand({128, 32, 28, 28}, layout),
                      y = operand({128, 32, 14, 14}, layout);
    OperandType argmax = y, absent;
    argmax.dtype = DType::u8;
    const Attrs window{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
    benchmark::RegisterBenchmark(("max_pool32/28" + suffix).c_str(), [=, &catalogue](
                                                                         benchmark::State& state) {
      Instruction pool(catalogue, "MaxPool", {x}, {y, absent, argmax}, window);
      measure(state, pool, static_cast<double>(x.shape.elements()) / 2);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(
        ("max_pool_grad32/28" + suffix).c_str(),
        [=, &catalogue](benchmark::State& state) {
          Attrs attrs = window;
          attrs["spatial"] = Ints{28, 28};
          Instruction grad(catalogue, "leat.MaxPoolGrad", {y, argmax}, {x}, attrs);
          measure(state, grad, static_cast<double>(x.shape.elements()) / 2);
        })
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace leat

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const leat::Catalogue catalogue = leat::standard_catalogue();
  leat::register_convs(catalogue);
  leat::register_engines();
  leat::register_products(catalogue);
  leat::register_pools(catalogue);
  benchmark::RunSpecifiedBenchmarks();
}

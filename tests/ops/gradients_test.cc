#include "ops/graph/gradients.h"

#include <cstring>
#include <map>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "tests/catch.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// A calculus small enough to check by hand: float64 tensors of one shape, with real kernels.

template <typename F>
KernelFactory elementwise(F f) {
  return [f](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
    const int64_t n = setup.output(0).shape.elements();
    const size_t inputs = setup.types.inputs.size();
    return make_kernel([=](KernelContext& context) {
      for (int64_t i = 0; i < n; ++i) {
        const double a = inputs > 0 ? context.in<double>(0)[i] : 0,
                     b = inputs > 1 ? context.in<double>(1)[i] : 0;
        context.out<double>(0)[i] = f(a, b);
      }
      return Progress::done;
    });
  };
}

Result<std::unique_ptr<Kernel>> make_constant(const KernelSetup& setup) {
  const Tensor value = std::get<Tensor>(setup.attrs().at("value"));
  return make_kernel([value](KernelContext& context) {
    std::memcpy(context.outputs[0], value.raw(), value.bytes());
    return Progress::done;
  });
}

Status infer_constant(InferContext& ctx) {
  const auto& value = std::get<Tensor>(ctx.attrs().at("value"));
  ctx.set_tensor(0, value.dtype(), SymbolicShape(value.shape()));
  ctx.set_constant(0, value);
  return {};
}

Status infer_shape(InferContext& ctx) {
  ctx.set_tensor(0, DType::i64, Shape{ctx.shape(0).rank()});
  if (const auto shape = ctx.shape(0).concrete()) {
    ctx.set_constant(0, Tensor::of<int64_t>({shape->rank()}, {shape->begin(), shape->end()}));
  }
  return {};
}

Status infer_expand(InferContext& ctx) {
  SymbolicShape shape;
  if (const Tensor* sizes = ctx.constant(1)) {
    for (int64_t i = 0; i < sizes->elements(); ++i) shape.push_back(Dim::of(sizes->int_at(i)));
  }
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

Result<std::unique_ptr<Kernel>> make_shape(const KernelSetup& setup) {
  const Shape shape = setup.input(0).shape;
  return make_kernel([shape](KernelContext& context) {
    std::copy(shape.begin(), shape.end(), context.out<int64_t>(0));
    return Progress::done;
  });
}

Result<std::unique_ptr<Kernel>> make_expand(const KernelSetup& setup) {
  const int64_t n = setup.output(0).shape.elements();
  return make_kernel([n](KernelContext& context) {
    for (int64_t i = 0; i < n; ++i) context.out<double>(0)[i] = context.in<double>(0)[0];
    return Progress::done;
  });
}

Op binary(const std::string& name) {
  return Op(name)
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", kNumbers)
      .infer(infer_same_as_first);
}
Op unary(const std::string& name) {
  return Op(name).input("X", "T").output("Y", "T").type("T", kNumbers).infer(infer_same_as_first);
}

Catalogue calculus() {
  Catalogue ops;
  ops.add(binary("Add")
              .kernel("cpu", elementwise([](double a, double b) { return a + b; }))
              .gradient([](GradientContext& ctx) {
                ctx.set_grad(0, ctx.grad(0));
                ctx.set_grad(1, ctx.grad(0));
                return Status();
              }));
  ops.add(binary("Mul")
              .kernel("cpu", elementwise([](double a, double b) { return a * b; }))
              .gradient([](GradientContext& ctx) {
                if (ctx.needs(0)) ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.input(1)}));
                if (ctx.needs(1)) ctx.set_grad(1, ctx.emit("Mul", {ctx.grad(0), ctx.input(0)}));
                return Status();
              }));
  ops.add(unary("Opaque").kernel("cpu", elementwise([](double a, double) { return a; })));
  ops.add(unary("Stop")
              .kernel("cpu", elementwise([](double a, double) { return a; }))
              .gradient([](GradientContext&) { return Status(); }));
  ops.add(unary("Refuses").gradient([](GradientContext& ctx) { return ctx.error("not today"); }));
  ops.add(unary("Clumsy").gradient([](GradientContext& ctx) {
    ctx.set_grad(0, ctx.scalar(1, DType::f64));
    return Status();
  }));
  ops.add(unary("Careless").gradient([](GradientContext& ctx) {
    ctx.set_grad(0, ctx.emit("NoSuchOp", {ctx.grad(0)}));
    return Status();
  }));
  // y = x, and mask = x if a consumer needs it. The gradient is grad x mask.
  ops.add(Op("Masked")
              .input("X", "T")
              .output("Y", "T")
              .optional_output("mask", "T")
              .type("T", kFloats)
              .infer([](InferContext& ctx) {
                for (int i = 0; i < ctx.outputs(); ++i) {
                  if (ctx.wants_output(i)) ctx.set_output(i, ctx.input(0));
                }
                return Status();
              })
              .gradient([](GradientContext& ctx) {
                ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.optional_output(1)}));
                return Status();
              }));
  ops.add(Op("Constant")
              .output("output", "any")
              .attr_required("value", "tensor")
              .infer(infer_constant)
              .kernel("cpu", make_constant));
  ops.add(Op("Shape")
              .input("X", "any")
              .output("shape", "int64")
              .infer(infer_shape)
              .kernel("cpu", make_shape));
  ops.add(Op("Expand")
              .input("X", "T")
              .input("shape", "int64")
              .output("Y", "T")
              .type("T", kNumbers)
              .infer(infer_expand)
              .kernel("cpu", make_expand));
  ops.add(Op("leat.Gradients")
              .input("y", "any")
              .variadic_input("xs", "any", true)
              .variadic_output("gradients", "any", true)
              .infer([](InferContext& ctx) {
                for (int i = 0; i < ctx.outputs(); ++i) ctx.set_output(i, ctx.input(i + 1));
                return Status();
              }));
  return ops;
}

const Catalogue& calculus_ops() {
  static const Catalogue catalogue = calculus();
  return catalogue;
}

struct Formula {
  Graph graph{calculus_ops()};
  Inference inference{graph};

  ValueId input(const std::string& name, SymbolicShape shape = {}, DType dtype = DType::f64) {
    return graph.add_input(name, {ValueKind::tensor, dtype, std::move(shape)});
  }
  NodeId node(const std::string& op, std::vector<ValueId> inputs, int outputs = 1) {
    return graph.add_node(*calculus_ops().find(op), std::move(inputs), {}, outputs);
  }
  ValueId value(const std::string& op, std::vector<ValueId> inputs) {
    return graph.node(node(op, std::move(inputs))).outputs[0];
  }
  Result<std::vector<ValueId>> try_gradients(ValueId y, std::vector<ValueId> xs) {
    const Status status = inference.run();
    INFO(status);
    REQUIRE(status.ok());
    return add_gradients(inference, y, xs);
  }
  std::vector<ValueId> gradients(ValueId y, std::vector<ValueId> xs) {
    auto made = try_gradients(y, std::move(xs));
    INFO(made.status());
    REQUIRE(made.ok());
    return *made;
  }
  double evaluate(ValueId value, const std::map<ValueId, double>& at) {
    std::map<ValueId, Tensor> feeds;
    for (const auto& [input, x] : at) feeds[input] = Tensor::scalar(x);
    auto result = interpret(graph, feeds, {value});
    INFO(result.status());
    REQUIRE(result.ok());
    return (*result)[0].at(0);
  }
  // Returns the expression of a value, "Add(Mul(x, y), ...)", down to named values.
  std::string text(ValueId value) const {
    const NodeId producer = graph.value(value).producer;
    if (producer == kNone || !graph.value_name(value).empty()) return graph.describe(value);
    const Node& node = graph.node(producer);
    if (node.op->name == "Constant")
      return shortest(std::get<Tensor>(node.attrs.at("value")).at(0));
    std::vector<std::string> parts;
    for (ValueId input : node.inputs) parts.push_back(text(input));
    return cat(node.op->name, "(", join(parts, ", "), ")");
  }
};

TEST_CASE("the gradient of a product is the other factor") {
  Formula f;
  const ValueId x = f.input("x"), y = f.input("y");
  const auto grads = f.gradients(f.value("Mul", {x, y}), {x, y});
  CHECK(f.text(grads[0]) == "Mul(1, y)");
  CHECK(f.text(grads[1]) == "Mul(1, x)");
  CHECK(f.evaluate(grads[0], {{x, 3}, {y, 5}}) == 5);
  CHECK(f.evaluate(grads[1], {{x, 3}, {y, 5}}) == 3);
}

TEST_CASE("a value that is used twice by one node gets both parts") {
  Formula f;
  const ValueId x = f.input("x");
  const auto grads = f.gradients(f.value("Mul", {x, x}), {x});
  CHECK(f.evaluate(grads[0], {{x, 3}}) == 6);
}

TEST_CASE("a chain of products differentiates to its power rule") {
  Formula f;
  const ValueId x = f.input("x");
  ValueId power = x;
  for (int i = 0; i < 5; ++i) power = f.value("Mul", {power, x});
  CHECK(f.evaluate(f.gradients(power, {x})[0], {{x, 2}}) == 6 * 32);
}

TEST_CASE("parts of a gradient are summed from the last consumer to the first, left to right") {
  Formula f;
  const ValueId x = f.input("x");
  std::vector<ValueId> uses;
  for (const auto* name : {"a", "b", "c"}) uses.push_back(f.value("Mul", {x, f.input(name)}));
  const ValueId y = f.value("Add", {f.value("Add", {uses[0], uses[1]}), uses[2]});
  const auto grads = f.gradients(y, {x});
  CHECK(f.text(grads[0]) == "Add(Add(Mul(1, c), Mul(1, b)), Mul(1, a))");
}

TEST_CASE("gradients are the same graph each time") {
  const auto text = [] {
    Formula f;
    const ValueId x = f.input("x"), y = f.input("y");
    const ValueId product = f.value("Mul", {x, y});
    const auto grads = f.gradients(
        f.value("Add", {f.value("Mul", {product, product}), f.value("Mul", {x, x})}), {x, y});
    return f.text(grads[0]) + " " + f.text(grads[1]);
  };
  CHECK(text() == text());
}

TEST_CASE("the gradient of a value in the middle is found too") {
  Formula f;
  const ValueId x = f.input("x");
  const ValueId square = f.value("Mul", {x, x});
  const ValueId y = f.value("Mul", {square, square});
  const auto grads = f.gradients(y, {square, x});
  CHECK(f.evaluate(grads[0], {{x, 3}}) == 18);      // 2 square
  CHECK(f.evaluate(grads[1], {{x, 3}}) == 4 * 27);  // 4 x^3
}

TEST_CASE("the gradient of y by itself is one, of the shape of y") {
  Formula f;
  const ValueId x = f.input("x", {Dim::of(2), Dim::of(3)});
  const auto grads = f.gradients(x, {x});
  CHECK(f.graph.type_text(f.graph.value(grads[0]).type) == "double[2,3]");
  const auto ones = interpret(f.graph, {{x, Tensor(DType::f64, {2, 3})}}, {grads[0]});
  REQUIRE(ones.ok());
  CHECK((*ones)[0].identical(Tensor::of<double>({2, 3}, {1, 1, 1, 1, 1, 1})));
}

TEST_CASE("an x that y does not depend on has no gradient") {
  Formula f;
  const ValueId x = f.input("x"), other = f.input("other");
  const ValueId y = f.value("Mul", {x, x});
  const ValueId after = f.value("Mul", {y, other});
  const auto grads = f.gradients(y, {x, other, after});
  CHECK(grads[0] != kNone);
  CHECK(grads[1] == kNone);
  CHECK(grads[2] == kNone);
  Formula apart;
  const ValueId a = apart.input("a"), b = apart.input("b");
  CHECK(apart.gradients(b, {a})[0] == kNone);
}

TEST_CASE("an op may hold a gradient back") {
  Formula f;
  const ValueId x = f.input("x");
  const ValueId held = f.gradients(f.value("Stop", {x}), {x})[0];
  CHECK(f.evaluate(held, {{x, 7}}) == 0);  // it exists, and is zero
  Formula partly;
  const ValueId z = partly.input("z");
  const auto grads = partly.gradients(partly.value("Mul", {partly.value("Stop", {z}), z}), {z});
  CHECK(partly.evaluate(grads[0], {{z, 7}}) == 7);
}

TEST_CASE("an op without a gradient is refused only between y and an x") {
  Formula f;
  const ValueId x = f.input("x"), data = f.input("data");
  const ValueId y = f.value("Mul", {f.value("Opaque", {data}), x});
  CHECK(f.gradients(y, {x})[0] != kNone);
  const auto refused = f.try_gradients(y, {data});
  CHECK(refused.status().code() == Code::invalid_argument);
  CHECK(refused.status().message().find("Opaque #0: expected a differentiable op") !=
        std::string::npos);
}

TEST_CASE("a rule that refuses, gives a wrong shape or makes no sense names its node") {
  const auto status = [](const std::string& op) {
    Formula f;
    const ValueId x = f.input("x", {Dim::of(2)});
    return f.try_gradients(f.value(op, {x}), {x}).status();
  };
  CHECK(status("Refuses").code() == Code::invalid_argument);
  CHECK(status("Refuses").message() == "Refuses #0: not today");
  CHECK(status("Clumsy").code() == Code::internal);
  CHECK(status("Clumsy").message().find(
            "has shape [], expected [2]; while differentiating Clumsy #0") != std::string::npos);
  CHECK(status("Careless").code() == Code::invalid_argument);
  CHECK(status("Careless").message().find("op 'NoSuchOp'") != std::string::npos);
}

TEST_CASE("a rule may ask its node for an optional output") {
  Formula f;
  const ValueId x = f.input("x");
  const NodeId masked = f.node("Masked", {x});
  const auto grads = f.gradients(f.graph.node(masked).outputs[0], {x});
  REQUIRE(f.graph.node(masked).outputs.size() == 2);
  const ValueId mask = f.graph.node(masked).outputs[1];
  CHECK(f.graph.value(mask).type.dtype == DType::f64);
  CHECK(f.graph.node(f.graph.value(grads[0]).producer).inputs[1] == mask);
}

TEST_CASE("only a float tensor has gradients") {
  Formula f;
  const ValueId i = f.input("i", {}, DType::i64);
  const auto refused = f.try_gradients(f.value("Mul", {i, i}), {i});
  CHECK(refused.status().code() == Code::invalid_argument);
  CHECK(refused.status().message().find("expected a float tensor, it is int64[]") !=
        std::string::npos);
}

TEST_CASE("new nodes stand on the device of the node they come from") {
  Formula f;
  const ValueId x = f.input("x");
  const NodeId first = f.node("Mul", {x, x});
  const NodeId second = f.node("Mul", {f.graph.node(first).outputs[0], x});
  f.graph.node(first).device = "cpu:0";
  f.graph.node(second).device = "cpu:1";
  const size_t before = f.graph.nodes();
  f.gradients(f.graph.node(second).outputs[0], {x});
  std::set<std::string> devices;
  for (auto id = static_cast<NodeId>(before); id < f.graph.nodes(); ++id) {
    if (f.graph.node(id).op->name == "Mul") devices.insert(f.graph.node(id).device);
  }
  CHECK(devices == std::set<std::string>{"cpu:0", "cpu:1"});
}

TEST_CASE("Gradients nodes are replaced by what they stand for") {
  Formula f;
  const ValueId x = f.input("x"), y = f.input("y");
  const ValueId loss = f.value("Mul", {x, f.value("Mul", {x, y})});
  const NodeId gradients = f.node("leat.Gradients", {loss, x, y}, 2);
  const auto outputs = f.graph.node(gradients).outputs;
  const NodeId user = f.node("Mul", {outputs[0], outputs[1]});
  f.graph.set_outputs({outputs[0], f.graph.node(user).outputs[0]});
  REQUIRE(f.inference.run().ok());
  const Status status = expand_gradients(f.inference);
  INFO(status);
  REQUIRE(status.ok());
  CHECK(f.graph.outputs()[0] != outputs[0]);
  CHECK(f.evaluate(f.graph.outputs()[0], {{x, 3}, {y, 5}}) == 30);      // 2xy
  CHECK(f.evaluate(f.graph.outputs()[1], {{x, 3}, {y, 5}}) == 30 * 9);  // times x^2
}

TEST_CASE("a gradient keeps its name, and nodes that ran after it still do") {
  Formula f;
  const ValueId x = f.input("x");
  const ValueId loss = f.value("Mul", {x, x});
  const NodeId gradients = f.node("leat.Gradients", {loss, x});
  const ValueId slope = f.graph.node(gradients).outputs[0];
  f.graph.set_value_name(slope, "slope");
  const NodeId later = f.node("Mul", {x, x});
  f.graph.node(later).after = {gradients};
  f.graph.set_outputs({slope});
  REQUIRE(f.inference.run().ok());
  REQUIRE(expand_gradients(f.inference).ok());
  const ValueId expanded = f.graph.outputs()[0];
  CHECK(f.graph.find_value("slope") == expanded);
  CHECK(f.graph.node(later).after == std::vector<NodeId>{f.graph.value(expanded).producer});
}

TEST_CASE("Gradients of gradients are the second derivative") {
  Formula f;
  const ValueId x = f.input("x");
  const ValueId cube = f.value("Mul", {x, f.value("Mul", {x, x})});
  const ValueId slope = f.graph.node(f.node("leat.Gradients", {cube, x})).outputs[0];
  const ValueId bend = f.graph.node(f.node("leat.Gradients", {slope, x})).outputs[0];
  f.graph.set_outputs({slope, bend});
  REQUIRE(f.inference.run().ok());
  REQUIRE(expand_gradients(f.inference).ok());
  CHECK(f.evaluate(f.graph.outputs()[0], {{x, 2}}) == 12);
  CHECK(f.evaluate(f.graph.outputs()[1], {{x, 2}}) == 12);
}

TEST_CASE("the order in which Gradients nodes were written does not matter") {
  Formula f;
  const ValueId x = f.input("x");
  const ValueId cube = f.value("Mul", {x, f.value("Mul", {x, x})});
  const NodeId second = f.node("leat.Gradients", {x, x});  // its y comes later
  const NodeId first = f.node("leat.Gradients", {cube, x});
  f.graph.node(second).inputs[0] = f.graph.node(first).outputs[0];
  f.graph.set_outputs({f.graph.node(second).outputs[0]});
  REQUIRE(f.inference.run().ok());
  const Status status = expand_gradients(f.inference);
  INFO(status);
  REQUIRE(status.ok());
  CHECK(f.evaluate(f.graph.outputs()[0], {{x, 2}}) == 12);
}

TEST_CASE("a Gradients node that asks for what does not depend is refused") {
  Formula f;
  const ValueId x = f.input("x"), other = f.input("other");
  f.node("leat.Gradients", {f.value("Mul", {x, x}), x, other}, 2);
  REQUIRE(f.inference.run().ok());
  const Status status = expand_gradients(f.inference);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("does not depend on 'other'") != std::string::npos);
}

}  // namespace
}  // namespace leat

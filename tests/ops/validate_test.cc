#include "ops/graph/validate.h"

#include "ops/graph/limits.h"
#include "tests/catch.h"
#include "tests/ops/gate_catalogue.h"

namespace leat {
namespace {

const Catalogue& gate_ops() {
  static const Catalogue catalogue = testing::gate_catalogue();
  return catalogue;
}

class Draft {
 public:
  Graph graph{gate_ops()};
  ValueId input(DType dtype = DType::f32, SymbolicShape shape = {}) {
    return graph.add_input("x", {ValueKind::tensor, dtype, std::move(shape)});
  }
  NodeId node(const std::string& op, std::vector<ValueId> inputs = {}, Attrs attrs = {},
              int outputs = 0) {
    return graph.add_node(*gate_ops().find(op), std::move(inputs), std::move(attrs), outputs);
  }
  ValueId value(const std::string& op, std::vector<ValueId> inputs = {}, Attrs attrs = {}) {
    return graph.node(node(op, std::move(inputs), std::move(attrs), 1)).outputs[0];
  }
};

void check_accepted(Draft& draft) {
  const Status status = validate(draft.graph);
  INFO(status);
  CHECK(status.ok());
}

void check_refused(Draft& draft, const std::string& message) {
  const Status status = validate(draft.graph);
  CHECK(status.code() == Code::invalid_argument);
  INFO("received: " << status.message());
  INFO("expected: " << message);
  CHECK(status.message().find(message) != std::string::npos);
}

// Checks that make(limit) passes and that make(limit + 1) is refused with `message`.
void check_edge(uint64_t limit, const std::function<void(Draft&, uint64_t)>& make,
                const std::string& message) {
  Draft at, past;
  make(at, limit);
  check_accepted(at);
  make(past, limit + 1);
  check_refused(past, message);
}

// ---------------------------------------------------------------------------------------------
// Limits

TEST_CASE("limit: nodes") {
  check_edge(
      limits::kNodes,
      [](Draft& d, uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) d.node("Nothing");
      },
      "expected at most 1000000 nodes, received 1000001");
}

TEST_CASE("limit: edges, control edges included") {
  check_edge(
      limits::kEdges,
      [](Draft& d, uint64_t n) {
        const ValueId x = d.input();
        const NodeId first = d.node("Sum", {x, x, x}, {}, 1);
        d.graph.node(d.node("Nothing")).after.assign(n - 3, first);
      },
      "expected at most 10000000 edges, received 10000001");
}

TEST_CASE("limit: operands") {
  check_edge(
      limits::kOperands,
      [](Draft& d, uint64_t n) { d.node("Sum", std::vector<ValueId>(n, d.input()), {}, 1); },
      "expected at most 65536 operands, received 65537");
  check_edge(
      limits::kOperands,
      [](Draft& d, uint64_t n) { d.node("Many", {d.input()}, {}, static_cast<int>(n)); },
      "expected at most 65536 operands, received 65537");
}

TEST_CASE("limit: attributes") {
  check_edge(
      limits::kAttributes,
      [](Draft& d, uint64_t n) {
        Attrs attrs;
        for (uint64_t i = 0; i < n; ++i) attrs[cat("a", i)] = int64_t{1};
        d.node("Wide", {}, attrs);
      },
      "expected at most 256 attributes, received 257");
}

TEST_CASE("limit: names") {
  check_edge(
      limits::kNameLength,
      [](Draft& d, uint64_t n) { d.graph.node(d.node("Nothing")).name = std::string(n, 'x'); },
      "expected at most 1024 bytes of a node's name, received 1025");
  check_edge(
      limits::kNameLength,
      [](Draft& d, uint64_t n) { d.graph.set_value_name(d.input(), std::string(n, 'x')); },
      "expected at most 1024 bytes of a value's name, received 1025");
}

TEST_CASE("limit: lists") {
  const auto list = [](const std::string& name, auto element) {
    return [=](Draft& d, uint64_t n) {
      d.node("Options", {}, {{name, std::vector<decltype(element)>(n, element)}});
    };
  };
  check_edge(limits::kListLength, list("is", int64_t{1}),
             "'is': expected at most 1000000 elements, received 1000001");
  check_edge(limits::kListLength, list("fs", 1.0),
             "'fs': expected at most 1000000 elements, received 1000001");
  check_edge(limits::kListLength, list("ss", std::string("x")),
             "'ss': expected at most 1000000 elements");
}

TEST_CASE("limit: strings") {
  check_edge(
      limits::kStringLength,
      [](Draft& d, uint64_t n) {
        d.node("Options", {}, {{"s", std::string(n, 'x')}});
      },
      "'s': expected at most 1048576 bytes, received 1048577");
  check_edge(
      limits::kStringLength,
      [](Draft& d, uint64_t n) {
        d.node("Options", {}, {{"ss", std::vector<std::string>{"a", std::string(n, 'x')}}});
      },
      "'ss': expected at most 1048576 bytes in each element, received 1048577");
}

TEST_CASE("limit: bytes of all constants") {
  check_edge(
      limits::kConstantBytes,
      [](Draft& d, uint64_t n) {
        static uint8_t nobody_reads_it = 0;  // stands for memory that is not there
        const auto half = static_cast<int64_t>(limits::kConstantBytes / 2);
        d.node("Options", {}, {{"t", Tensor::wrap(DType::u8, {half}, &nobody_reads_it, nullptr)}});
        d.node("Options", {},
               {{"t", Tensor::wrap(DType::u8, {static_cast<int64_t>(n) - half}, &nobody_reads_it,
                                   nullptr)}});
      },
      "'t': expected at most 17179869184 bytes of constants so far, received 17179869185");
}

TEST_CASE("limit: graphs within graphs") {
  check_edge(
      limits::kNesting,
      [](Draft& d, uint64_t n) {
        std::shared_ptr<Graph> inner;
        for (uint64_t i = 0; i < n; ++i) {
          auto outer = std::make_shared<Graph>(gate_ops());
          if (inner) outer->add_node(*gate_ops().find("Options"), {}, {{"g", inner}}, 0);
          inner = outer;
        }
        d.node("Options", {}, {{"g", inner}});
      },
      "expected at most 16 nested graphs, received 17");
}

TEST_CASE("limits count the nodes of regions too") {
  Draft d;
  auto region = std::make_shared<Graph>(gate_ops());
  for (int i = 0; i < 10; ++i) region->add_node(*gate_ops().find("Nothing"), {}, {}, 0);
  region->node(3).inputs = {77};
  d.node("Options", {}, {{"g", region}});
  check_refused(d, "refers to value 77, which does not exist");
  Draft empty;
  empty.node("Options", {}, {{"g", std::shared_ptr<Graph>()}});
  check_refused(empty, "'g': expected a graph, it is empty");
}

TEST_CASE("limit: elements of a tensor") {
  const auto limit = static_cast<uint64_t>(limits::kElements);
  check_edge(
      limit, [](Draft& d, uint64_t n) { d.input(DType::f32, {Dim::of(static_cast<int64_t>(n))}); },
      "expected at most 1099511627776 elements");
  check_edge(
      limit,
      [](Draft& d, uint64_t n) {
        d.value("Sized", {}, {{"shape", std::vector<int64_t>{static_cast<int64_t>(n), 1}}});
      },
      "expected at most 1099511627776 elements");
  Draft overflow;
  overflow.value("Sized", {}, {{"shape", std::vector<int64_t>{INT64_MAX, INT64_MAX}}});
  check_refused(overflow, "output 0: expected at most");
  Draft negative;
  negative.value("Sized", {}, {{"shape", std::vector<int64_t>{-1}}});
  check_refused(negative, "expected sizes >= 0, inferred [-1]");
  Draft wide;
  wide.input(DType::f32, {Dim::of(INT64_MAX), Dim::of(INT64_MAX)});
  check_refused(wide, "expected at most");
}

TEST_CASE("limit: elements of a value that is known at compile time") {
  for (const int64_t n : {limits::kValueInference, limits::kValueInference + 1}) {
    Draft d;
    const ValueId y =
        d.value("Negate", {d.value("Known", {}, {{"value", Tensor(DType::i64, {n})}})});
    Inference inference(d.graph);
    REQUIRE(inference.run().ok());
    CHECK((inference.constant(y) != nullptr) == (n == limits::kValueInference));
  }
}

// ---------------------------------------------------------------------------------------------
// References

TEST_CASE("an edge to nothing is refused") {
  Draft input;
  input.node("Pass", {5}, {}, 1);
  check_refused(input, "Pass #0: an input refers to value 5, which does not exist");
  Draft control;
  control.graph.node(control.node("Nothing")).after = {1};
  check_refused(control, "Nothing #0: runs after node 1, which does not exist");
  Draft output;
  output.graph.add_output(9);
  check_refused(output, "an output refers to value 9, which does not exist");
}

TEST_CASE("a cycle is refused by the gate") {
  Draft d;
  const NodeId a = d.node("Sum", {d.input()}, {}, 1);
  d.graph.node(a).inputs.push_back(d.graph.node(a).outputs[0]);
  check_refused(d, "expected no cycles");
}

TEST_CASE("an input of the graph needs a type that can be") {
  Draft no_type;
  no_type.input(DType::invalid);
  check_refused(no_type, "input 'x': expected an element type");
  Draft negative;
  negative.input(DType::f32, {Dim::of(-2)});
  check_refused(negative, "input 'x': expected sizes >= 0, received float[-2]");
  Draft symbol;
  symbol.input(DType::f32, {Dim::of_symbol(3)});
  check_refused(symbol, "refers to a symbol that does not exist");
}

// ---------------------------------------------------------------------------------------------
// Signatures

TEST_CASE("a wrong number of inputs is refused") {
  Draft none;
  none.node("Pass", {}, {}, 1);
  check_refused(none, "Pass #0: input 0 'x' is missing");
  Draft absent;
  absent.node("Pass", {kNone}, {}, 1);
  check_refused(absent, "input 0 'x' is missing");
  Draft many;
  const ValueId x = many.input();
  many.node("Pass", {x, x}, {}, 1);
  check_refused(many, "expected at most 1 inputs, received 2");
  Draft hole;
  const ValueId y = hole.input();
  hole.node("Sum", {y, y, kNone, y}, {}, 1);
  check_refused(hole, "input 2 'xs' is missing");
  Draft no_variadic;
  no_variadic.node("Sum", {}, {}, 1);
  check_refused(no_variadic, "input 0 'xs' is missing");
}

TEST_CASE("optional inputs may be absent in the middle and at the end") {
  Draft d;
  const ValueId x = d.input();
  d.node("Clip", {x}, {}, 1);
  d.node("Clip", {x, kNone, x}, {}, 1);
  d.node("Clip", {x, x, kNone}, {}, 1);
  check_accepted(d);
}

TEST_CASE("a wrong number of outputs is refused") {
  Draft many;
  many.node("Pass", {many.input()}, {}, 2);
  check_refused(many, "has at most 1 outputs, 2 are named");
  Draft none;
  none.node("Pass", {none.input()}, {}, 0);
  check_refused(none, "output 0 'y' is missing");
  Draft absent;
  absent.graph.node(absent.node("Clip", {absent.input()}, {}, 2)).outputs[0] = kNone;
  check_refused(absent, "output 0 'y' is missing");
}

TEST_CASE("a wrong element type is refused") {
  Draft set;
  set.node("Clip", {set.input(DType::i32)}, {}, 1);
  check_refused(set,
                "input 0 'x': expected one of float, double, float16, bfloat16, received int32");
  Draft fixed;
  fixed.node("Negate", {fixed.input(DType::i32)}, {}, 1);
  check_refused(fixed, "input 0 'x': expected int64, received int32");
  Draft differ;
  differ.node("Sum", {differ.input(DType::f32), differ.input(DType::f64)}, {}, 1);
  check_refused(differ, "input 1 'xs': expected float as input 0 has, received double");
  Draft mixed;
  mixed.node("Mixed", {mixed.input(DType::f32), mixed.input(DType::f64)}, {}, 1);
  check_accepted(mixed);
}

TEST_CASE("tensors, resources and tokens are not taken for one another") {
  Draft tensor;
  tensor.node("Use", {tensor.input()});
  check_refused(tensor, "input 0 'r': expected a resource, received a tensor");
  Draft resource;
  resource.node("Pass", {resource.value("Handle")}, {}, 1);
  check_refused(resource, "input 0 'x': expected a tensor, received a resource");
  Draft token;
  token.node("Await", {token.value("Handle")});
  check_refused(token, "input 0 't': expected a token, received a resource");
  Draft good;
  good.node("Await", {good.value("Use", {good.value("Handle")})});
  check_accepted(good);
}

TEST_CASE("unknown, missing and mistaken attributes are refused") {
  Draft unknown;
  unknown.node("Sized", {}, {{"shap", std::vector<int64_t>{1}}}, 1);
  check_refused(unknown, "Sized #0: has no attribute 'shap' (did you mean 'shape'?)");
  Draft missing;
  missing.node("Sized", {}, {}, 1);
  check_refused(missing, "attribute 'shape' (ints) is missing");
  Draft kind;
  kind.node("Sized", {}, {{"shape", int64_t{1}}}, 1);
  check_refused(kind, "attribute 'shape': expected ints, received int");
  Draft float_for_int;
  float_for_int.node("Options", {}, {{"i", 1.0}});
  check_refused(float_for_int, "attribute 'i': expected int, received float");
  Draft good;
  good.node("Options", {},
            {{"f", int64_t{1}}, {"fs", std::vector<int64_t>{}}, {"ss", std::vector<int64_t>{}}});
  check_accepted(good);
}

TEST_CASE("defaults fill what is not written") {
  const Attrs attrs = with_defaults(*gate_ops().find("Options"), {{"i", int64_t{5}}});
  CHECK(attr_int(attrs, "i") == 5);
  CHECK(attr_float(attrs, "f") == 1.0);
  CHECK_FALSE(has_attr(attrs, "t"));
}

TEST_CASE("an op that forgets an output is our bug and says so") {
  Draft d;
  d.node("Forgetful", {}, {}, 1);
  const Status status = validate(d.graph);
  CHECK(status.code() == Code::internal);
  CHECK(status.message().find("inference did not set output 0") != std::string::npos);
}

TEST_CASE("an op without a rule for its outputs is our bug and says so") {
  Catalogue ops;
  ops.add(Op("leat.Ruleless").output("y", "T").type("T", kAllTypes));
  Graph graph(ops);
  graph.add_node(*ops.find("leat.Ruleless"), {}, {}, 1);
  const Status status = validate(graph);
  CHECK(status.code() == Code::internal);
  CHECK(status.message().find("the op has no inference rule") != std::string::npos);
}

TEST_CASE("the first node that is wrong, in order, is the one that is named") {
  Draft d;
  const ValueId x = d.input(DType::i32);
  const NodeId late = d.node("Clip", {x}, {}, 1), early = d.node("Negate", {x}, {}, 1);
  d.graph.node(late).name = "late";
  d.graph.node(early).name = "early";
  d.graph.node(late).after = {early};
  check_refused(d, "Negate 'early'");
}

// ---------------------------------------------------------------------------------------------
// Inference

TEST_CASE("a symbolic batch goes through the graph") {
  Draft d;
  const Dim n = Dim::of_symbol(d.graph.symbol("N"));
  const ValueId x = d.input(DType::f32, {n, Dim::of(3)});
  const ValueId y = d.value("Twice", {d.value("Twice", {d.value("Pass", {x})})});
  check_accepted(d);
  CHECK(d.graph.type_text(d.graph.value(y).type) == "float[4*N,12]");
  const NodeId node = d.graph.value(y).producer;
  const auto types = concrete_types(d.graph, d.graph.node(node), {});
  CHECK(types.status().code() == Code::failed_precondition);
  CHECK(types.status().message().find("float[2*N,6]") != std::string::npos);
}

TEST_CASE("pure ops of known values are computed at once, random ones are not") {
  Draft d;
  const ValueId known = d.value("Known", {}, {{"value", Tensor::of<int64_t>({2}, {3, -4})}});
  const ValueId negated = d.value("Negate", {d.value("Negate", {d.value("Negate", {known})})});
  const ValueId noise = d.value("NegateNoise", {known});
  const ValueId unknown = d.value("Negate", {d.input(DType::i64, {Dim::of(2)})});
  Inference inference(d.graph);
  REQUIRE(inference.run().ok());
  REQUIRE(inference.constant(negated));
  CHECK(inference.constant(negated)->identical(Tensor::of<int64_t>({2}, {-3, 4})));
  CHECK(inference.constant(noise) == nullptr);
  CHECK(inference.constant(unknown) == nullptr);
}

TEST_CASE("a node that is added later is inferred alone") {
  Draft d;
  const ValueId x = d.input(DType::f64, {Dim::of(2)});
  Inference inference(d.graph);
  REQUIRE(inference.run().ok());
  const NodeId added = d.node("Pass", {x}, {}, 1);
  REQUIRE(inference.infer(added).ok());
  CHECK(d.graph.type_text(d.graph.value(d.graph.node(added).outputs[0]).type) == "double[2]");
}

TEST_CASE("concrete types mark what is absent") {
  Draft d;
  const ValueId x = d.input(DType::f32, {Dim::of(4)});
  const NodeId clip = d.node("Clip", {x, kNone, x}, {}, 1);
  check_accepted(d);
  const auto types = concrete_types(d.graph, d.graph.node(clip), {});
  REQUIRE(types.ok());
  CHECK(types->has_input(0));
  CHECK_FALSE(types->has_input(1));
  CHECK(types->has_input(2));
  CHECK_FALSE(types->has_input(3));
  CHECK(types->has_output(0));
  CHECK_FALSE(types->has_output(1));
  CHECK(types->outputs[0].bytes() == 16);
}

}  // namespace
}  // namespace leat

#include "ops/graph/limits.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/ops/text_catalogue.h"

using namespace leat;

namespace {

// Returns the graph of `text`, or fails the test.
Graph parse(const std::string& text, const Catalogue& ops) {
  Result<Graph> graph = parse_graph(text, ops, "g.onnxtxt");
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  return std::move(graph).value();
}

std::string failure(const std::string& text) {
  static const Catalogue ops = text_catalogue();
  const Result<Graph> graph = parse_graph(text, ops, "g.onnxtxt");
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.status().code() == Code::invalid_argument);
  return graph.status().message();
}

}  // namespace

TEST_CASE("a file with a header becomes the graph it says") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(
    # a comment
    <ir_version: 10, opset_import: ["" : 20, "leat" : 1], producer_name: "by hand">
    net (float[N,4] x, float[N,4] "y/0") => (float[N,4] z) {
      s = Add (x, "y/0")  # another
      [act] z = Relu (s)
    })",
                        ops);
  CHECK(g.name == "net");
  REQUIRE(g.nodes() == 2);
  REQUIRE(g.inputs().size() == 2);
  CHECK(g.value_name(g.inputs()[1]) == "y/0");
  CHECK(g.type_text(g.value(g.inputs()[0]).type) == "float[N,4]");
  CHECK(g.value(g.inputs()[0]).type == g.value(g.inputs()[1]).type);
  CHECK(g.node(0).op->name == "Add");
  CHECK(g.node(0).inputs == g.inputs());
  CHECK(g.node(1).name == "act");
  CHECK(g.node(1).inputs == g.node(0).outputs);
  CHECK(g.outputs() == g.node(1).outputs);
  CHECK(g.node(1).source == 1);
}

TEST_CASE("attributes of every kind are read, before or after the inputs") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(g () => () {
      a = leat.Anything <i = -3, f = 1.5, e = 1e-3, s = "a\"b\\", t = float[2,2] {1, 2.5, -inf, nan},
                         is = [1, 2], fs = [0.5, 1], ss = ["x", "y"], none: strings = [],
                         as_float : float = 2, inf_ = inf, fl : floats = [1, 2]> ()
      b = leat.Anything () <after = ["a"], device = "cpu:0", source = 9, first_row = 64>
    })",
                        ops);
  const Attrs& a = g.node(0).attrs;
  CHECK(std::get<int64_t>(a.at("i")) == -3);
  CHECK(std::get<double>(a.at("f")) == 1.5);
  CHECK(std::get<double>(a.at("e")) == 1e-3);
  CHECK(std::get<std::string>(a.at("s")) == "a\"b\\");
  CHECK(std::get<Tensor>(a.at("t")).data<float>()[1] == 2.5f);
  CHECK(std::get<Tensor>(a.at("t")).data<float>()[2] < -1e38f);
  CHECK(std::get<std::vector<int64_t>>(a.at("is")) == std::vector<int64_t>{1, 2});
  CHECK(std::get<std::vector<double>>(a.at("fs")) == std::vector<double>{0.5, 1});
  CHECK(std::get<std::vector<std::string>>(a.at("ss")) == std::vector<std::string>{"x", "y"});
  CHECK(std::get<std::vector<std::string>>(a.at("none")).empty());
  CHECK(std::get<double>(a.at("as_float")) == 2.0);
  CHECK(std::get<double>(a.at("inf_")) > 1e308);
  CHECK(std::get<std::vector<double>>(a.at("fl")) == std::vector<double>{1, 2});
  const Node& b = g.node(1);
  CHECK(b.attrs.empty());
  CHECK(b.after == std::vector<NodeId>{0});
  CHECK(b.device == "cpu:0");
  CHECK(b.source == 9);
  CHECK(b.first_row == 64);
}

TEST_CASE("an int where the op declares a float is read as a float") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse("g (float[2] x) => (y) { y = Elu <alpha = 2> (x) }", ops);
  CHECK(std::get<double>(g.node(0).attrs.at("alpha")) == 2.0);
}

TEST_CASE("initializers become constants before the nodes") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(g (float[2] x, float[2] b = {5, 6}) => (y)
      <float[2] w = {1, 2}, float16[1] h = {15360}, bool f = {1}, uint64[1] u = {18446744073709551615}>
      { t = Add (x, w)  y = Add (t, b) })",
                        ops);
  REQUIRE(g.nodes() == 7);
  CHECK(g.inputs().size() == 1);
  CHECK(g.value_name(g.node(0).outputs[0]) == "b");
  CHECK(std::get<Tensor>(g.node(1).attrs.at("value")).identical(Tensor::of<float>({2}, {1, 2})));
  CHECK(std::get<Tensor>(g.node(2).attrs.at("value")).at(0) == 1.0);
  CHECK(std::get<Tensor>(g.node(3).attrs.at("value")).data<bool>()[0]);
  CHECK(std::get<Tensor>(g.node(4).attrs.at("value")).data<uint64_t>()[0] == ~uint64_t{0});
  CHECK(g.node(6).source == 6);
}

TEST_CASE("absent operands stay absent") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(g (float[2] x, float m) => (y) {
      y = Clip (x, , m)
      "", i = MaxPool (x)
      z = Clip (x, "", m) })",
                        ops);
  CHECK(g.node(0).inputs == std::vector<ValueId>{0, kNone, 1});
  CHECK(g.node(1).outputs[0] == kNone);
  CHECK(g.value_name(g.node(1).outputs[1]) == "i");
  CHECK(g.node(2).inputs == g.node(0).inputs);
}

TEST_CASE("a region's names from around it become captures of its node") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(g (bool c, float[2] x, float[2] w) => (y) {
      t = Relu (x)
      y = If (c) <then_branch = a () => (p) { q = Add (w, t)  p = Relu (q) },
                  else_branch = b () => (r) { r = Relu (t) }>
    })",
                        ops);
  const Node& node = g.node(1);
  // then_branch comes after else_branch by name: t is captured first.
  CHECK(node.inputs == std::vector<ValueId>{0, g.node(0).outputs[0], 2});
  CHECK(attr_int(node.attrs, "captures") == 2);
  const Graph& then = *std::get<std::shared_ptr<Graph>>(node.attrs.at("then_branch"));
  const Graph& other = *std::get<std::shared_ptr<Graph>>(node.attrs.at("else_branch"));
  REQUIRE(then.inputs().size() == 2);
  REQUIRE(other.inputs().size() == 2);
  CHECK(then.node(0).inputs == std::vector<ValueId>{then.inputs()[1], then.inputs()[0]});
  CHECK(other.node(0).source == 2);
  CHECK(then.node(0).source == 3);
}

TEST_CASE("captures stand after absent operands, and pass through regions") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(g (int64 m, float[2] x) => (y) {
      y = Loop (m) <body = outer (int64 i, bool c) => (k) {
        k = If (c) <then_branch = a () => (p) { p = Relu (x) }, else_branch = b () => (x) {}>
      }>
    })",
                        ops);
  CHECK(g.node(0).inputs == std::vector<ValueId>{0, kNone, 1});
  const Graph& body = *std::get<std::shared_ptr<Graph>>(g.node(0).attrs.at("body"));
  REQUIRE(body.inputs().size() == 3);
  CHECK(body.node(0).inputs == std::vector<ValueId>{1, 2});
}

TEST_CASE("symbols may be multiplied, bounded and unknown") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(<metadata_props: ["leat.bounds": "N <=128, T<=7"]>
      g (float[N,"2*N",?,?] x) => (x) {})",
                        ops);
  const SymbolicShape& shape = g.value(0).type.shape;
  CHECK(shape[1] == Dim::of_symbol(shape[0].symbol, 2));
  CHECK_FALSE(shape[2] == shape[3]);
  CHECK(g.symbol_info(shape[0].symbol).bound == 128);
}

TEST_CASE("types that are no tensors have a text") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(
      "g (optional(float[2]) r, sparse_tensor(float[9,2]) s, opaque(leat.token) t) => () {}", ops);
  CHECK(g.value(0).type.kind == ValueKind::resource);
  CHECK(g.value(0).type.dtype == DType::f32);
  CHECK(g.value(1).type.kind == ValueKind::rows);
  CHECK(g.value(2).type.kind == ValueKind::token);
}

TEST_CASE("a node without outputs is waited for by its own name") {
  const Catalogue ops = text_catalogue();
  const Graph g = parse(R"(g (float[1] x) => (y) {
      r = leat.Variable <name = "w"> ()
      [store] = leat.Assign (r, x)
      y = Relu <after = ["[store]"]> (x) })",
                        ops);
  CHECK(g.node(1).outputs.empty());
  CHECK(g.node(2).after == std::vector<NodeId>{1});
}

TEST_CASE("an error in text names its place and what was expected") {
  CHECK(failure("g (float[2] x) => (y) {\n  y = Rulu (x)\n}") ==
        "g.onnxtxt:2:7: expected a known op, got 'Rulu' (did you mean 'Relu'?)");
  CHECK(failure("g (float[2] xyz) => (y) {\n  y = Relu (xzy)\n}") ==
        "g.onnxtxt:2:13: expected a value defined above, got 'xzy' (did you mean 'xyz'?)");
  CHECK(failure("g (float[2] x) => (y) {\n  y = Relu (x\n}") ==
        "g.onnxtxt:3:1: expected ')', got '}'");
  CHECK(failure("g (float[2] x) => (y) { x = Relu (x) }") ==
        "g.onnxtxt:1:25: the value 'x' is defined twice, first at g.onnxtxt:1:13");
  CHECK(failure("g () => () { y = leat.Anything <a = []> () }") ==
        "g.onnxtxt:1:37: expected the kind of an empty list, as in 'axes: ints = []'");
  CHECK(failure("g () => () <float[3] w = {1, 2}> {}") ==
        "g.onnxtxt:1:31: expected 3 elements, not 2, got '}'");
  CHECK(failure("g () => () <int8[1] w = {200}> {}") ==
        "g.onnxtxt:1:26: expected an element of type int8, got '200'");
  CHECK(failure("<opset_import: [\"\" : 29]> g () => () {}") ==
        "g.onnxtxt:1:22: expected an opset of ONNX from 7 to 28, got '29'");
  CHECK(failure("g () => () { y = leat.Anything <s = \"abc> () }") ==
        "g.onnxtxt:1:37: expected a number, a string, a list, a tensor or a graph, got a string "
        "without an end");
  CHECK(failure("g () => (") == "g.onnxtxt:1:10: expected a value's type or name, got end of file");
  CHECK(failure("g () => () { leat.Anything () }") == "g.onnxtxt:1:18: expected '=', got '.'");
  CHECK(failure("# ä\n<ir_versoin: 3> g () => () {}") ==
        "g.onnxtxt:2:2: expected a key of the header (did you mean 'ir_version'?), got "
        "'ir_versoin'");
  CHECK(failure("g () => () { y = leat.Anything <after = [\"no\"]> () }")
            .find("expected the name of a value that a node above makes, got 'no'") !=
        std::string::npos);
  CHECK(failure("g () => () { y = leat.Anything <device = 3> () }")
            .find("the attribute 'device': expected string, got int") != std::string::npos);
  CHECK(failure("g () => () {} f (x) => (y) {}").find("functions are not supported") !=
        std::string::npos);
}

TEST_CASE("limits hold at their edges") {
  const Catalogue ops = text_catalogue();
  const auto nested = [](int depth) {
    std::string text = "{ y = Relu (x) }";
    for (int i = 0; i < depth; ++i) {
      text = "{ y = Loop () <body = b () => (y) " + text + "> }";
    }
    return "g (float[1] x) => (y) " + text;
  };
  CHECK(parse_graph(nested(limits::kNesting), ops, "f").ok());
  CHECK(failure(nested(limits::kNesting + 1)).find("at most 16 nested graphs") !=
        std::string::npos);

  const auto named = [](size_t length) {
    return "g (float " + std::string(length, 'a') + ") => () {}";
  };
  CHECK(parse_graph(named(limits::kNameLength), ops, "f").ok());
  CHECK(failure(named(limits::kNameLength + 1)).find("of at most 1024 bytes") != std::string::npos);

  CHECK(parse_graph("g (float[1,1,1,1,1,1,1,1] x) => () {}", ops, "f").ok());
  CHECK(failure("g (float[1,1,1,1,1,1,1,1,1] x) => () {}").find("at most 8 dimensions") !=
        std::string::npos);

  const auto attributes = [](size_t count) {
    std::string text = "g () => () { = leat.Anything <";
    for (size_t i = 0; i < count; ++i) text += (i ? ", a" : "a") + std::to_string(i) + " = 1";
    return text + "> () }";
  };
  CHECK(parse_graph(attributes(limits::kAttributes), ops, "f").ok());
  CHECK(failure(attributes(limits::kAttributes + 1)).find("at most 256 attributes") !=
        std::string::npos);

  const auto operands = [](size_t count) {
    std::string text = "g (float x) => () { = leat.Anything (x";
    for (size_t i = 1; i < count; ++i) text += ",x";
    return text + ") }";
  };
  CHECK(parse_graph(operands(limits::kOperands), ops, "f").ok());
  CHECK(failure(operands(limits::kOperands + 1)).find("at most 65536 operands") !=
        std::string::npos);

  const auto list = [](size_t length) {
    std::string text = "g () => () { = leat.Anything <a = [0";
    for (size_t i = 1; i < length; ++i) text += ",0";
    return text + "]> () }";
  };
  CHECK(parse_graph(list(limits::kListLength), ops, "f").ok());
  CHECK(failure(list(limits::kListLength + 1)).find("a list of at most 1000000") !=
        std::string::npos);

  const auto string = [](size_t length) {
    return "g () => () { = leat.Anything <a = \"" + std::string(length, 'a') + "\"> () }";
  };
  CHECK(parse_graph(string(limits::kStringLength), ops, "f").ok());
  CHECK(failure(string(limits::kStringLength + 1)).find("of at most 1048576 bytes, got 1048577") !=
        std::string::npos);

  const auto quoted = [](const std::string& name) { return "g (float \"" + name + "\") => () {}"; };
  CHECK(parse_graph(quoted(std::string(limits::kNameLength, 'a')), ops, "f").ok());
  CHECK(failure(quoted(std::string(limits::kNameLength + 1, 'a'))).find("at most 1024 bytes") !=
        std::string::npos);
  // An escape is two bytes of the file and one of the name.
  std::string escaped;
  for (size_t i = 0; i < limits::kNameLength; ++i) escaped += "\\\"";
  CHECK(parse_graph(quoted(escaped), ops, "f").ok());
  CHECK(failure(quoted(escaped + "a")).find("at most 1024 bytes") != std::string::npos);

  const auto op = [](size_t length) {
    return "g () => () { = leat." + std::string(length, 'a') + " () }";
  };
  CHECK(failure(op(limits::kNameLength)).find("an op's name of at most 1024 bytes") !=
        std::string::npos);

  // A declared number of elements alone must not allocate memory.
  CHECK(failure("g () => () <float[1000000,1000000,1000000] w = {1}> {}").find("elements") !=
        std::string::npos);
  CHECK(failure("g () => () <float[100000000] w = {1}> {}").find("100000000 elements, not 1") !=
        std::string::npos);
}

TEST_CASE("no prefix of a file crashes the parser") {
  const Catalogue ops = text_catalogue();
  const std::string text =
      R"(<ir_version: 10, opset_import: ["" : 20], metadata_props: ["leat.bounds": "N<=3"]>
    g (float[N,"2*N"] x) => (y) <float[2] w = {1, -2.5e3}> {
      [n] t = leat.Anything <a = [1], b: ints = [], s = "x\"", g = r () => (v) { v = Relu (x) }> (x, , w)
      y = Relu (t) <after = ["t"]> })";
  REQUIRE(parse_graph(text, ops, "f").ok());
  for (size_t n = 0; n < text.size(); ++n)
    CHECK_FALSE(parse_graph(text.substr(0, n), ops, "f").ok());
}

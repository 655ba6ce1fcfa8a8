// Tests the import of models with functions of their own, and of sequences that fold away.
#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/onnx/import.h"
#include "tests/catch.h"
#include "tests/onnx/wire_models.h"

namespace leat::onnx_testing {
namespace {

// A function of the domain "custom".
FunctionProto& add_function(ModelProto& m, const std::string& name, std::vector<std::string> inputs,
                            std::vector<std::string> outputs) {
  FunctionProto& function = *m.add_functions();
  function.set_name(name);
  function.set_domain("custom");
  for (auto& input : inputs) function.add_input(input);
  for (auto& output : outputs) function.add_output(output);
  return function;
}

NodeProto& add_body(FunctionProto& function, const std::string& op, std::vector<std::string> inputs,
                    std::vector<std::string> outputs) {
  NodeProto& node = *function.add_node();
  node.set_op_type(op);
  for (auto& input : inputs) node.add_input(input);
  for (auto& output : outputs) node.add_output(output);
  return node;
}

NodeProto& call(GraphProto& g, const std::string& function, std::vector<std::string> inputs,
                std::vector<std::string> outputs) {
  NodeProto& node = add_node(g, function, std::move(inputs), std::move(outputs));
  node.set_domain("custom");
  return node;
}

}  // namespace

TEST_CASE("the functions of a model are replaced by their bodies") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  // slope(a) = LeakyRelu(a) with an attribute of the call, or its default.
  FunctionProto& slope = add_function(m, "slope", {"a"}, {"b"});
  NodeProto& leaky = add_body(slope, "LeakyRelu", {"a"}, {"b"});
  AttributeProto& reference = add_attr(leaky, "alpha", 1);
  reference.set_ref_attr_name("by");
  AttributeProto& fallback = *slope.add_attribute_proto();
  fallback.set_name("by");
  fallback.set_type(1);
  fallback.set_f(0.5f);
  // twice(a) calls it two times, and has an inner value.
  FunctionProto& twice = add_function(m, "twice", {"a", "unused"}, {"b", "a"});
  add_body(twice, "slope", {"a"}, {"inner"}).set_domain("custom");
  NodeProto& second = add_body(twice, "slope", {"inner"}, {"b"});
  second.set_domain("custom");
  AttributeProto& by = add_attr(second, "by", 1);
  by.set_f(0.25f);
  call(g, "twice", {"x"}, {"y", "same"});
  call(g, "twice", {"same"}, {"z"});
  g.add_output()->set_name("y");
  g.add_output()->set_name("z");
  const std::string text = nodes_of(m);
  INFO(text);
  const auto count = [&](std::string_view part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  CHECK(count("LeakyRelu") == 4);
  CHECK(count("alpha = 0.5") == 2);
  CHECK(count("alpha = 0.25") == 2);
  CHECK(count("Identity") == 1);
  CHECK(count("custom") == 0);
}

TEST_CASE("functions that call themselves, or get too many operands, are refused") {
  ModelProto m = model(20);
  add_input(*m.mutable_graph(), "x", {2});
  FunctionProto& a = add_function(m, "a", {"x"}, {"y"});
  add_body(a, "b", {"x"}, {"y"}).set_domain("custom");
  FunctionProto& b = add_function(m, "b", {"x"}, {"y"});
  add_body(b, "a", {"x"}, {"y"}).set_domain("custom");
  NodeProto& node = call(*m.mutable_graph(), "a", {"x"}, {"y"});
  CHECK(import(m).status().message() == "m.onnx: the graph: function 'a': it calls itself");
  node.add_input("x");
  CHECK(
      import(m).status().message() ==
      "m.onnx: the graph: function 'a': expected at most 1 inputs and 1 outputs, received 2 and 1");
}

TEST_CASE("functions that grow without end cost no more than the limit of nodes") {
  // Each function calls the one before twice: 2^40 nodes.
  ModelProto m = model(20);
  add_input(*m.mutable_graph(), "x", {2});
  add_body(add_function(m, "f0", {"x"}, {"y"}), "Relu", {"x"}, {"y"});
  for (int i = 1; i <= 40; ++i) {
    FunctionProto& function = add_function(m, cat("f", i), {"x"}, {"y"});
    add_body(function, cat("f", i - 1), {"x"}, {"h"}).set_domain("custom");
    add_body(function, cat("f", i - 1), {"h"}, {"y"}).set_domain("custom");
  }
  call(*m.mutable_graph(), "f40", {"x"}, {"y"});
  const Status status = import(m).status();
  CHECK(status.code() == Code::invalid_argument);
}

namespace {

void add_int64s(GraphProto& g, const std::string& name, std::vector<int64_t> values, bool scalar) {
  TensorProto& t = *g.add_initializer();
  t.set_name(name);
  t.set_data_type(7);
  if (!scalar) t.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) t.add_int64_data(value);
}

}  // namespace

TEST_CASE("the parts of a split sequence are slices") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2, 6});
  add_int64s(g, "two", {2}, true);
  add_int64s(g, "sizes", {1, 3, 2}, false);
  add_int64s(g, "first", {0}, true);
  add_int64s(g, "last", {-1}, true);
  add_attr(add_node(g, "SplitToSequence", {"x", "two"}, {"equal"}), "axis", 2).set_i(1);
  add_attr(add_node(g, "SplitToSequence", {"x", "sizes"}, {"sized"}), "axis", 2).set_i(-1);
  add_node(g, "SequenceAt", {"equal", "first"}, {"a"});
  add_node(g, "SequenceAt", {"sized", "last"}, {"b"});
  add_node(g, "SequenceConstruct", {"a", "b"}, {"pair"});
  add_node(g, "SequenceAt", {"pair", "last"}, {"c"});
  add_attr(add_node(g, "ConcatFromSequence", {"pair"}, {"y"}), "axis", 2).set_i(1);
  g.add_output()->set_name("y");
  g.add_output()->set_name("c");
  const std::string text = nodes_of(m);
  INFO(text);
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  CHECK(has("a = Slice (x, "));
  CHECK(has("b = Slice (x, "));
  CHECK(has("c = Identity (b)"));
  CHECK(has("y = Concat <axis = 1> (a, b)"));
  CHECK_FALSE(has("Sequence"));

  add_node(g, "SequenceAt", {"equal", "x"}, {"d"});
  CHECK(import(m).status().message().find("expected an index that is a constant") !=
        std::string::npos);
  g.mutable_node()->RemoveLast();
  add_node(g, "Relu", {"equal"}, {"d"});
  CHECK(import(m).status().message().find("expected a tensor, 'equal' is a sequence") !=
        std::string::npos);
  g.mutable_node()->RemoveLast();
  add_int64s(g, "far", {3}, true);
  add_node(g, "SequenceAt", {"sized", "far"}, {"d"});
  CHECK(import(m).status().message().find("index: expected in [-3, 2], received 3") !=
        std::string::npos);
}

TEST_CASE("sequences of a region fold in it") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_node(g, "Relu", {"x"}, {"c"});
  NodeProto& node = add_node(g, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    GraphProto& branch = *add_attr(node, name, 5).mutable_g();
    branch.set_name(name);
    add_int64s(branch, "last", {-1}, true);
    add_node(branch, "SequenceConstruct", {"c", "x"}, {"pair"});
    add_node(branch, "SequenceAt", {"pair", "last"}, {"r"});
    branch.add_output()->set_name("r");
  }
  const std::string text = nodes_of(m);
  INFO(text);
  CHECK(text.find("r = Identity (x)") != std::string::npos);
  CHECK(text.find("Sequence") == std::string::npos);
}

TEST_CASE("sequences that are made one tensor at a time, and optional values, fold away") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_input(g, "w", {2});
  add_int64s(g, "zero", {0}, true);
  add_node(g, "SequenceEmpty", {}, {"none"});
  add_node(g, "SequenceInsert", {"none", "x"}, {"one"});
  add_node(g, "SequenceInsert", {"one", "w", "zero"}, {"two"});
  add_node(g, "Identity", {"two"}, {"same"});
  add_node(g, "SequenceErase", {"same", "zero"}, {"rest"});
  add_node(g, "SequenceAt", {"rest", "zero"}, {"a"});
  add_node(g, "SequenceAt", {"two", "zero"}, {"b"});
  add_node(g, "Optional", {"b"}, {"maybe"});
  add_node(g, "OptionalGetElement", {"maybe"}, {"c"});
  add_node(g, "OptionalHasElement", {"maybe"}, {"there"});
  add_node(g, "OptionalHasElement", {}, {"absent"});
  for (const char* name : {"a", "c", "there", "absent"}) g.add_output()->set_name(name);
  const std::string text = nodes_of(m);
  INFO(text);
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  CHECK(has("a = Identity (x)"));
  CHECK(has("b = Identity (w)"));
  CHECK(has("c = Identity (b)"));
  CHECK(has("there = Constant <value = bool {1}> ()"));
  CHECK(has("absent = Constant <value = bool {0}> ()"));
  CHECK_FALSE(has("Sequence"));
  CHECK_FALSE(has("Optional"));

  add_node(g, "SequenceErase", {"none"}, {"less"});
  CHECK(import(m).status().message().find("index: expected in [0, -1], received -1") !=
        std::string::npos);
  g.mutable_node()->RemoveLast();
  add_node(g, "Optional", {}, {"nothing"});
  add_node(g, "OptionalGetElement", {"nothing"}, {"d"});
  CHECK(import(m).status().message().find("expected an optional value that is there, it is not") !=
        std::string::npos);
  g.mutable_node()->RemoveLast();
  add_node(g, "Relu", {"nothing"}, {"d"});
  CHECK(import(m).status().message().find("expected a tensor, 'nothing' is an optional value") !=
        std::string::npos);
}

TEST_CASE("an optional value of the graph around a region is refused in it") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_input(g, "c", {});
  add_node(g, "Optional", {}, {"nothing"});
  NodeProto& choice = add_node(g, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    GraphProto& branch = *add_attr(choice, name, 5).mutable_g();
    branch.set_name(name);
    add_node(branch, "OptionalHasElement", {"nothing"}, {"there"});
    branch.add_output()->set_name("there");
  }
  g.add_output()->set_name("y");
  CHECK(import(m).status().message().find(
            "expected a value of its own graph, 'nothing' is of another") != std::string::npos);
}

TEST_CASE("a file that repeats a long sequence many times is refused") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  std::string last = "s";
  add_node(g, "SequenceConstruct", {"x"}, {last});
  for (int i = 0; i < 1500; ++i) {
    const std::string next = cat("s", i);
    add_node(g, "SequenceInsert", {last, "x"}, {next});
    last = next;
  }
  add_node(g, "SequenceAt", {last, "x"}, {"y"});
  g.add_output()->set_name("y");
  CHECK(import(m).status().message().find("expected sequences of 1000000 tensors") !=
        std::string::npos);
}

TEST_CASE("a fixed input of a model is a constant that is not trained") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 2});
  add_input(g, "w", {-1});
  add_node(g, "Relu", {"x"}, {"y"});
  g.add_output()->set_name("y");
  OnnxOptions options{.trainable = true};
  options.fixed = {{"w", Tensor::of<double>({3}, {1, 2, 0.1})}};
  const OnnxModel read = import(m, options).value();
  REQUIRE(read.graph.inputs().size() == 1);
  CHECK(read.graph.value(read.graph.inputs()[0]).type.shape.concrete() == Shape{3, 2});
  CHECK(nodes_of(m, options).find("w = Constant <value = float[3] {1, 2, 0.1}> ()") !=
        std::string::npos);
  options.fixed = {{"v", Tensor::scalar<float>(1)}};
  CHECK(import(m, options)
            .status()
            .message()
            .find("m.onnx: expected an input to fix, received 'v'") != std::string::npos);
}

TEST_CASE("outputs that a job does not use may need what the build lacks") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  TensorProto& names = *g.add_initializer();
  names.set_name("names");
  names.set_data_type(8);
  names.add_dims(2);
  add_node(g, "Relu", {"x"}, {"scores"});
  add_node(g, "Concat", {"names", "scores"}, {"label"});
  add_node(g, "StringSplit", {"label"}, {"parts"});
  add_node(g, "Identity", {"parts"}, {"words"});
  for (const char* name : {"label", "scores", "words"}) g.add_output()->set_name(name);
  CHECK(failure(m) ==
        "m.onnx: this build lacks 1 op of the model: StringSplit ('parts'; tensors of strings); a "
        "job does without them if model.outputs has other outputs alone: 'scores'");
  const OnnxModel read = import(m, {.outputs = {"scores"}}).value();
  REQUIRE(read.graph.outputs().size() == 1);
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0] ==
        "m.onnx: left out outputs that the job does not use ('label', 'words'), for lack of "
        "StringSplit, tensors of strings");
  CHECK(import(m, {.outputs = {"words", "scores"}}).status().code() == Code::unimplemented);
  // Without the op, the strings are what is missing.
  g.mutable_node()->DeleteSubrange(2, 2);
  g.mutable_output()->RemoveLast();
  CHECK(failure(m).find("names") != std::string::npos);
  CHECK(import(m, {.outputs = {"scores"}})
            .value()
            .notes.at(0)
            .ends_with("for lack of tensors of strings"));
}

}  // namespace leat::onnx_testing

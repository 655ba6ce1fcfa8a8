// Tests the import of models: values, opsets, limits, regions and external data.
#include "ops/onnx/import.h"

#include <cstring>
#include <filesystem>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/text/print.h"
#include "tests/catch.h"
#include "tests/onnx/wire_models.h"
#include "tests/temporary_directory.h"

namespace leat::onnx_testing {

TEST_CASE("a model becomes the graph it says") {
  ModelProto m = model(20);
  add_input(*m.mutable_graph(), "x", {-1, 2});
  add_input(*m.mutable_graph(), "w", {2});  // old files list initializers as inputs, too
  add_floats(*m.mutable_graph(), "w", {1, 0.5});
  NodeProto& node = add_node(*m.mutable_graph(), "Add", {"x", "w"}, {"s"});
  node.set_name("adder");
  add_attr(add_node(*m.mutable_graph(), "LeakyRelu", {"s"}, {"y"}), "alpha", 1).set_f(0.9f);
  m.mutable_graph()->add_output()->set_name("y");
  const Result<OnnxModel> read = import(m);
  REQUIRE(read.ok());
  CHECK(print_graph(read->graph) ==
        "<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n"
        "g (float[N,2] x) => (y) {\n"
        "  w = Constant <value = float[2] {1, 0.5}> ()\n"
        "  [adder] s = Add (x, w)\n"
        "  y = LeakyRelu <alpha = 0.9> (s)\n"
        "}\n");
}

TEST_CASE("a node's device comes from its metadata, and its weights go with it") {
  ModelProto m = model(20);
  add_input(*m.mutable_graph(), "x", {-1, 2});
  add_floats(*m.mutable_graph(), "w", {1, 0.5});
  NodeProto& node = add_node(*m.mutable_graph(), "Add", {"x", "w"}, {"y"});
  for (const auto& [key, value] : {std::pair("leat.device", "task:1"), std::pair("other", "z")}) {
    auto& property = *node.add_metadata_props();
    property.set_key(key);
    property.set_value(value);
  }
  m.mutable_graph()->add_output()->set_name("y");
  const Result<OnnxModel> read = import(m, {.trainable = true});
  REQUIRE(read.ok());
  int nodes = 0;
  for (NodeId id = 0; id < read->graph.nodes(); ++id) {
    const Node& made = read->graph.node(id);
    if (made.op->name == "Constant") continue;
    INFO(made.op->name);
    CHECK(made.device == "task:1");
    ++nodes;
  }
  CHECK(nodes == 4);  // Variable, Initialize, Read, Add
}

TEST_CASE("tensors are read from raw bytes and from every typed field") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  const auto add = [&](int type) -> TensorProto& {
    TensorProto& t = *g.add_initializer();
    t.set_name("t" + std::to_string(type));
    t.set_data_type(type);
    t.add_dims(2);
    return t;
  };
  const float raw[] = {1.5f, -2};
  add(1).set_raw_data(std::string(reinterpret_cast<const char*>(raw), 8));
  for (const int type : {2, 3, 4, 5, 6, 9, 10, 16}) {
    TensorProto& t = add(type);
    t.add_int32_data(1);
    t.add_int32_data(0);
  }
  add(7).add_int64_data(-5);
  g.mutable_initializer(g.initializer_size() - 1)->add_int64_data(6);
  for (const int type : {12, 13}) {
    TensorProto& t = add(type);
    t.add_uint64_data(3);
    t.add_uint64_data(4);
  }
  TensorProto& doubles = add(11);
  doubles.add_double_data(0.25);
  doubles.add_double_data(2);
  const Result<OnnxModel> read = import(m);
  INFO(read.status().message());
  REQUIRE(read.ok());
  const auto value = [&](NodeId id) {
    return std::get<Tensor>(read->graph.node(id).attrs.at("value"));
  };
  CHECK(value(0).identical(Tensor::of<float>({2}, {1.5f, -2})));
  CHECK(value(1).identical(Tensor::of<uint8_t>({2}, {1, 0})));
  CHECK(value(6).identical(Tensor::of<bool>({2}, {true, false})));
  CHECK(value(7).data<Half>()[0].bits == 1);
  CHECK(value(9).identical(Tensor::of<int64_t>({2}, {-5, 6})));
  CHECK(value(10).identical(Tensor::of<uint32_t>({2}, {3, 4})));
  CHECK(value(12).identical(Tensor::of<double>({2}, {0.25, 2})));
}

TEST_CASE("elements of fewer than 8 bits are read from the bytes that they share") {
  ModelProto m = model(25);
  GraphProto& g = *m.mutable_graph();
  const auto add = [&](int type, int64_t size) -> TensorProto& {
    TensorProto& t = *g.add_initializer();
    t.set_name("t" + std::to_string(g.initializer_size()));
    t.set_data_type(type);
    t.add_dims(size);
    return t;
  };
  add(22, 3).set_raw_data("\x2f\x08");      // int4: -1, 2, -8
  add(25, 5).set_raw_data("\xe4\x02");      // uint2: 0, 1, 2, 3, 2
  add(27, 3).set_raw_data("\x41\xf0\x01");  // float6e2m3: 1, 1, 31
  add(17, 2).set_raw_data(std::string("\x00\x7e", 2));
  TensorProto& packed = add(21, 3);
  packed.add_int32_data(0xf1);
  packed.add_int32_data(7);
  TensorProto& codes = add(19, 2);
  codes.add_int32_data(0x3c);
  codes.add_int32_data(0xfc);
  const Result<OnnxModel> read = import(m);
  INFO(read.status().message());
  REQUIRE(read.ok());
  const auto text = [&](NodeId id) {
    return std::get<Tensor>(read->graph.node(id).attrs.at("value")).to_string();
  };
  CHECK(text(0) == "int4[3] {-1, 2, -8}");
  CHECK(text(1) == "uint2[5] {0, 1, 2, 3, 2}");
  CHECK(text(2) == "float6e2m3[3] {0.125, 0.125, 7.5}");
  CHECK(text(3) == "float8e4m3fn[2] {0, 448}");
  CHECK(text(4) == "uint4[3] {1, 15, 7}");
  CHECK(text(5) == "float8e5m2[2] {1, -inf}");
  codes.set_int32_data(0, 256);
  CHECK(failure(m) == "m.onnx: tensor 't6': expected elements of type float8e5m2, received 256");
  codes.set_int32_data(0, 1);
  packed.add_int32_data(1);
  CHECK(failure(m) == "m.onnx: tensor 't5': expected 2 bytes of elements, received 3");
  packed.set_raw_data("\x01");
  CHECK(failure(m) == "m.onnx: tensor 't5': expected 2 bytes, received 1");
}

TEST_CASE("a tensor whose data does not fit its shape or its type is refused") {
  ModelProto m = model(20);
  TensorProto& t = add_floats(*m.mutable_graph(), "w", {1, 2});
  t.set_dims(0, 3);
  CHECK(failure(m) == "m.onnx: tensor 'w': expected 3 elements, received 2");
  t.set_raw_data("1234");
  CHECK(failure(m) == "m.onnx: tensor 'w': expected 12 bytes, received 4");
  t.clear_raw_data();
  t.set_dims(0, 1);
  t.set_data_type(2);
  t.add_int32_data(300);
  CHECK(failure(m) == "m.onnx: tensor 'w': expected elements of type uint8, received 300");
  t.set_data_type(8);
  CHECK(failure(m) ==
        "m.onnx: tensor 'w': expected a number's type, received TensorProto.DataType 8");
  t.set_data_type(1);
  t.set_dims(0, int64_t{1} << 62);
  t.add_dims(16);
  CHECK(failure(m).find("expected at most 8 sizes and 2^40 elements") != std::string::npos);
}

TEST_CASE("every op that this build lacks is named, with its nodes") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_node(g, "Resize", {"x"}, {"a"}).set_name("up1");
  add_node(g, "StringSplit", {"a"}, {"b"});
  add_node(g, "Resize", {"b"}, {"c"}).set_name("up2");
  const Result<OnnxModel> read = import(m);
  CHECK(read.status().code() == Code::unimplemented);
  CHECK(read.status().message() ==
        "m.onnx: this build lacks 2 ops of the model: Resize ('up1', 'up2'), StringSplit ('b'; "
        "tensors of strings)");
}

TEST_CASE("older opsets are upgraded") {
  SECTION("axes, pads and bounds become inputs") {
    ModelProto m = model(9);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {2, 1});
    add_ints(add_node(g, "Squeeze", {"x"}, {"a"}), "axes", {1});
    add_ints(add_node(g, "ReduceMean", {"a"}, {"b"}), "axes", {0});
    NodeProto& clip = add_node(g, "Clip", {"b"}, {"c"});
    add_attr(clip, "max", 1).set_f(6);
    NodeProto& slice = add_node(g, "Slice", {"x"}, {"d"});
    add_ints(slice, "starts", {0});
    add_ints(slice, "ends", {1});
    NodeProto& pad = add_node(g, "Pad", {"x"}, {"e"});
    add_ints(pad, "pads", {0, 1, 0, 1});
    add_attr(pad, "value", 1).set_f(0.5);
    CHECK(nodes_of(m) ==
          "  \"%1\" = Constant <value = int64[1] {1}> ()\n"
          "  a = Squeeze (x, \"%1\")\n"
          "  \"%3\" = Constant <value = int64[1] {0}> ()\n"
          "  b = ReduceMean (a, \"%3\")\n"
          "  \"%5\" = Constant <value = float {6}> ()\n"
          "  c = Clip (b, \"\", \"%5\")\n"
          "  \"%7\" = Constant <value = int64[1] {0}> ()\n"
          "  \"%8\" = Constant <value = int64[1] {1}> ()\n"
          "  d = Slice (x, \"%7\", \"%8\")\n"
          "  \"%10\" = Constant <value = int64[4] {0, 1, 0, 1}> ()\n"
          "  \"%11\" = Constant <value = float {0.5}> ()\n"
          "  e = Pad (x, \"%10\", \"%11\")\n");
  }
  SECTION("softmax over the rest of the sizes stays one over the rest of the sizes") {
    ModelProto m = model(11);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {2, 3, 4});
    add_input(g, "z", {2, 3});
    add_node(g, "Softmax", {"z"}, {"b"});  // the last size anyway
    add_node(g, "Softmax", {"x"}, {"a"}).set_name("soft");
    CHECK(nodes_of(m) ==
          "  b = Softmax <axis = -1> (z)\n"
          "  \"%3\" = Flatten <axis = 1> (x)\n"
          "  \"%4\" = Shape (x)\n"
          "  \"%5\" = Softmax <axis = -1> (\"%3\")\n"
          "  [soft] a = Reshape (\"%5\", \"%4\")\n");
  }
  SECTION("dropout's ratio becomes an input, and outputs tell whether statistics move") {
    ModelProto m = model(10);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {2, 3});
    for (const char* n : {"s", "b", "m", "v"}) add_input(g, n, {3});
    add_attr(add_node(g, "Dropout", {"x"}, {"d"}), "ratio", 1).set_f(0.25);
    NodeProto& norm = add_node(g, "BatchNormalization", {"d", "s", "b", "m", "v"}, {"y"});
    add_attr(norm, "spatial", 2).set_i(1);
    add_node(g, "BatchNormalization", {"d", "s", "b", "m", "v"}, {"t", "tm", "tv", "sm", "sv"});
    CHECK(nodes_of(m) ==
          "  \"%5\" = Constant <value = float {0.25}> ()\n"
          "  d = Dropout (x, \"%5\")\n"
          "  y = BatchNormalization <training_mode = 0> (d, s, b, m, v)\n"
          "  t, tm, tv = BatchNormalization <training_mode = 1> (d, s, b, m, v)\n");
  }
  SECTION("split counts its outputs") {
    ModelProto m = model(13);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {4});
    add_node(g, "Split", {"x"}, {"a", "b"});
    CHECK(nodes_of(m) == "  a, b = Split <num_outputs = 2> (x)\n");
  }
  SECTION("a transform was along axis 1") {
    ModelProto m = model(17);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {2, 3, 4, 1});
    add_node(g, "DFT", {"x"}, {"a"});
    CHECK(nodes_of(m) ==
          "  \"%1\" = Constant <value = int64 {1}> ()\n"
          "  a = DFT (x, \"\", \"%1\")\n");
  }
  SECTION("the coordinates of regions were whole at the centres of elements") {
    ModelProto m = model(15);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {1, 1, 3, 3});
    add_input(g, "r", {1, 4});
    add_input(g, "i", {1});
    g.mutable_input(2)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
    add_node(g, "RoiAlign", {"x", "r", "i"}, {"a"});
    CHECK(nodes_of(m) ==
          "  a = RoiAlign <coordinate_transformation_mode = \"output_half_pixel\"> (x, r, i)\n");
  }
  SECTION("the newest is left as it is") {
    ModelProto m = model(20);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {2, 3, 4});
    add_node(g, "Softmax", {"x"}, {"a"});
    NodeProto& constant = add_node(g, "Constant", {}, {"c"});
    add_attr(constant, "value_ints", 7).add_ints(3);
    CHECK(nodes_of(m) == "  a = Softmax (x)\n  c = Constant <value = int64[1] {3}> ()\n");
  }
}

TEST_CASE("nodes of opsets before 7 become those of the current opset") {
  ModelProto m = model(6);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2, 3, 4});
  add_input(g, "b", {3});
  add_input(g, "c", {4});
  NodeProto& along = add_node(g, "Add", {"x", "b"}, {"y"});
  add_attr(along, "axis", 2).set_i(1);
  add_attr(along, "broadcast", 2).set_i(1);
  NodeProto& last = add_node(g, "Add", {"x", "c"}, {"z"});
  add_attr(last, "broadcast", 2).set_i(1);
  CHECK(nodes_of(m) ==
        "  \"%3\" = Constant <value = int64[1] {1}> ()\n  \"%4\" = Unsqueeze (b, \"%3\")\n"
        "  y = Add (x, \"%4\")\n  z = Add (x, c)\n");
  along.mutable_attribute(0)->set_i(3);
  CHECK(failure(m) ==
        "m.onnx: Add 'y': axis: expected operand 1 of rank 1 to fit operand 0 of rank 3 from axis "
        "3");
}

TEST_CASE("an opset out of range is refused") {
  CHECK(failure(model(0)) ==
        "m.onnx: the graph: expected an opset of ONNX from 1 to 28, received 0");
  CHECK(failure(model(29)).find("received 29") != std::string::npos);
}

TEST_CASE("a model's nodes are held to limits") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  NodeProto& node = add_node(g, "LeakyRelu", {"x"}, {"y"});
  const auto refuses = [&](const std::string& why) {
    INFO(why);
    CHECK(failure(m) == "m.onnx: LeakyRelu 'y': " + why);
  };
  SECTION("operands") {
    for (size_t i = 0; i < limits::kOperands; ++i) node.add_input("x");
    refuses("expected at most 65536 operands and 256 attributes");
  }
  SECTION("outputs") {
    for (size_t i = 0; i < limits::kOperands; ++i) node.add_output("");
    refuses("expected at most 65536 operands and 256 attributes");
  }
  SECTION("attributes") {
    for (size_t i = 0; i <= limits::kAttributes; ++i) add_attr(node, cat("a", i), 2).set_i(1);
    refuses("expected at most 65536 operands and 256 attributes");
  }
  SECTION("an attribute twice") {
    add_attr(node, "alpha", 1).set_f(1);
    add_attr(node, "alpha", 1).set_f(2);
    refuses("the attribute 'alpha' is given twice");
  }
  SECTION("an attribute's name") {
    add_attr(node, "two words", 2).set_i(1);
    refuses("expected an attribute's name, received 'two words'");
  }
  SECTION("an attribute's name that the graph uses itself") {
    add_attr(node, "device", 3).set_s("cpu");
    refuses("expected an attribute's name, received 'device'");
  }
  SECTION("a long list") {
    AttributeProto& ints = add_attr(node, "a", 7);
    for (size_t i = 0; i <= limits::kListLength; ++i) ints.add_ints(1);
    refuses("the attribute 'a' is too long");
  }
  SECTION("a long string") {
    add_attr(node, "a", 3).set_s(std::string(limits::kStringLength + 1, 'a'));
    refuses("the attribute 'a' is too long");
  }
  SECTION("a long string of a list") {
    add_attr(node, "a", 8).add_strings(std::string(limits::kStringLength + 1, 'a'));
    refuses("the attribute 'a' is too long");
  }
}

TEST_CASE("graphs in a model's graphs are held to a limit") {
  const auto nested = [](int depth) {
    ModelProto m = model(20);
    GraphProto* g = m.mutable_graph();
    add_input(*g, "x", {1});
    for (int i = 0; i < depth; ++i) {
      GraphProto* body = add_attr(add_node(*g, "Loop", {}, {"y"}), "body", 5).mutable_g();
      g->add_output()->set_name("y");
      body->set_name("b");
      g = body;
    }
    add_node(*g, "Relu", {"x"}, {"y"});
    g->add_output()->set_name("y");
    return m;
  };
  const Result<OnnxModel> deep = import(nested(limits::kNesting));
  INFO(deep.status());
  CHECK(deep.ok());
  CHECK(failure(nested(limits::kNesting + 1)) ==
        "m.onnx: the graph: expected at most 16 nested graphs");
}

TEST_CASE("a value of more dimensions than a tensor has is refused") {
  ModelProto m = model(20);
  add_input(*m.mutable_graph(), "x", {1, 1, 1, 1, 1, 1, 1, 1, 2});
  add_node(*m.mutable_graph(), "Relu", {"x"}, {"y"});
  CHECK(failure(m).ends_with("the value 'x': expected at most 8 dimensions, got 9"));
}

TEST_CASE("versions and attributes that no upgrade knows are refused") {
  SECTION("another version of the ops of leat") {
    ModelProto m = model(20);
    auto* import = m.add_opset_import();
    import->set_domain("leat");
    import->set_version(2);
    CHECK(failure(m) == "m.onnx: the graph: expected version 1 of the opset leat, received 2");
  }
  SECTION("an old broadcast of operands whose shapes are not there") {
    ModelProto m = model(6);
    add_input(*m.mutable_graph(), "x", {2, 3, 4});
    add_node(*m.mutable_graph(), "Relu", {"x"}, {"b"});
    add_attr(add_node(*m.mutable_graph(), "Add", {"x", "b"}, {"y"}), "axis", 2).set_i(1);
    CHECK(failure(m) ==
          "m.onnx: Add 'y': 'axis' of opset 6: expected operands whose shapes the file declares");
  }
  SECTION("axes that are no numbers") {
    ModelProto m = model(11);
    add_input(*m.mutable_graph(), "x", {1, 2});
    add_attr(add_node(*m.mutable_graph(), "Squeeze", {"x"}, {"y"}), "axes", 8).add_strings("0");
    CHECK(failure(m) ==
          "m.onnx: Squeeze 'y': the attribute 'axes': expected numbers, received strings");
  }
  SECTION("statistics of each position") {
    ModelProto m = model(6);
    for (const char* name : {"x", "scale", "bias", "mean", "var"})
      add_input(*m.mutable_graph(), name, {2});
    add_attr(add_node(*m.mutable_graph(), "BatchNormalization",
                      {"x", "scale", "bias", "mean", "var"}, {"y"}),
             "spatial", 2)
        .set_i(0);
    CHECK(failure(m) ==
          "m.onnx: BatchNormalization 'y': BatchNormalization with spatial = 0 is not supported");
  }
}

TEST_CASE("weights become variables for training, statistics ones that are not trained") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2, 1});
  add_floats(g, "gamma", {1});
  add_floats(g, "mean", {0});
  add_node(g, "BatchNormalization", {"x", "gamma", "gamma", "mean", "mean"}, {"y"});
  const std::string text = nodes_of(m, {.trainable = true});
  CHECK(text.find(
            "= leat.Variable <dtype = \"float\", name = \"gamma\", shape = [1], trainable = 1>") !=
        std::string::npos);
  CHECK(text.find("name = \"mean\", shape = [1], trainable = 0>") != std::string::npos);
  CHECK(text.find("name = \"mean/running_var\", shape = [1], trainable = 0>") != std::string::npos);
  CHECK(text.find("gamma = leat.Read") != std::string::npos);
  CHECK(text.find("= leat.Initialize (") != std::string::npos);
}

TEST_CASE("a model to train comes with a note of what is trained, one to run with none") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {1, 1, 4, 4});
  add_floats(g, "w", {1});
  add_node(g, "Conv", {"x", "w"}, {"y"});
  const Result<OnnxModel> read = import(m, {.trainable = true});
  REQUIRE(read.ok());
  // A convolution alone does not indicate a BatchNormalization that was folded into it.
  CHECK(read->notes == std::vector<std::string>{"m.onnx: trains 1 variable of 1 values in all"});
  const Result<OnnxModel> constant = import(m);
  REQUIRE(constant.ok());
  CHECK(constant->notes.empty());
}

TEST_CASE("regions use names from around them") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_node(g, "leat.None", {}, {}).set_op_type("Relu");
  g.mutable_node(0)->add_input("x");
  g.mutable_node(0)->add_output("c");
  NodeProto& node = add_node(g, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    GraphProto& branch = *add_attr(node, name, 5).mutable_g();
    branch.set_name(name);
    add_node(branch, "Relu", {"x"}, {"r"});
    branch.add_output()->set_name("r");
  }
  CHECK(nodes_of(m).find("y = If (c, x) <captures = 1, else_branch = else_branch (x) => (r) {") !=
        std::string::npos);
}

TEST_CASE("weights of regions become variables that the regions capture") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_node(g, "Relu", {"x"}, {"c"});
  NodeProto& node = add_node(g, "If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    GraphProto& branch = *add_attr(node, name, 5).mutable_g();
    branch.set_name(name);
    add_floats(branch, "w", {1, 2});
    add_node(branch, "Add", {"x", "w"}, {"r"});
    branch.add_output()->set_name("r");
  }
  const std::string text = nodes_of(m, {.trainable = true});
  INFO(text);
  CHECK(text.find("w = leat.Read") != std::string::npos);
  CHECK(text.find("w_2 = leat.Read") != std::string::npos);
  CHECK(text.find("else_branch = else_branch (x, w, w_2) => (r) {") != std::string::npos);
  CHECK(text.find("r = Add (x, w_2)") != std::string::npos);
  // A model to run keeps them where they are.
  CHECK(nodes_of(m).find("else_branch = else_branch (x) => (r) {") != std::string::npos);
}

// Branches see nothing of each other, so both may have a value of one name.
TEST_CASE("a weight of a region gives way to a value of another region") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_node(g, "Relu", {"x"}, {"c"});
  NodeProto& node = add_node(g, "If", {"c"}, {"y"});
  for (const std::string name : {"then_branch", "else_branch"}) {
    GraphProto& branch = *add_attr(node, name, 5).mutable_g();
    branch.set_name(name);
    if (name == "then_branch")
      add_floats(branch, "w", {1, 2});
    else
      add_node(branch, "Relu", {"x"}, {"w"});
    add_node(branch, "Add", {"x", "w"}, {"r"});
    branch.add_output()->set_name("r");
  }
  const std::string text = nodes_of(m, {.trainable = true});
  INFO(text);
  CHECK(text.find("w_2 = leat.Read") != std::string::npos);
  CHECK(text.find("r = Add (x, w_2)") != std::string::npos);
  CHECK(text.find("w = Relu (x)") != std::string::npos);
}

TEST_CASE("a region's inputs need no types") {
  ModelProto m = model(20);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  NodeProto& node = add_node(g, "Loop", {"", "", "x"}, {"y"});
  GraphProto& body = *add_attr(node, "body", 5).mutable_g();
  body.set_name("body");
  for (const char* name : {"i", "go", "v"}) {
    auto& input = *body.add_input();
    input.set_name(name);
    input.mutable_type()->mutable_tensor_type()->set_elem_type(1);
  }
  add_node(body, "Relu", {"v"}, {"w"});
  body.add_output()->set_name("go");
  body.add_output()->set_name("w");
  const std::string text = nodes_of(m);
  INFO(text);
  CHECK(text.find("<body = body (i, go, v) => (go, w) {") != std::string::npos);
}

TEST_CASE("the bound of a Loop comes from its metadata") {
  const auto with = [](const std::string& bound) {
    ModelProto m = model(20);
    GraphProto& g = *m.mutable_graph();
    add_input(g, "x", {2});
    NodeProto& node = add_node(g, "Loop", {"", "", "x"}, {"y"});
    GraphProto& body = *add_attr(node, "body", 5).mutable_g();
    body.set_name("body");
    for (const char* name : {"i", "go", "v"}) body.add_input()->set_name(name);
    add_node(body, "Relu", {"v"}, {"w"});
    body.add_output()->set_name("go");
    body.add_output()->set_name("w");
    auto& property = *node.add_metadata_props();
    property.set_key("leat.bound");
    property.set_value(bound);
    g.add_output()->set_name("y");
    return m;
  };
  CHECK(nodes_of(with("16")).find("bound = 16") != std::string::npos);
  const Result<OnnxModel> refused = import(with("16 times"));
  REQUIRE(!refused.ok());
  CHECK(refused.status().message().find(
            "leat.bound: expected a number of iterations, received '16 times'") !=
        std::string::npos);
}

TEST_CASE("external data is read from the model's directory and from nowhere else") {
  TemporaryDirectory dir;
  const std::string root = dir.path() + "/model";
  std::filesystem::create_directories(root + "/data");
  const float floats[] = {0, 1, 2, 3};
  const auto bytes = std::as_bytes(std::span(floats));
  REQUIRE(write_file_atomically(real_files(), root + "/data/w.bin", bytes).ok());
  REQUIRE(write_file_atomically(real_files(), dir.path() + "/secret.bin", bytes).ok());
  std::filesystem::create_symlink(dir.path() + "/secret.bin", root + "/link.bin");

  ModelProto m = model(20);
  TensorProto& t = *m.mutable_graph()->add_initializer();
  t.set_name("w");
  t.set_data_type(1);
  t.add_dims(2);
  t.set_data_location(1);
  const auto read = [&](const std::string& location, const std::string& offset,
                        const std::string& length) {
    t.clear_external_data();
    for (const auto& [key, value] : std::map<std::string, std::string>{
             {"location", location}, {"offset", offset}, {"length", length}}) {
      auto* entry = t.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    const std::string model = m.SerializeAsString();
    REQUIRE(write_file_atomically(real_files(), root + "/m.onnx", std::as_bytes(std::span(model)))
                .ok());
    return import_onnx_file(real_files(), root + "/m.onnx", ops());
  };
  const Result<OnnxModel> good = read("data/w.bin", "4", "8");
  INFO(good.status().message());
  REQUIRE(good.ok());
  CHECK(std::get<Tensor>(good->graph.node(0).attrs.at("value"))
            .identical(Tensor::of<float>({2}, {1, 2})));
  for (const char* location :
       {"../secret.bin", "link.bin", "data/../../secret.bin", "", "/etc/passwd"}) {
    INFO(location);
    CHECK(read(location, "0", "8").status().message().find("inside of the model's directory") !=
          std::string::npos);
  }
  CHECK(read("data/w.bin", "12", "8").status().message().find("which has 16") != std::string::npos);
  CHECK(read("data/w.bin", "18446744073709551615", "8").status().code() == Code::invalid_argument);
  CHECK(read("data/w.bin", "0", "9").status().code() == Code::invalid_argument);
  CHECK(read("data/w.bin", "x", "8").status().code() == Code::invalid_argument);
  CHECK(failure(m).find("lies in another file") != std::string::npos);
}

TEST_CASE("constants that a file names over and over are refused before they are read") {
  const TemporaryDirectory dir;
  const std::string data = dir.path() + "/w.bin", path = dir.path() + "/m.onnx";
  REQUIRE(write_file_atomically(real_files(), data, Bytes(1)).ok());
  std::filesystem::resize_file(data, uint64_t{1} << 30);  // a hole uses no disk space
  ModelProto m = model(20);
  for (int i = 0; i < 17; ++i) {
    TensorProto& t = *m.mutable_graph()->add_initializer();
    t.set_name("w" + std::to_string(i));
    t.set_data_type(1);
    t.add_dims(int64_t{1} << 28);
    t.set_data_location(1);
    auto* entry = t.add_external_data();
    entry->set_key("location");
    entry->set_value("w.bin");
  }
  const std::string text = m.SerializeAsString();
  REQUIRE(write_file_atomically(real_files(), path, std::as_bytes(std::span(text))).ok());
  CHECK(import_onnx_file(real_files(), path, ops())
            .status()
            .message()
            .ends_with("tensor 'w16': expected at most 16.0 GiB of constants in all, with it there "
                       "are 17.0 GiB"));
}

TEST_CASE("no cut model and no flipped bit crashes the importer") {
  ModelProto m = model(11);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2, -1, 4});
  add_floats(g, "w", {1, 2});
  add_node(g, "Softmax", {"x"}, {"a"});
  add_ints(add_node(g, "Squeeze", {"a"}, {"b"}), "axes", {1});
  const std::string bytes = m.SerializeAsString();
  size_t read = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::string cut = bytes.substr(0, n);
    read += import_onnx(std::as_bytes(std::span(cut)), ops(), "m", {.trainable = true}).ok();
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[n] = static_cast<char>(flipped[n] ^ (1 << bit));
      const auto result =
          import_onnx(std::as_bytes(std::span(flipped)), ops(), "m", {.trainable = true});
      if (result.ok()) CHECK_FALSE(print_graph(result->graph).empty());
      read += result.ok();
    }
  }
  CHECK(read > 0);
}

}  // namespace leat::onnx_testing

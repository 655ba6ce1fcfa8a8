#include "tests/catch.h"
#include "tests/ops/job_testing.h"

namespace leat {
namespace {

using testing::TestJob;

TEST_CASE("a variable starts as zeros and keeps what is assigned to it") {
  TestJob job;
  const ValueId r = job.variable("w", DType::f32, {2, 3});
  const ValueId read = job.add("leat.Read", {r});
  const ValueId value = job.input("value", DType::f32, {2, 3});
  const NodeId assign = job.add_node("leat.Assign", {r, value});
  const NodeId initialize = job.add_node("leat.Initialize", {r, value});
  testing::check_identical(job.run({}, {read})[0], Tensor(DType::f32, {2, 3}));
  const auto a = testing::random_tensor(DType::f32, {2, 3}, 1);
  const auto b = testing::random_tensor(DType::f32, {2, 3}, 2);
  job.run({{value, a}}, {}, {initialize});
  testing::check_identical(job.run({}, {read})[0], a);
  job.run({{value, b}}, {}, {assign});
  testing::check_identical(job.run({}, {read})[0], b);
}

TEST_CASE("Read gives the interpreter a copy") {
  TestJob job;
  const ValueId read = job.add("leat.Read", {job.variable("w", DType::f32, {4})});
  const Tensor before = job.run({}, {read})[0];
  job.state("w", DType::f32, {4}).set(0, 7);
  CHECK(before.at(0) == 0);
  CHECK(job.run({}, {read})[0].at(0) == 7);
}

TEST_CASE("two variable nodes of one name are one variable") {
  TestJob job;
  const ValueId one = job.variable("w", DType::i64, {});
  const ValueId two = job.variable("w", DType::i64, {});
  const ValueId value = job.input("value", DType::i64, {});
  job.run({{value, Tensor::scalar<int64_t>(5)}}, {}, {job.add_node("leat.Assign", {one, value})});
  CHECK(job.run({}, {job.add("leat.Read", {two})})[0].int_at(0) == 5);
}

TEST_CASE("two variable nodes of one name must agree on dtype and shape") {
  TestJob job;
  const ValueId one = job.add("leat.Read", {job.variable("w", DType::f32, {2})});
  const ValueId two = job.add("leat.Read", {job.variable("w", DType::f32, {3})});
  job.run({}, {one});
  const auto result = job.try_run({}, {two});
  REQUIRE(!result.ok());
  CHECK(result.status().code() == Code::failed_precondition);
  CHECK(result.status().message().find("variable 'w'") != std::string::npos);
}

TEST_CASE("control edges order writes after one another and reads after writes") {
  TestJob job;
  const ValueId r = job.variable("w", DType::f32, {});
  const ValueId value = job.input("value", DType::f32, {});
  const ValueId read = job.add("leat.Read", {r});
  const NodeId assign = job.add_node("leat.Assign", {r, value}, {}, 1);
  const NodeId add = job.add_node("leat.AssignAdd", {r, value}, {}, 1);
  job.graph.node(add).after = {assign};
  job.graph.node(job.graph.value(read).producer).after = {add};
  CHECK(job.run({{value, Tensor::scalar(1.5f)}}, {read})[0].at(0) == 3.0);
  CHECK(job.graph.value(job.graph.node(add).outputs[0]).type.kind == ValueKind::token);
}

TEST_CASE("AssignAdd adds every element of every number type, over several tiles") {
  for (int t = 1; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    if (!kNumbers.has(dtype)) continue;
    INFO(dtype);
    const Shape shape{2, 40'000};
    for (const bool reverse : {false, true}) {
      TestJob job;
      job.reverse_tiles = reverse;
      const ValueId r = job.variable("w", dtype, {2, 40'000});
      const ValueId value = job.input("value", dtype, shape);
      const NodeId add = job.add_node("leat.AssignAdd", {r, value});
      const Tensor a = testing::random_tensor(dtype, shape, 1, 0, 50);
      Tensor expected(dtype, shape);
      for (int64_t i = 0; i < a.elements(); ++i) expected.set(i, a.at(i) + a.at(i));
      job.run({{value, a}}, {}, {add});
      job.run({{value, a}}, {}, {add});
      testing::check_identical(job.state("w", dtype, shape), expected);
    }
  }
}

TEST_CASE("a write whose guard is NaN leaves the variable as it is") {
  for (const auto* op : {"leat.Assign", "leat.AssignAdd", "leat.Initialize"}) {
    INFO(op);
    TestJob job;
    const ValueId r = job.variable("w", DType::f32, {2});
    const ValueId value = job.input("value", DType::f32, {2});
    const ValueId guard = job.input("guard", DType::f32, {});
    const NodeId write = job.add_node(op, {r, value, guard});
    const Tensor one = Tensor::of<float>({2}, {1, 2}), other = Tensor::of<float>({2}, {5, 6});
    job.run({{value, one}, {guard, Tensor::scalar(0.0f)}}, {}, {write});
    job.run({{value, other}, {guard, Tensor::scalar(NAN)}}, {}, {write});
    testing::check_identical(job.state("w", DType::f32, {2}), one);
  }
}

TEST_CASE("AssignAdd of integers wraps around") {
  TestJob job;
  const ValueId r = job.variable("w", DType::i32, {1});
  job.state("w", DType::i32, {1}).data<int32_t>()[0] = INT32_MAX;
  const ValueId value = job.input("value", DType::i32, {1});
  job.run({{value, Tensor::of<int32_t>({1}, {2})}}, {},
          {job.add_node("leat.AssignAdd", {r, value})});
  CHECK(job.state("w", DType::i32, {1}).data<int32_t>()[0] == INT32_MIN + 1);
}

TEST_CASE("a variable without elements can be read and written") {
  TestJob job;
  const ValueId r = job.variable("empty", DType::f32, {0, 3});
  const ValueId value = job.input("value", DType::f32, {0, 3});
  job.run({{value, Tensor(DType::f32, {0, 3})}}, {}, {job.add_node("leat.AssignAdd", {r, value})});
  CHECK(job.run({}, {job.add("leat.Read", {r})})[0].shape() == Shape{0, 3});
}

// Returns the gate's answer to a graph of one variable and one more node.
std::string refusal(TestJob& job) {
  const Status status = validate(job.graph);
  REQUIRE(!status.ok());
  CHECK(status.code() == Code::invalid_argument);
  return status.message();
}

TEST_CASE("a variable's attributes are checked") {
  const auto message = [](Attrs attrs) {
    TestJob job;
    job.add("leat.Variable", {}, std::move(attrs));
    return refusal(job);
  };
  const std::vector<int64_t> scalar;
  CHECK(message({{"shape", scalar}}).find("'name'") != std::string::npos);
  CHECK(message({{"name", std::string("w")}}).find("'shape'") != std::string::npos);
  CHECK(message({{"name", std::string()}, {"shape", scalar}}).find("1 to 1024 bytes") !=
        std::string::npos);
  CHECK(message({{"name", std::string(1025, 'x')}, {"shape", scalar}}).find("received 1025") !=
        std::string::npos);
  CHECK(message({{"name", std::string("w")}, {"shape", scalar}, {"dtype", std::string("f32")}})
            .find("received 'f32'") != std::string::npos);
  CHECK(message({{"name", std::string("w")}, {"shape", std::vector<int64_t>{2, -1}}})
            .find("[2,-1]") != std::string::npos);
  CHECK(message({{"name", std::string("w")}, {"shape", std::vector<int64_t>(9, 1)}})
            .find("at most 8") != std::string::npos);
}

TEST_CASE("a variable whose bytes do not fit a number is refused") {
  cpu::CpuDevice device(0, 1);
  JobResources resources(device);
  const Status status = resources.variable("w", DType::f64, Shape{int64_t{1} << 61}, true).status();
  CHECK(status.code() == Code::resource_exhausted);
  CHECK(status.message() == "variable 'w': [2305843009213693952] is too large");
}

TEST_CASE("a value must have its variable's dtype and shape") {
  for (const auto* op : {"leat.Assign", "leat.Initialize", "leat.AssignAdd"}) {
    INFO(op);
    TestJob shapes;
    const ValueId r = shapes.variable("w", DType::f32, {2, 3});
    shapes.add_node(op, {r, shapes.input("value", DType::f32, {3, 2})});
    CHECK(refusal(shapes).find("expected float[2,3] as the variable is, received float[3,2]") !=
          std::string::npos);
    TestJob dtypes;
    const ValueId q = dtypes.variable("w", DType::f32, {2});
    dtypes.add_node(op, {q, dtypes.input("value", DType::f64, {2})});
    CHECK(refusal(dtypes).find("received double[2]") != std::string::npos);
  }
}

TEST_CASE("a symbolic size passes the gate and is checked when the kernel is made") {
  TestJob job;
  const ValueId r = job.variable("w", DType::f32, {2});
  const ValueId value = job.graph.add_input(
      "value", testing::tensor_type(DType::f32, {Dim::of_symbol(job.graph.symbol("N"))}));
  const NodeId assign = job.add_node("leat.Assign", {r, value});
  REQUIRE(validate(job.graph).ok());
  CHECK(job.try_run({{value, Tensor(DType::f32, {2})}}, {}, {assign}).ok());
  CHECK(job.try_run({{value, Tensor(DType::f32, {3})}}, {}, {assign}).status().code() ==
        Code::invalid_argument);
  // The kernel checks its operands itself, too.
  OpTypes types;
  types.inputs = {{DType::f32, {2}, Layout::plain, ValueKind::resource, true},
                  {DType::f32, {3}, Layout::plain, ValueKind::tensor, true}};
  const Attrs none;
  types.attrs = &none;
  KernelSetup setup;
  setup.types = types;
  setup.subject = "Assign 'a'";
  const auto kernel = testing::test_catalogue().find("leat.Assign")->kernels.at("cpu")(setup);
  REQUIRE(!kernel.ok());
  CHECK(kernel.status().message() ==
        "Assign 'a': input 1: expected float[2] as the variable is, received float[3]");
}

TEST_CASE("a tensor is no variable") {
  TestJob job;
  job.add("leat.Read", {job.input("x", DType::f32, {2})});
  CHECK(refusal(job).find("expected a resource, received a tensor") != std::string::npos);
}

TEST_CASE("a variable is made from its attributes alone") {
  TestJob job;
  const OpDef& op = *testing::test_catalogue().find("leat.Variable");
  const Attrs attrs =
      with_defaults(op, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{2, 3}}});
  KernelSetup setup;
  setup.types.attrs = &attrs;
  setup.resources = &job.resources;
  REQUIRE(op.make_resource(setup).ok());
  const Variable* made = job.resources.find_variable("w");
  REQUIRE(made);
  CHECK(made->dtype() == DType::f32);
  CHECK(made->shape() == Shape{2, 3});
  CHECK(made->trainable());
}

TEST_CASE("a variable without a job's resources is refused") {
  TestJob job;
  const ValueId read = job.add("leat.Read", {job.variable("w", DType::f32, {2})});
  REQUIRE(validate(job.graph).ok());
  const auto result = interpret(job.graph, {}, {read});
  REQUIRE(!result.ok());
  CHECK(result.status().code() == Code::failed_precondition);
}

}  // namespace
}  // namespace leat

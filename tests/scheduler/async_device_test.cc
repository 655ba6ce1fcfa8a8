// Runs plans on a device that works asynchronously and has a memory of its own.
#include "tests/async_device.h"

#include <map>
#include <set>

#include "ops/text/parse.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

using testing::async_catalogue;
using testing::AsyncDevice;

const PlanDevice kGpu{"job:worker/task:0/gpu:0", std::string(AsyncDevice::kKind), 0, 256};

TEST_CASE("an asynchronous device gives the CPU's results, and the host waits only to look") {
  const Catalogue catalogue = async_catalogue();
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{64});
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{64}}});
  // Ops that a plan for accelerators does not make one.
  const ValueId y = g.op("Tanh", {g.op("Softmax", {g.op("Add", {x, g.op("leat.Read", {w})})})});
  const NodeId add = g.effect("leat.AssignAdd", {w, y});
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {add}};
  request.devices = {kGpu};
  const Plan plan = must(compile(graph, request));

  const bool records = GENERATE(true, false);
  testing::AsyncDeviceOptions options;
  options.records = records;
  AsyncDevice device(options);
  cpu::CpuDevice host(0, 1);
  JobResources resources(device), host_resources(host);
  auto program = must(Program::create(plan, 0, device, resources, {}));
  auto expected_program = must(Program::create(plan, 0, host, host_resources, {}));
  cpu::Pool pool(1);
  Run run(*program, pool, {}), expected(*expected_program, host.pool(), {});
  Awaited awaited;
  for (uint64_t step = 0; step < 5; ++step) {
    Tensor input(DType::f32, Shape{64});
    for (int i = 0; i < 64; ++i) input.set(i, i * 0.01 + static_cast<double>(step));
    must(run.set_feed(0, input));
    must(expected.set_feed(0, input));
    expected.extend(step + 1);
    REQUIRE(expected.advance(awaited));
    // While the device is held, the cursor has issued its work and waits only for the queue.
    device.queue().hold(true);
    run.extend(step + 1);
    CHECK(!run.advance(awaited));
    CHECK(awaited.timeline == &device.queue(QueueFor::copies_out).timeline());
    CHECK(run.turns() == step);
    device.queue().hold(false);
    must(awaited.timeline->wait(awaited.value, soon()));
    while (!run.advance(awaited)) must(awaited.timeline->wait(awaited.value, soon()));
    CHECK(run.turns() == step + 1);
    CHECK(run.fetched(0, step).identical(expected.fetched(0, step)));
  }
  // Each parity runs its kernels one by one in its first step.
  CHECK(device.queue().recordings_enqueued() == (records ? 3u : 0u));
}

// The devices of one task: what a node needs decides where it goes.
const std::vector<PlanDevice> kTask = {{"job:worker/task:0/cpu:0"}, kGpu};

CompileRequest request_on_task(const Graph& graph) {
  CompileRequest request;
  request.borders.feeds = graph.inputs();
  request.borders.fetches = graph.outputs();
  request.devices = kTask;
  return request;
}

// By op: the last parts of the devices that run it.
std::map<std::string, std::set<std::string>> places_of(const Plan& plan) {
  std::map<std::string, std::set<std::string>> places;
  for (const Partition& partition : plan.partitions) {
    const std::string word = partition.device.substr(partition.device.rfind('/') + 1);
    for (const PlanInstruction& instruction : partition.instructions)
      if (instruction.op) places[instruction.op->full_name()].insert(word);
    for (const PlanResource& resource : partition.resources)
      places[resource.op->full_name()].insert(word);
  }
  return places;
}

using Words = std::set<std::string>;

TEST_CASE("nodes go to the accelerator, and what it has no kernel for goes to the CPU") {
  const Catalogue catalogue = async_catalogue({"Tanh"});
  const Graph graph = must(parse_graph(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
g (float[64,3] x, int64[2] sizes) => (y, doubled) {
  w = leat.Variable <name = "w", dtype = "float", shape = [3, 3]> ()
  value = leat.Read (w)
  product = MatMul (x, value)
  bent = Tanh (product)
  y = Relu (bent)
  doubled = Add (sizes, sizes)
}
)",
                                       catalogue, "g"));
  CompileRequest request = request_on_task(graph);
  const Plan plan = must(compile(graph, request));
  const auto places = places_of(plan);
  CHECK(places.at("leat.Variable") == Words{"gpu:0"});
  CHECK(places.at("MatMul") == Words{"gpu:0"});
  CHECK(places.at("Tanh") == Words{"cpu:0"});
  CHECK(places.at("Relu") == Words{"gpu:0"});
  CHECK(places.at("Add") == Words{"cpu:0"});  // a few integers
  CHECK(plan.edges.size() == 2);              // to Tanh and back
}

TEST_CASE("a resource of the host keeps its nodes on the CPU") {
  const Catalogue catalogue = async_catalogue();
  const Graph graph = must(parse_graph(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
g (float[4,3] x) => (size) {
  q = leat.Queue <name = "q", capacity = 4, components = ["float[4,3]"]> ()
  [put] = leat.Enqueue (q, x)
  size = leat.QueueSize (q)
}
)",
                                       catalogue, "g"));
  CompileRequest request = request_on_task(graph);
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).op->full_name() == "leat.Enqueue") request.borders.targets.push_back(id);
  }
  const auto places = places_of(must(compile(graph, request)));
  CHECK(places.at("leat.Queue") == Words{"cpu:0"});
  CHECK(places.at("leat.Enqueue") == Words{"cpu:0"});
}

TEST_CASE("a node that is bound to a device without a kernel for it is refused by name") {
  const Catalogue catalogue = async_catalogue({"Tanh"});
  Graph graph = must(parse_graph(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
g (float[4] x) => (y) {
  y = Tanh (x)
}
)",
                                 catalogue, "g"));
  graph.node(0).device = "gpu:0";
  CompileRequest request = request_on_task(graph);
  const Status refused = compile(graph, request).status();
  CHECK(refused.code() == Code::invalid_argument);
  CHECK_THAT(refused.message(), Catch::Contains("expected a device that has a kernel for it, "
                                                "job:worker/task:0/gpu:0 has none (async)"));
}

TEST_CASE("the memory of each device of a task is checked by itself") {
  const Catalogue catalogue = async_catalogue();
  const Graph graph = must(parse_graph(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
g (float[64,64] x) => (y) {
  y = MatMul (x, x)
}
)",
                                       catalogue, "g"));
  CompileRequest request = request_on_task(graph);
  request.devices[0].memory_bytes = 1024;  // the CPU has nothing to do
  must(compile(graph, request));
  request.devices[1].memory_bytes = 1024;
  const Status refused = compile(graph, request).status();
  CHECK(refused.code() == Code::resource_exhausted);
  CHECK_THAT(refused.message(), Catch::Contains("of job:worker/task:0/gpu:0, needs"));
  CHECK_THAT(refused.message(),
             Catch::EndsWith("; the largest are value 'x' of 16.0 KiB, value 'y' "
                             "of 16.0 KiB"));
}

}  // namespace
}  // namespace leat

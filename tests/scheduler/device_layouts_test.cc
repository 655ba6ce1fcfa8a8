// The other layout of devices that are no CPUs: which values of a plan have it, and which plans are
// refused.
#include "devices/base/text.h"
#include "scheduler/plan/plan.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// Kernels for all ops that have one on CPUs. Convolutions of 8 channels want images with the
// channels last, and Relu takes them.
const Catalogue& fast_catalogue() {
  static const Catalogue catalogue = [] {
    Catalogue all = standard_catalogue();
    std::vector<std::string> names;
    for (const OpDef* op : all.all()) {
      if (op->kernels.contains("cpu")) names.push_back(op->full_name());
    }
    for (const std::string& name : names)
      all.add_kernel(name, "fast", all.find(name)->kernels.at("cpu"));
    all.add_layouts("Conv", "fast", [](const OpTypes& types) {
      return types.inputs[0].shape[1] == 8 ? LayoutSupport{1, 1, true} : LayoutSupport{};
    });
    all.add_layouts("Relu", "fast", [](const OpTypes&) { return LayoutSupport{1, 1, false}; });
    return all;
  }();
  return catalogue;
}

// y = Conv(Relu(Conv(x))), with so many channels.
Result<Plan> plan_of(int64_t channels, const char* kind) {
  Graph graph(fast_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{2, channels, 6, 6});
  const ValueId w = g.input("w", DType::f32, Shape{channels, channels, 3, 3});
  const ValueId a = g.named(g.op("Conv", {x, w}), "a");
  const ValueId y = g.named(g.op("Conv", {g.named(g.op("Relu", {a}), "r"), w}), "y");
  must(g.status());
  CompileRequest request;
  request.borders = {{x, w}, {y}, {}};
  request.devices = {{"job:worker/task:0/cpu:0"}, {"job:worker/task:0/gpu:0", kind}};
  return compile(graph, request);
}

const Partition& on_device(const Plan& plan) {
  for (const Partition& partition : plan.partitions) {
    if (partition.device.ends_with("gpu:0")) return partition;
  }
  return plan.partitions.front();
}

struct Found {
  size_t reorders = 0, last = 0;
};
Found found_in(const Partition& partition) {
  Found found;
  for (const PlanInstruction& i : partition.instructions)
    found.reorders += i.op && i.op->full_name() == "leat.Reorder";
  for (const PlanValue& value : partition.values)
    found.last += value.type.layout == Layout::channels_last;
  return found;
}

}  // namespace

TEST_CASE("convolutions of a device have their images in its layout, and all between them") {
  const Plan plan = must(plan_of(8, "fast"));
  const Found found = found_in(on_device(plan));
  // x is reordered, and y back; the Relu is a part of its convolution or has the layout, too.
  CHECK(found.reorders == 2);
  CHECK(found.last >= 3);
  CHECK(found_in(on_device(must(plan_of(4, "fast")))).reorders == 0);
}

TEST_CASE("a plan whose layouts do not fit its ops is refused") {
  Plan plan = must(plan_of(8, "fast"));
  for (Partition& partition : plan.partitions) {
    for (const PlanInstruction& i : partition.instructions) {
      if (!i.op || i.op->full_name() != "Conv") continue;
      partition.values[i.outputs[0]].type.layout = Layout::plain;
      break;
    }
  }
  CHECK_THAT(verify(plan).message(), Catch::Contains("layout"));
}

}  // namespace leat

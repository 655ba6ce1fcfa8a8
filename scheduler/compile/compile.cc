#include "scheduler/compile/compile.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/device_name.h"
#include "transport/slots.h"

namespace leat {
namespace {

// Describes feeds and fetches in the plan. Their shapes must be known by now.
Status name_borders(const Graph& graph, const Borders& borders, Plan& plan) {
  const auto border = [&](ValueId value) -> Result<PlanBorder> {
    const ValueType& type = graph.value(value).type;
    const auto shape = type.shape.concrete();
    if (!shape || type.kind != ValueKind::tensor) {
      return invalid_argument(
          cat("'", graph.describe(value),
              "': expected a tensor of a concrete shape to feed or fetch, it is ",
              graph.type_text(type)));
    }
    return PlanBorder{graph.describe(value), type.dtype, *shape, 0};
  };
  for (ValueId feed : borders.feeds) {
    LEAT_ASSIGN_OR_RETURN(auto b, border(feed));
    plan.feeds.push_back(std::move(b));
  }
  for (ValueId fetch : borders.fetches) {
    LEAT_ASSIGN_OR_RETURN(auto b, border(fetch));
    plan.fetches.push_back(std::move(b));
  }
  return {};
}

// An ordered part as a partition with its memory.
Result<Partition> lay_out(const Part& part, const Order& ordered, const LayoutChoice& layouts,
                          const PlanDevice& device) {
  LEAT_ASSIGN_OR_RETURN(Partition made, emit(part, ordered, layouts));
  if (device.is_cpu()) form_chains(made);
  LEAT_RETURN_IF_ERROR(lay_out_memory(made, device.alignment));
  return made;
}

// The partition with less memory, if it can be had, where `made` needs more than the device has.
Result<Partition> fit(const Part& part, const Order& ordered, const LayoutChoice& layouts,
                      Partition made, const PlanDevice& device) {
  const uint64_t available = device.memory_bytes;
  const uint64_t fixed = made.memory_bytes() - made.arena_bytes;
  // An eighth is left for data sets and other runs. The arena has gaps: it is larger than what
  // values need at the same time.
  for (const double share : {0.95, 0.85, 0.75, 0.65, 0.55, 0.45, 0.35, 0.25}) {
    if (made.memory_bytes() <= available / 8 * 7 || fixed >= available) break;
    Part smaller = part;
    Order order = ordered;
    LayoutChoice choice = layouts;
    const auto bytes = static_cast<uint64_t>(share * static_cast<double>(available - fixed));
    if (!recompute(smaller, order, choice, bytes)) break;
    LEAT_ASSIGN_OR_RETURN(Partition next, lay_out(smaller, order, choice, device));
    if (next.memory_bytes() < made.memory_bytes()) made = std::move(next);
  }
  return made;
}

// One device's part, from its graph to its instructions.
Result<Partition> plan_part(Part part, const PlanDevice& device) {
  // Passes that change nodes come before the order, and memory last: it depends on the order and on
  // the chains.
  const auto rewrite = [&](auto pass) -> Status {
    LEAT_ASSIGN_OR_RETURN(part.graph,
                          pass(std::move(part.graph), part.borders, part.depth, device.kind));
    return {};
  };
  if (!device.is_cpu()) {
    LEAT_RETURN_IF_ERROR(rewrite(fuse_loss));
    LEAT_RETURN_IF_ERROR(rewrite(lighten));
  }
  LEAT_ASSIGN_OR_RETURN(part.graph, fuse(std::move(part.graph), part.borders, part.depth));
  if (!device.is_cpu()) LEAT_RETURN_IF_ERROR(rewrite(fuse_elementwise));
  LayoutChoice layouts;
  LEAT_ASSIGN_OR_RETURN(part.graph, choose_layouts(std::move(part.graph), part.borders, part.depth,
                                                   layouts, device.kind));
  LEAT_ASSIGN_OR_RETURN(const Order ordered, order(part.graph, part.depth));
  LEAT_ASSIGN_OR_RETURN(Partition made, lay_out(part, ordered, layouts, device));
  if (device.memory_bytes == 0 || made.memory_bytes() <= device.memory_bytes) return made;
  return fit(part, ordered, layouts, std::move(made), device);
}

const PlanDevice& find_device(const std::vector<PlanDevice>& devices, const std::string& name) {
  return *std::find_if(devices.begin(), devices.end(),
                       [&](const PlanDevice& device) { return device.name == name; });
}

// Makes one part at a time, and frees its graph before the next part is made.
Status plan_parts(Graph whole, const Borders& borders, const CompileRequest& request, Plan& plan) {
  std::vector<std::string> names;
  for (const PlanDevice& device : request.devices) names.push_back(device.name);
  LEAT_ASSIGN_OR_RETURN(Partitioned parts, partition(std::move(whole), borders, names));
  // Parts and partitions have the same numbers, which the edges name.
  plan.edges = std::move(parts.edges);
  plan.partitions.reserve(parts.devices().size());
  for (uint32_t i = 0; i < parts.devices().size(); ++i) {
    Part part = parts.make(i);
    for (uint32_t fetch : part.fetch_index) plan.fetches[fetch].partition = i;
    auto made = plan_part(std::move(part), find_device(request.devices, parts.devices()[i]));
    if (!made.ok()) return made.status().while_doing(cat("planning for ", parts.devices()[i]));
    made->tf32 = request.tf32;
    plan.partitions.push_back(std::move(*made));
    plan.partitions.back().feeds.resize(plan.feeds.size(), kNone);
  }
  return {};
}

// The largest things in the device's memory, for people: "variable 'w' of 1.2 GiB, value 'logits'
// of 800 MiB". Values of the arena share its bytes over time, so that their sum is no part of it.
std::string largest_tenants(const Partition& partition) {
  constexpr size_t kNamed = 3;
  struct Tenant {
    const char* what;
    std::string name;
    uint64_t bytes;
  };
  std::vector<Tenant> tenants;
  for (const PlanResource& resource : partition.resources)
    tenants.push_back({"variable", resource.name, resource.bytes});
  for (const PlanValue& value : partition.values) {
    if (value.alias != kNone || !value.type.shape.elements()) continue;
    if (value.home == Home::arena || value.home == Home::pages)
      tenants.push_back({"value", value.name, value.type.bytes()});
    if (value.home == Home::slot)
      tenants.push_back({"received value", value.name, kSlotDepth * value.type.bytes()});
    if (value.home == Home::constant)
      tenants.push_back({"constant", value.name, value.type.bytes()});
  }
  std::stable_sort(tenants.begin(), tenants.end(),
                   [](const Tenant& a, const Tenant& b) { return a.bytes > b.bytes; });
  std::vector<std::string> named;
  for (const Tenant& tenant : tenants) {
    if (named.size() == kNamed || tenant.bytes == 0) break;
    named.push_back(cat(tenant.what, " '", tenant.name, "' of ", human_bytes(tenant.bytes)));
  }
  return join(named, ", ");
}

// Kernels' workspaces are not known yet: a plan that passes may still not fit.
Status check_memory(const Plan& plan, const std::vector<PlanDevice>& devices) {
  for (const Partition& partition : plan.partitions) {
    const uint64_t available = find_device(devices, partition.device).memory_bytes;
    if (available > 0 && partition.memory_bytes() > available) {
      return resource_exhausted(cat("plan '", plan.name, "': expected to fit into ",
                                    human_bytes(available), " of ", partition.device, ", needs ",
                                    human_bytes(partition.memory_bytes()), "; the largest are ",
                                    largest_tenants(partition)));
    }
  }
  return {};
}

// A worker for each task.
std::vector<StrategyWorker> workers_of(const std::vector<PlanDevice>& devices) {
  std::vector<StrategyWorker> workers;
  for (const PlanDevice& device : devices) {
    const std::string task = task_of(device.name);
    if (workers.empty() || workers.back().task != task) workers.push_back({task, {}});
    workers.back().devices.push_back(device.name);
  }
  return workers;
}

// Expands the gradients of the graph. A gradient may be fetched: then the value that takes its
// place is.
Result<Graph> differentiate(Graph graph, Borders& borders) {
  graph.set_outputs(borders.fetches);
  Inference inference(graph);
  LEAT_RETURN_IF_ERROR(inference.run());
  LEAT_RETURN_IF_ERROR(expand_gradients(inference));
  borders.fetches = graph.outputs();
  return graph;
}

}  // namespace

Result<Plan> compile(Graph graph, const CompileRequest& request) {
  Borders borders = request.borders;
  const Catalogue& catalogue = graph.catalogue();
  // Gradients are expanded only for what is left after the first prune(). The second one removes
  // the gradients that nothing reads.
  LEAT_ASSIGN_OR_RETURN(Graph whole, prune(std::move(graph), borders));
  graph = Graph(catalogue);
  const auto& devices = request.devices;
  if (!std::all_of(devices.begin(), devices.end(), [](const auto& d) { return d.is_cpu(); })) {
    LEAT_ASSIGN_OR_RETURN(whole, fuse_attention(std::move(whole), borders));
  }
  whole = fold_transposes(std::move(whole), borders);
  LEAT_ASSIGN_OR_RETURN(whole, differentiate(std::move(whole), borders));
  LEAT_ASSIGN_OR_RETURN(whole, prune(std::move(whole), borders));
  LEAT_ASSIGN_OR_RETURN(whole, leave_branches(std::move(whole), borders));
  LEAT_ASSIGN_OR_RETURN(whole, simplify(std::move(whole), borders));
  LEAT_ASSIGN_OR_RETURN(const Strategy strategy, find_strategy(request.strategy));
  // The next two passes see one replica: the strategy copies what they make to every shard.
  if (strategy.moves_rows(request)) {
    LEAT_ASSIGN_OR_RETURN(whole, sparsify(std::move(whole), borders, request.shards));
  }
  if (request.skips_not_finite) {
    LEAT_ASSIGN_OR_RETURN(whole, guard_writes(std::move(whole), borders));
  }
  LEAT_ASSIGN_OR_RETURN(whole,
                        strategy.apply(whole, borders, {request, workers_of(request.devices)}));
  // The strategy may have made equal nodes, so the graph is simplified once more.
  LEAT_ASSIGN_OR_RETURN(whole, simplify(std::move(whole), borders));
  LEAT_ASSIGN_OR_RETURN(whole, place(std::move(whole), request.devices));
  // A Commit belongs to a device, so devices come first.
  if (request.recoverable) {
    LEAT_ASSIGN_OR_RETURN(whole, add_commits(std::move(whole), borders));
  }
  LEAT_ASSIGN_OR_RETURN(whole, skip_branches(std::move(whole), borders));
  Plan plan;
  plan.name = request.name;
  LEAT_RETURN_IF_ERROR(name_borders(whole, borders, plan));
  LEAT_RETURN_IF_ERROR(plan_parts(std::move(whole), borders, request, plan));
  LEAT_RETURN_IF_ERROR(check_memory(plan, request.devices));
  // A fault here is one of the passes, and no fault of the graph.
  LEAT_RETURN_IF_ERROR(verify(plan));
  return plan;
}

}  // namespace leat

#include "daemon/hosts/partition_recording.h"

#include <algorithm>
#include <thread>

#include "devices/base/text.h"

namespace leat {
namespace {

RecordedNode::Kind kind_of(PlanInstruction::Kind kind) {
  switch (kind) {
    case PlanInstruction::Kind::send:
      return RecordedNode::Kind::send;
    case PlanInstruction::Kind::receive:
      return RecordedNode::Kind::receive;
    case PlanInstruction::Kind::retire:
      return RecordedNode::Kind::retire;
    case PlanInstruction::Kind::fetch:
      return RecordedNode::Kind::fetch;
    case PlanInstruction::Kind::kernel:
      break;
  }
  return RecordedNode::Kind::kernel;
}

std::string op_of(const PlanInstruction& instruction) {
  switch (instruction.kind) {
    case PlanInstruction::Kind::send:
      return "Send";
    case PlanInstruction::Kind::receive:
      return "Receive";
    case PlanInstruction::Kind::retire:
      return "Retire";
    case PlanInstruction::Kind::fetch:
      return "Fetch";
    case PlanInstruction::Kind::kernel:
      break;
  }
  return instruction.op ? instruction.op->full_name() : "";
}

RecordedNode node_of(const Plan& plan, uint32_t partition, const PlanInstruction& instruction) {
  RecordedNode node;
  node.name = instruction.name;
  node.op = op_of(instruction);
  node.kind = kind_of(instruction.kind);
  node.chain = instruction.chain;
  // The value that the node makes; a send or a fetch makes none, and shows the one that it takes.
  const std::vector<uint32_t>& values =
      instruction.outputs.empty() ? instruction.inputs : instruction.outputs;
  if (!values.empty() && values[0] != kNone) {
    const PlanValue& value = plan.partitions[partition].values[values[0]];
    if (value.type.dtype != DType::invalid) node.type = cat(value.type.dtype, value.type.shape);
  }
  const bool transfer = node.kind == RecordedNode::Kind::send ||
                        node.kind == RecordedNode::Kind::receive ||
                        node.kind == RecordedNode::Kind::retire;
  if (transfer && instruction.edge < plan.edges.size()) {
    const PlanEdge& edge = plan.edges[instruction.edge];
    node.edge = instruction.edge;
    node.peer = edge.from == partition ? edge.to : edge.from;
    node.bytes = edge.bytes;
  }
  return node;
}

// Of each instruction, the earlier ones that make the values it takes.
void add_inputs(const Partition& partition, std::vector<RecordedNode>& nodes) {
  std::vector<uint32_t> maker(partition.values.size(), kNone);
  for (size_t i = 0; i < partition.instructions.size(); ++i) {
    const PlanInstruction& instruction = partition.instructions[i];
    std::vector<uint32_t>& inputs = nodes[i].inputs;
    for (const uint32_t value : instruction.inputs) {
      if (value == kNone || maker[value] == kNone) continue;
      if (std::find(inputs.begin(), inputs.end(), maker[value]) == inputs.end())
        inputs.push_back(maker[value]);
    }
    for (const uint32_t value : instruction.outputs)
      if (value != kNone) maker[value] = static_cast<uint32_t>(i);
  }
}

// The two enums have the same order, so that the files of recordings need not know the runtime's.
constexpr bool same(StepEvent::Kind kind, RecordedEvent::Kind as) {
  return static_cast<int>(kind) == static_cast<int>(as);
}
static_assert(same(StepEvent::Kind::kernel, RecordedEvent::Kind::kernel));
static_assert(same(StepEvent::Kind::send, RecordedEvent::Kind::send));
static_assert(same(StepEvent::Kind::receive, RecordedEvent::Kind::receive));
static_assert(same(StepEvent::Kind::retire, RecordedEvent::Kind::retire));
static_assert(same(StepEvent::Kind::fetch, RecordedEvent::Kind::fetch));
static_assert(same(StepEvent::Kind::wait, RecordedEvent::Kind::wait));
static_assert(same(StepEvent::Kind::wake, RecordedEvent::Kind::wake));
static_assert(same(StepEvent::Kind::limit, RecordedEvent::Kind::limit));
static_assert(same(StepEvent::Kind::flush, RecordedEvent::Kind::flush));
static_assert(kNone == kNotRecorded);

}  // namespace

RecordedPartition take_recording(DeviceHost& host, HostedPartition& partition) {
  const StepEvents events = partition.run().recorder().stop();
  const Plan& plan = partition.plan();
  RecordedPartition out;
  out.device = plan.partitions[partition.partition()].device;
  out.plan = plan.name;
  out.partition = partition.partition();
  out.threads = partition.device() == 0 ? static_cast<uint32_t>(host.threads()) : 1;
  out.cores = std::thread::hardware_concurrency();
  out.first_step = partition.run().options().first_step;
  out.first = events.first;
  out.end = std::min(events.end, partition.run().turns());
  out.dropped = events.dropped;
  out.lost_from = events.lost_from;
  for (const PlanInstruction& each : plan.partitions[partition.partition()].instructions)
    out.nodes.push_back(node_of(plan, partition.partition(), each));
  add_inputs(plan.partitions[partition.partition()], out.nodes);
  for (const StepEvent& each : events.events) {
    if (each.turn >= out.end) continue;
    out.events.push_back({each.begin, each.end, each.turn, each.instruction, each.pieces,
                          static_cast<RecordedEvent::Kind>(each.kind), each.thread});
  }
  return out;
}

}  // namespace leat

#include "daemon/wire/recording_file.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>

#include "daemon/wire/recording.capnp.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using PartitionBuilder = wire::RecordingFile::Partition::Builder;
using PartitionReader = wire::RecordingFile::Partition::Reader;

void write_nodes(const RecordedPartition& part, PartitionBuilder out) {
  auto nodes = out.initNodes(static_cast<unsigned>(part.nodes.size()));
  for (unsigned i = 0; i < nodes.size(); ++i) {
    const RecordedNode& node = part.nodes[i];
    nodes[i].setName(node.name);
    nodes[i].setOp(node.op);
    nodes[i].setType(node.type);
    nodes[i].setKind(static_cast<uint8_t>(node.kind));
    nodes[i].setEdge(node.edge);
    nodes[i].setPeer(node.peer);
    nodes[i].setBytes(node.bytes);
    nodes[i].setChain(node.chain);
    auto inputs = nodes[i].initInputs(static_cast<unsigned>(node.inputs.size()));
    for (unsigned k = 0; k < inputs.size(); ++k) inputs.set(k, node.inputs[k]);
  }
}

void write_events(const RecordedPartition& part, PartitionBuilder out) {
  auto events = out.initEvents(static_cast<unsigned>(part.events.size()));
  for (unsigned i = 0; i < events.size(); ++i) {
    const RecordedEvent& event = part.events[i];
    events[i].setBegin(event.begin);
    events[i].setEnd(event.end);
    events[i].setTurn(event.turn);
    events[i].setInstruction(event.instruction);
    events[i].setPieces(event.pieces);
    events[i].setKind(static_cast<uint8_t>(event.kind));
    events[i].setThread(event.thread);
  }
}

void write_partition(const RecordedPartition& part, PartitionBuilder out) {
  out.setNode(part.node);
  out.setDevice(part.device);
  out.setPlan(part.plan);
  out.setPartition(part.partition);
  out.setThreads(part.threads);
  out.setCores(part.cores);
  out.setFirstStep(part.first_step);
  out.setFirst(part.first);
  out.setEnd(part.end);
  out.setDropped(part.dropped);
  out.setLostFrom(part.lost_from);
  out.setClockOffset(part.clock_offset);
  out.setClockError(part.clock_error);
  write_nodes(part, out);
  write_events(part, out);
}

Status wrong(const RecordedPartition& part, std::string_view what, uint64_t received) {
  return invalid_argument(cat("recording of '", part.device, "': ", what, ", received ", received));
}

Status read_nodes(PartitionReader in, RecordedPartition& part) {
  const uint64_t count = in.getNodes().size();
  for (const auto each : in.getNodes()) {
    if (each.getKind() > static_cast<uint8_t>(RecordedNode::Kind::fetch))
      return wrong(part, "expected a kind of node from 0 to 4", each.getKind());
    part.nodes.push_back({each.getName().cStr(), each.getOp().cStr(), each.getType().cStr(),
                          static_cast<RecordedNode::Kind>(each.getKind()), each.getEdge(),
                          each.getPeer(), each.getBytes(), each.getChain()});
    for (const uint32_t input : each.getInputs()) {
      if (input >= count) return wrong(part, cat("expected an input of ", count, " nodes"), input);
      part.nodes.back().inputs.push_back(input);
    }
  }
  return {};
}

Status read_events(PartitionReader in, RecordedPartition& part) {
  for (const auto each : in.getEvents()) {
    if (each.getKind() > static_cast<uint8_t>(RecordedEvent::Kind::flush))
      return wrong(part, "expected a kind of event from 0 to 8", each.getKind());
    const uint32_t at = each.getInstruction();
    if (at != kNotRecorded && at >= part.nodes.size())
      return wrong(part, cat("expected an event of one of ", part.nodes.size(), " nodes"), at);
    if (each.getEnd() < each.getBegin())
      return wrong(part, "expected events that end after they begin", at);
    part.events.push_back({each.getBegin(), each.getEnd(), each.getTurn(), at, each.getPieces(),
                           static_cast<RecordedEvent::Kind>(each.getKind()), each.getThread()});
  }
  return {};
}

Result<RecordedPartition> read_partition(PartitionReader in) {
  RecordedPartition part;
  part.node = in.getNode().cStr();
  part.device = in.getDevice().cStr();
  part.plan = in.getPlan().cStr();
  part.partition = in.getPartition();
  part.threads = in.getThreads();
  part.cores = in.getCores();
  part.first_step = in.getFirstStep();
  part.first = in.getFirst();
  part.end = in.getEnd();
  part.dropped = in.getDropped();
  part.lost_from = in.getLostFrom();
  part.clock_offset = in.getClockOffset();
  part.clock_error = in.getClockError();
  if (part.threads > 4096) return wrong(part, "expected at most 4096 threads", part.threads);
  LEAT_RETURN_IF_ERROR(read_nodes(in, part));
  LEAT_RETURN_IF_ERROR(read_events(in, part));
  return part;
}

}  // namespace

std::vector<std::byte> write_recording(const StepRecording& recording) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::RecordingFile>();
  out.setJob(recording.job);
  auto partitions = out.initPartitions(static_cast<unsigned>(recording.partitions.size()));
  for (unsigned i = 0; i < partitions.size(); ++i)
    write_partition(recording.partitions[i], partitions[i]);
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
  return {begin, begin + bytes.size()};
}

Result<StepRecording> read_recording(std::span<const std::byte> file) {
  if (file.size() % sizeof(capnp::word) != 0) {
    return invalid_argument(
        cat("recording: expected a multiple of 8 bytes, received ", file.size()));
  }
  // A copy whose words are aligned.
  auto words = kj::heapArray<capnp::word>(file.size() / sizeof(capnp::word));
  if (!file.empty()) std::memcpy(words.begin(), file.data(), file.size());
  try {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 4 * (words.size() + 1024);
    capnp::FlatArrayMessageReader message(words, options);
    const auto in = message.getRoot<wire::RecordingFile>();
    StepRecording recording;
    recording.job = in.getJob().cStr();
    for (const auto each : in.getPartitions()) {
      LEAT_ASSIGN_OR_RETURN(auto part, read_partition(each));
      recording.partitions.push_back(std::move(part));
    }
    return recording;
  } catch (const kj::Exception& error) {
    return invalid_argument(cat("recording: ", error.getDescription().cStr()));
  }
}

}  // namespace leat

#include "scheduler/runtime/tile_execution.h"

namespace leat {
namespace {

constexpr size_t kCacheLine = 64;

}  // namespace

TileExecution::TileExecution(Program& program, TurnContexts& contexts, StepRecorder& recorder,
                             int threads)
    : program_(program),
      contexts_(contexts),
      recorder_(recorder),
      threads_(static_cast<size_t>(threads)),
      worked_(new Worked[threads_]) {
  for (size_t t = 0; t < threads_; ++t) {
    // Each thread's memory begins on a cache line, so that no two threads write to the same one.
    scratch_storage_.emplace_back(program.scratch_bytes() + kCacheLine);
    auto* raw = scratch_storage_.back().data();
    scratch_.push_back(raw +
                       (kCacheLine - reinterpret_cast<uintptr_t>(raw) % kCacheLine) % kCacheLine);
  }
}

uint64_t TileExecution::tiles_done() const {
  uint64_t tiles = 0;
  for (size_t t = 0; t < threads_; ++t) tiles += worked_[t].tiles.load(std::memory_order_relaxed);
  return tiles;
}

uint32_t TileExecution::at_work() const {
  // kNone is the greatest number.
  uint32_t first = kNone;
  for (size_t t = 0; t < threads_; ++t)
    first = std::min(first, worked_[t].at.load(std::memory_order_relaxed));
  return first;
}

bool TileExecution::run(const Entry& entry, uint64_t turn, uint32_t tile, size_t thread) {
  if (entry.kind == Entry::Kind::bundle) return run_bundle(entry, turn, thread);
  const bool records = recorder_.wants(turn);
  if (entry.kind != Entry::Kind::kernel) {
    rest(thread);
    return records ? record_transfer(entry, turn, thread) : run_transfer(entry, turn);
  }
  enter(thread, entry);
  tile += entry.first_tile;
  return records ? record_kernels(entry, turn, tile, thread)
                 : run_kernels<KernelContext>(entry, turn, tile, thread) == Progress::done;
}

bool TileExecution::record_kernels(const Entry& entry, uint64_t turn, uint32_t tile,
                                   size_t thread) {
  if (entry.reads_rows) {
    int64_t ignored = 0;
    return run_reader<KernelContext>(entry, turn, tile, thread, true, ignored) == Progress::done;
  }
  const int64_t begin = StepRecorder::now();
  if (run_kernels<KernelContext>(entry, turn, tile, thread) != Progress::done) return false;
  recorder_.add(thread, StepEvent::Kind::kernel, entry.instruction, turn, begin);
  return true;
}

// Runs a member of a chain whose operands lie behind the thread's scratch memory, at addresses that
// follow from the tile.
Progress TileExecution::run_in_tile_memory(const BoundKernel& bound, KernelContext context,
                                           int phase, uint32_t tile) const {
  // The lists of the bound kernel are shared by all threads, so this thread changes a copy. A
  // member with more operands than the arrays hold has none in tile memory.
  std::array<void*, kMostTileOperands> inputs, outputs;
  std::copy_n(context.inputs, std::min<size_t>(bound.inputs, inputs.size()), inputs.begin());
  std::copy_n(context.outputs, std::min<size_t>(bound.outputs, outputs.size()), outputs.begin());
  std::byte* memory = context.scratch + program_.tile_memory();
  for (const TileOperand& operand : bound.tile_operands)
    (operand.output ? outputs : inputs)[operand.index] = operand.address(memory, tile);
  context.inputs = inputs.data();
  context.outputs = outputs.data();
  return bound.kernel->run(context, phase, static_cast<int>(tile));
}

// The values that a bundle sends to one peer travel together. If several threads run tiles, others
// may be pushing to the same channels: holding and flushing count.
bool TileExecution::run_bundle(const Entry& bundle, uint64_t turn, size_t thread) {
  for (Channel* channel : bundle.channels) channel->hold();
  bool ok = true;
  for (uint32_t i = bundle.first; ok && i < bundle.last; ++i) {
    const Entry& member = program_.bundled(i);
    for (uint32_t tile = 0; ok && tile < member.tiles; ++tile) ok = run(member, turn, tile, thread);
  }
  // Every hold has its flush, also after a failure: others may have values in the same frame.
  rest(thread);
  const int64_t begin = recorder_.wants(turn) ? StepRecorder::now() : 0;
  for (Channel* channel : bundle.channels) {
    const Status flushed = channel->flush();
    if (flushed.ok() || !ok) continue;
    contexts_.of(turn).fail(bundle.instruction, flushed);
    ok = false;
  }
  if (begin != 0) recorder_.add(thread, StepEvent::Kind::flush, bundle.instruction, turn, begin);
  return ok;
}

bool TileExecution::record_transfer(const Entry& entry, uint64_t turn, size_t thread) {
  const int64_t begin = StepRecorder::now();
  const bool ok = run_transfer(entry, turn);
  StepEvent::Kind kind = StepEvent::Kind::fetch;
  if (entry.kind == Entry::Kind::send) kind = StepEvent::Kind::send;
  if (entry.kind == Entry::Kind::receive) kind = StepEvent::Kind::receive;
  if (entry.kind == Entry::Kind::retire) kind = StepEvent::Kind::retire;
  recorder_.add(thread, kind, entry.instruction, turn, begin);
  return ok;
}

bool TileExecution::run_transfer(const Entry& entry, uint64_t turn) {
  const PlanInstruction& instruction = program_.partition().instructions[entry.instruction];
  Exchange& exchange = program_.exchange();
  const auto input = [&] { return program_.value_address(instruction.inputs[0], turn); };
  Status status;
  switch (entry.kind) {
    case Entry::Kind::send: {
      const PlanValue& value = program_.partition().values[instruction.inputs[0]];
      // A token has no bytes: the push alone tells the peer.
      const size_t bytes = value.home == Home::none ? 0 : value.type.bytes();
      status = entry.in_place ? entry.channel->push_in_place(entry.edge, turn, input(), bytes)
                              : entry.channel->push(entry.edge, turn, input(), bytes);
      break;
    }
    case Entry::Kind::retire:
      // The link listens to this timeline and gives the sender its credit back.
      exchange.slots->edge(entry.edge).retired.signal(turn + 1);
      break;
    case Entry::Kind::fetch: {
      const size_t bytes = program_.partition().values[instruction.inputs[0]].type.bytes();
      if (bytes > 0)
        program_.device().copy_to_host(program_.fetch(entry.edge, turn), input(), bytes);
      break;
    }
    default:
      break;  // a receive: the value is there, or the cursor had not let the entry start
  }
  if (status.ok()) return true;
  contexts_.of(turn).fail(entry.instruction, status);
  return false;
}

}  // namespace leat

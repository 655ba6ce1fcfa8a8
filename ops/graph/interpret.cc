#include "ops/graph/interpret.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/validate.h"

namespace leat {
namespace {

// A value while the interpreter runs: a tensor, or the address of a resource.
struct Cell {
  ValueType type;
  Tensor tensor;            // tensors only
  void* address = nullptr;  // resources only
  bool present = false;
  void* data() const { return address ? address : tensor.raw(); }
};

// The step of one kernel. It keeps the first failure, as the executor does.
class StepFailure final : public StepContext {
 public:
  explicit StepFailure(const InterpretOptions& options) {
    step = options.step;
    seed = options.seed;
  }
  void fail(uint32_t, Status status) override {
    if (failure.ok()) failure = std::move(status);
  }
  Status failure;
};

// Fills in the types of a kernel from the inputs at hand. All inputs are known values here, so
// every tensor is also a constant.
Result<KernelSetup> make_setup(const OpDef& op, const Attrs& defaults,
                               const std::vector<Cell>& inputs, const OpOutcome& outcome,
                               const std::string& subject, const InterpretOptions& options,
                               const Node* node) {
  KernelSetup setup;
  setup.types.attrs = &defaults;
  setup.node = node;
  setup.subject = subject;
  setup.resources = options.resources;
  setup.device = options.device;
  for (const Cell& cell : inputs) {
    OperandType operand;
    if (cell.present) {
      operand = {cell.type.dtype, cell.type.shape.concrete().value_or(Shape()), Layout::plain,
                 cell.type.kind, true};
    }
    setup.types.inputs.push_back(operand);
    setup.constants.push_back(cell.present && cell.tensor.valid() ? &cell.tensor : nullptr);
  }
  // An output must have a concrete shape, because its memory is allocated before the kernel runs.
  // Ops whose output sizes depend on how they run cannot be interpreted.
  for (const ValueType& type : outcome.outputs) {
    const auto shape = type.shape.concrete();
    if (!shape)
      return unimplemented(
          cat(subject, ": an output's shape depends on more than its inputs' values"));
    setup.types.outputs.push_back({type.dtype, *shape, Layout::plain, type.kind, true});
  }
  // Tests force a tile size on the ops that can be cut into rows, and on no other.
  if (options.tile_rows > 0 && op.tiling && op.tiling(setup.types).rows > 0)
    setup.tile_rows = options.tile_rows;
  return setup;
}

// Runs all tiles of all phases, one after the other, on the calling thread.
Status run_kernel(Kernel& kernel, const std::vector<void*>& inputs,
                  const std::vector<void*>& outputs, const std::string& subject,
                  const InterpretOptions& options) {
  StepFailure step(options);
  // Kernels use vector loads, so both memories begin at a multiple of 64 bytes.
  std::vector<std::byte> workspace(kernel.workspace_bytes() + 64);
  std::vector<std::byte> scratch(kernel.scratch_bytes() + 64);
  const auto aligned = [](std::vector<std::byte>& bytes) {
    return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
  };
  KernelContext context;
  context.inputs = inputs.data();
  context.outputs = outputs.data();
  context.workspace = aligned(workspace);
  context.scratch = aligned(scratch);
  context.step = &step;
  for (int phase = 0; phase < kernel.phases(); ++phase) {
    const int tiles = kernel.tiles(phase);
    for (int i = 0; i < tiles; ++i) {
      const Progress progress =
          kernel.run(context, phase, options.reverse_tiles ? tiles - 1 - i : i);
      if (progress == Progress::failed) return step.failure;
      // A blocked kernel waits for another run of the job, and none can run while this thread
      // waits.
      if (progress == Progress::blocked) {
        return failed_precondition(
            cat(subject, ": would wait for another run; nothing else runs here"));
      }
    }
  }
  return {};
}

// Infers an op again with the values at hand: they may tell sizes that the graph's types leave
// open.
Result<OpOutcome> infer_with_values(const OpDef& op, const Attrs& attrs,
                                    const std::vector<Cell>& inputs,
                                    const std::vector<bool>& wanted, const std::string& subject) {
  OpCall call;
  call.op = &op;
  call.attrs = &attrs;
  call.subject = subject;
  SymbolId symbols = 0;
  for (const Cell& cell : inputs) {
    call.inputs.push_back(cell.present ? &cell.type : nullptr);
    call.constants.push_back(cell.present && cell.tensor.valid() ? &cell.tensor : nullptr);
  }
  // Absent inputs at the end do not count for the arity.
  while (!call.inputs.empty() && !call.inputs.back()) {
    call.inputs.pop_back();
    call.constants.pop_back();
  }
  call.wanted = wanted;
  call.fresh_symbol = [&symbols] { return symbols++; };
  call.shape_text = [](const SymbolicShape& shape) {
    const auto concrete = shape.concrete();
    return concrete ? concrete->to_string() : std::string("[?]");
  };
  return infer_op(call);
}

// Infers one op, makes its kernel, and runs it. The result has a cell for each entry of `wanted`.
Result<std::vector<Cell>> run_cells(const OpDef& op, const Attrs& attrs,
                                    const std::vector<Cell>& inputs,
                                    const std::vector<bool>& wanted, const std::string& subject,
                                    const InterpretOptions& options, const Node* node) {
  LEAT_ASSIGN_OR_RETURN(OpOutcome outcome, infer_with_values(op, attrs, inputs, wanted, subject));
  const Attrs defaults = with_defaults(op, attrs);
  // run_op() may get no node; kernels of random ops then draw as node 0.
  Node fallback;
  fallback.op = &op;
  fallback.attrs = attrs;
  fallback.source = 0;
  LEAT_ASSIGN_OR_RETURN(KernelSetup setup, make_setup(op, defaults, inputs, outcome, subject,
                                                      options, node ? node : &fallback));
  std::vector<Cell> outputs(wanted.size());
  // A node of a resource has no kernel: its output is the resource's address.
  if (op.make_resource) {
    LEAT_ASSIGN_OR_RETURN(Resource * resource, op.make_resource(setup));
    outputs[0] = {outcome.outputs[0], {}, resource->address(), true};
    return outputs;
  }
  const auto factory = op.kernels.find("cpu");
  if (factory == op.kernels.end()) return unimplemented(cat(subject, ": has no cpu kernel"));
  // Every wanted tensor gets memory of its own, so no kernel runs in place here.
  std::vector<void*> input_data, output_data;
  for (const Cell& cell : inputs) input_data.push_back(cell.present ? cell.data() : nullptr);
  for (size_t i = 0; i < wanted.size(); ++i) {
    setup.types.outputs[i].present = wanted[i];
    if (wanted[i] && outcome.outputs[i].kind == ValueKind::tensor) {
      LEAT_ASSIGN_OR_RETURN(Tensor tensor,
                            Tensor::create(outcome.outputs[i].dtype, setup.types.outputs[i].shape));
      outputs[i] = {outcome.outputs[i], tensor, nullptr, true};
    } else {
      outputs[i].type = outcome.outputs[i];
      outputs[i].present = wanted[i];
    }
    output_data.push_back(outputs[i].tensor.valid() ? outputs[i].tensor.raw() : nullptr);
  }
  LEAT_ASSIGN_OR_RETURN(auto kernel, factory->second(setup));
  LEAT_RETURN_IF_ERROR(run_kernel(*kernel, input_data, output_data, subject, options));
  return outputs;
}

// The nodes that `fetches` and `targets` need when `feeds` are given.
std::vector<bool> needed_nodes(const Graph& graph, const std::map<ValueId, Tensor>& feeds,
                               const std::vector<ValueId>& fetches,
                               const std::vector<NodeId>& targets) {
  std::vector<bool> needed(graph.nodes(), false);
  std::vector<NodeId> stack;
  const auto want_node = [&](NodeId id) {
    if (!needed[id]) {
      needed[id] = true;
      stack.push_back(id);
    }
  };
  // A fed value ends the search: its producer need not run.
  const auto want = [&](ValueId value) {
    if (value == kNone || feeds.count(value)) return;
    if (graph.value(value).producer != kNone) want_node(graph.value(value).producer);
  };
  for (ValueId fetch : fetches) want(fetch);
  for (NodeId target : targets) want_node(target);
  // Control edges count as well: a node that must run first is needed, too.
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (ValueId input : graph.node(id).inputs) want(input);
    for (NodeId before : graph.node(id).after) want_node(before);
  }
  return needed;
}

}  // namespace

Result<std::vector<Tensor>> run_op(const OpDef& op, const Attrs& attrs,
                                   const std::vector<Tensor>& inputs, int outputs,
                                   const std::string& subject, const InterpretOptions& options,
                                   const Node* node) {
  std::vector<Cell> cells;
  for (const Tensor& tensor : inputs) {
    Cell cell;
    cell.present = tensor.valid();
    cell.tensor = tensor;
    cell.type = {ValueKind::tensor, tensor.dtype(), SymbolicShape(tensor.shape())};
    cells.push_back(std::move(cell));
  }
  LEAT_ASSIGN_OR_RETURN(
      auto results,
      run_cells(op, attrs, cells, std::vector<bool>(static_cast<size_t>(outputs), true), subject,
                options, node));
  std::vector<Tensor> tensors;
  for (Cell& cell : results) tensors.push_back(std::move(cell.tensor));
  return tensors;
}

Result<std::vector<Tensor>> interpret(const Graph& graph, const std::map<ValueId, Tensor>& feeds,
                                      const std::vector<ValueId>& fetches,
                                      const std::vector<NodeId>& targets,
                                      const InterpretOptions& options) {
  const auto needed = needed_nodes(graph, feeds, fetches, targets);
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  std::vector<Cell> cells(graph.values());
  for (const auto& [value, tensor] : feeds) {
    cells[value] = {
        {ValueKind::tensor, tensor.dtype(), SymbolicShape(tensor.shape())}, tensor, nullptr, true};
  }
  // Runs the needed nodes in topological order. A fed value keeps its feed, although its producer
  // may run for another output.
  for (NodeId id : order) {
    if (!needed[id]) continue;
    const Node& node = graph.node(id);
    std::vector<Cell> inputs;
    for (ValueId input : node.inputs) {
      if (input != kNone && !cells[input].present) {
        return invalid_argument(
            cat(graph.describe_node(id), ": input '", graph.describe(input), "' was not fed"));
      }
      inputs.push_back(input == kNone ? Cell() : cells[input]);
    }
    std::vector<bool> wanted;
    for (ValueId output : node.outputs) wanted.push_back(output != kNone);
    LEAT_ASSIGN_OR_RETURN(auto outputs, run_cells(*node.op, node.attrs, inputs, wanted,
                                                  graph.describe_node(id), options, &node));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId value = node.outputs[i];
      if (value != kNone && !feeds.count(value)) cells[value] = std::move(outputs[i]);
    }
  }
  std::vector<Tensor> results;
  for (ValueId fetch : fetches) {
    if (!cells[fetch].present)
      return invalid_argument(
          cat("fetch '", graph.describe(fetch), "': nothing produces it and it was not fed"));
    results.push_back(cells[fetch].tensor);
  }
  return results;
}

}  // namespace leat

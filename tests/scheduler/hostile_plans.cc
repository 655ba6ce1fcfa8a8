#include "tests/scheduler/hostile_plans.h"

#include <algorithm>

#include "ops/graph/limits.h"
#include "tests/scheduler/plan_mutations.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

using Kind = PlanInstruction::Kind;

Partition& first(Plan& plan) { return plan.partitions[0]; }

// Finds the n-th instruction of an op, or of a kind.
size_t find_op(const Partition& part, std::string_view op, size_t n = 0) {
  for (size_t i = 0; i < part.instructions.size(); ++i) {
    const OpDef* def = part.instructions[i].op;
    if (def && def->full_name() == op && n-- == 0) return i;
  }
  FAIL("no such op");
  return 0;
}
size_t find_kind(const Partition& part, Kind kind) {
  for (size_t i = 0; i < part.instructions.size(); ++i) {
    if (part.instructions[i].kind == kind) return i;
  }
  FAIL("no such transfer");
  return 0;
}
PlanInstruction& op(Plan& plan, std::string_view name, size_t n = 0) {
  return first(plan).instructions[find_op(first(plan), name, n)];
}
PlanInstruction& transfer(Plan& plan, Kind kind) {
  return first(plan).instructions[find_kind(first(plan), kind)];
}
PlanValue& output(Plan& plan, std::string_view name, size_t n = 0) {
  return first(plan).values[op(plan, name, n).outputs[0]];
}
PlanValue& at_home(Plan& plan, Home home) {
  const auto found = std::find_if(first(plan).values.begin(), first(plan).values.end(),
                                  [&](const PlanValue& v) { return v.home == home; });
  REQUIRE(found != first(plan).values.end());
  return *found;
}

std::vector<HostilePlan> memory() {
  return {
      {"a value behind the arena", [](Plan& p) { output(p, "Conv").offset = first(p).arena_bytes; },
       "ends outside the arena"},
      {"an offset that wraps around", [](Plan& p) { output(p, "Conv").offset = ~uint64_t{63}; },
       "ends outside the arena"},
      {"a value that is not aligned", [](Plan& p) { output(p, "Conv").offset += 4; },
       "ends outside the arena"},
      {"an arena smaller than its values", [](Plan& p) { first(p).arena_bytes = 64; },
       "ends outside the arena"},
      {"an arena larger than any memory", [](Plan& p) { first(p).arena_bytes = uint64_t{1} << 60; },
       "needs more than"},
      {"two living values in the same bytes",
       [](Plan& p) {
         auto& loss = op(p, "SoftmaxCrossEntropyLoss");
         first(p).values[loss.outputs[1]].offset = output(p, "Gemm").offset;
       },
       "while both are needed"},
      {"a value that is its own alias",
       [](Plan& p) {
         auto& part = first(p);
         const uint32_t v = op(p, "Mul").outputs[0];
         part.values[v].alias = v;
       },
       "bad alias"},
      {"a cycle of aliases",
       [](Plan& p) {
         const uint32_t from = op(p, "Cast").outputs[0];
         first(p).values[from].alias = op(p, "Mul").outputs[0];
       },
       "bad alias"},
      {"an alias elsewhere in the arena", [](Plan& p) { output(p, "Mul").offset += 64; },
       "has other bytes"},
      {"an alias of a smaller value",
       [](Plan& p) {
         auto& value = output(p, "Mul");
         value.alias = op(p, "leat.Step").outputs[0];
         value.offset = first(p).values[value.alias].offset;
       },
       "has other bytes"},
      {"an op computed in place that cannot be",
       [](Plan& p) {
         auto& part = first(p);
         const PlanInstruction& reorder = op(p, "leat.Reorder", 1);
         const uint32_t from = part.values[reorder.inputs[0]].alias;
         for (const uint32_t v : {reorder.outputs[0], op(p, "leat.ReluGrad").outputs[0]}) {
           part.values[v].alias = from;
           part.values[v].offset = part.values[from].offset;
         }
       },
       "in place of another than its input"},
      {"a constant that there is not", [](Plan& p) { at_home(p, Home::constant).index = 1000; },
       "names no constant"},
      {"a constant read as more than it is",
       [](Plan& p) { at_home(p, Home::constant).type.shape = Shape{1000}; }, "names no constant"},
      {"a resource that there is not", [](Plan& p) { at_home(p, Home::resource).index = 1000; },
       "names no resource"},
      {"a variable read as more than it is",
       [](Plan& p) { at_home(p, Home::resource).type.shape = Shape{1 << 20}; },
       "names no resource"},
      {"a resource of another size than its op makes",
       [](Plan& p) { first(p).resources[0].bytes = 4; }, "expected 576 bytes, received 4"},
      {"a resource made by an op that makes none",
       [](Plan& p) { first(p).resources[0].op = scheduler_catalogue().find("Relu"); },
       "expected an op that makes a resource"},
      {"a tensor without a home", [](Plan& p) { output(p, "Conv").home = Home::none; },
       "is nowhere"},
      {"a home that there is not", [](Plan& p) { output(p, "Conv").home = static_cast<Home>(9); },
       "has no home"},
      {"a kernel that writes a constant",
       [](Plan& p) { op(p, "Mul").outputs[0] = op(p, "Mul").inputs[1]; }, "names no constant"},
      {"a kernel that writes a variable",
       [](Plan& p) { op(p, "Gemm", 2).outputs[0] = op(p, "leat.ApplyMomentum").inputs[0]; },
       "names no resource"},
      {"a kernel that writes a view of a variable",
       [](Plan& p) { op(p, "Conv").outputs[0] = op(p, "Conv").inputs[1]; }, "when it is not there"},
      {"a kernel that writes what an edge brings",
       [](Plan& p) {
         auto& add = op(p, "Add");
         add.outputs[0] = add.inputs[1];
       },
       "which is made already"},
      {"a kernel that writes a slot",
       [](Plan& p) {
         PlanValue& sum = output(p, "Add");
         sum = first(p).values[transfer(p, Kind::receive).outputs[0]];
       },
       "which is not of the arena"},
      {"a constant without a type", [](Plan& p) { first(p).constants.emplace_back(); },
       "has a constant without a type"},
      {"a blocked value in pages",
       [](Plan& p) {
         output(p, "Conv").home = Home::pages;
         output(p, "Conv").offset = 0;
       },
       "is no tensor to have pages"},
  };
}

std::vector<HostilePlan> types() {
  return {
      {"a value of 2^62 elements",
       [](Plan& p) { output(p, "Conv").type.shape = Shape{int64_t{1} << 62}; }, "too large"},
      {"sizes whose product is 0 and whose parts overflow",
       [](Plan& p) {
         output(p, "Conv").type.shape = Shape{0, int64_t{1} << 62, 4, 4};
       },
       "too large"},
      {"a negative size", [](Plan& p) { output(p, "Conv").type.shape.set(0, -1); }, "too large"},
      {"an output larger than the op makes",
       [](Plan& p) {
         output(p, "Gemm").type.shape = Shape{16, 5};
       },
       "expected float[16,4], received float[16,5]"},
      {"an output of another type", [](Plan& p) { output(p, "Gemm").type.dtype = DType::i32; },
       "expected float[16,4], received int32[16,4]"},
      {"a type that there is not",
       [](Plan& p) { output(p, "Gemm").type.dtype = static_cast<DType>(77); },
       "a tensor of no type"},
      {"a kind that there is not",
       [](Plan& p) { output(p, "Gemm").type.kind = static_cast<ValueKind>(9); }, "of no kind"},
      {"rows, which plans do not have",
       [](Plan& p) { output(p, "Gemm").type.kind = ValueKind::rows; }, "of no kind"},
      {"a blocked value without blocks",
       [](Plan& p) { output(p, "Gemm").type.layout = Layout::channels16; },
       "layout that its type cannot have"},
      {"a layout that there is not",
       [](Plan& p) { output(p, "Conv").type.layout = static_cast<Layout>(7); },
       "layout that its type cannot have"},
      {"a blocked value seen as a plain one",
       [](Plan& p) { output(p, "leat.Reorder").type.layout = Layout::channels16; }, "is no view"},
      {"a kernel with operands in two layouts",
       [](Plan& p) { output(p, "Conv").type.layout = Layout::plain; },
       "layouts that it cannot have"},
      {"too few operands", [](Plan& p) { op(p, "Gemm").inputs.resize(1); },
       "input 1 'B' is missing"},
      {"too many operands", [](Plan& p) { op(p, "leat.Reorder").inputs.push_back(0); },
       "expected at most 1 inputs"},
      {"too many outputs", [](Plan& p) { op(p, "Gemm").outputs.push_back(kNone); },
       "has at most 1 outputs"},
      {"an operand that there is not", [](Plan& p) { op(p, "Gemm").inputs[0] = 1'000'000; },
       "names value 1000000"},
      {"more operands than any op has",
       [](Plan& p) { op(p, "Gemm").inputs.resize(limits::kOperands + 1, kNone); },
       "has too many operands"},
      {"operands that do not fit each other",
       [](Plan& p) { op(p, "Gemm").inputs[0] = op(p, "Gemm").inputs[1]; }, "Gemm"},
      {"a kernel without an op", [](Plan& p) { op(p, "Gemm").op = nullptr; }, "has no op"},
      {"a resource's op as a kernel",
       [](Plan& p) { op(p, "Gemm").op = scheduler_catalogue().find("leat.Variable"); },
       "is no kernel"},
      {"an instruction that there is not",
       [](Plan& p) { op(p, "Gemm").kind = static_cast<Kind>(9); }, "is a transfer with a kernel"},
      {"an attribute that the op does not have",
       [](Plan& p) { op(p, "Gemm").attrs["nonsense"] = int64_t{1}; },
       "has no attribute 'nonsense'"},
      {"an attribute that makes no sense",
       [](Plan& p) {
         op(p, "Conv").attrs["strides"] = std::vector<int64_t>{0, 0};
       },
       "strides"},
      {"rows before the first", [](Plan& p) { op(p, "leat.ReadBatch").first_row = -1; },
       "begins at row -1"},
      {"rows whose elements overflow",
       [](Plan& p) { op(p, "leat.ReadBatch").first_row = int64_t{1} << 60; }, "begins at row"},
  };
}

std::vector<HostilePlan> order() {
  return {
      {"a value read before it is made",
       [](Plan& p) { move_instruction(first(p), find_op(first(p), "ReduceSum"), 0); },
       "when it is not there"},
      {"a value made twice", [](Plan& p) { first(p).instructions.push_back(op(p, "leat.Step")); },
       "which is made already"},
      {"a slot read after it is given back",
       [](Plan& p) {
         move_instruction(first(p), find_kind(first(p), Kind::retire), find_op(first(p), "Add"));
       },
       "when it is not there"},
      {"a slot that is never given back",
       [](Plan& p) {
         auto& all = first(p).instructions;
         all.erase(all.begin() + static_cast<std::ptrdiff_t>(find_kind(first(p), Kind::retire)));
       },
       "retired 0 times"},
      {"a slot given back twice",
       [](Plan& p) { first(p).instructions.push_back(transfer(p, Kind::retire)); },
       "when it is not there"},
      {"a slot given back twice, the second time for nothing",
       [](Plan& p) {
         first(p).instructions.push_back(transfer(p, Kind::retire));
         first(p).instructions.back().inputs.clear();
       },
       "is retired twice"},
      {"a slot given back before it is filled",
       [](Plan& p) {
         transfer(p, Kind::retire).inputs.clear();
         move_instruction(first(p), find_kind(first(p), Kind::retire), 0);
       },
       "is retired before it is received"},
      {"a slot given back for another value",
       [](Plan& p) { transfer(p, Kind::retire).inputs[0] = op(p, "leat.Step").outputs[0]; },
       "retires another value than the one received"},
      {"a slot filled twice",
       [](Plan& p) {
         PlanInstruction again = transfer(p, Kind::receive);
         first(p).values.push_back(first(p).values[again.outputs[0]]);
         again.outputs[0] = static_cast<uint32_t>(first(p).values.size() - 1);
         first(p).instructions.push_back(again);
       },
       "is received twice"},
      {"a member of a chain that is over",
       [](Plan& p) { op(p, "ReduceSum").chain = op(p, "Conv").chain; }, "which is over"},
      {"a chain that begins elsewhere", [](Plan& p) { op(p, "leat.ReadBatch").chain = 0; },
       "which is over"},
      {"a chain of tiles without rows", [](Plan& p) { op(p, "Conv").tile_rows = 0; },
       "cannot be cut so"},
      {"a chain of tiles larger than its rows",
       [](Plan& p) {
         for (auto& i : first(p).instructions) {
           if (i.chain == op(p, "Conv").chain) i.tile_rows = int64_t{1} << 62;
         }
       },
       "cannot be cut so"},
      {"a chain with an op that has no rows",
       [](Plan& p) {
         auto& mul = op(p, "Mul", 1);
         mul.chain = op(p, "Conv").chain;
         mul.tile_rows = op(p, "Conv").tile_rows;
       },
       "cannot be cut so"},
      {"a chain whose member reads the rows of others",
       [](Plan& p) {
         auto& weights = op(p, "Gemm", 2);
         auto& sum = op(p, "ReduceSum", 1);
         weights.chain = sum.chain = op(p, "Gemm", 1).chain;
         weights.tile_rows = sum.tile_rows = op(p, "Gemm", 1).tile_rows;
       },
       "it cannot be cut so"},
      {"tiles without a chain", [](Plan& p) { op(p, "ReduceSum").tile_rows = 4; },
       "has tiles and no chain"},
  };
}

std::vector<HostilePlan> borders() {
  return {
      {"an edge that there is not", [](Plan& p) { transfer(p, Kind::send).edge = 99; },
       "names edge 99"},
      {"an edge to nowhere", [](Plan& p) { p.edges[0].to = 7; }, "joins partitions"},
      {"an edge to itself", [](Plan& p) { p.edges[0].from = p.edges[0].to; }, "joins partitions"},
      {"an edge that carries more than its value",
       [](Plan& p) { p.edges[0].bytes = uint64_t{1} << 40; }, "names no edge of its size"},
      {"an edge that carries too much", [](Plan& p) { p.edges[0].bytes = ~uint64_t{0}; },
       "carries"},
      {"a value sent along the edge of another",
       [](Plan& p) { transfer(p, Kind::send).edge = transfer(p, Kind::receive).edge; },
       "sent from the wrong partition"},
      {"a value sent that is smaller than its edge",
       [](Plan& p) { transfer(p, Kind::send).inputs[0] = op(p, "leat.Step").outputs[0]; },
       "sent in the wrong size"},
      {"a send of nothing", [](Plan& p) { transfer(p, Kind::send).inputs.clear(); }, "is sent"},
      {"a transfer with an absent operand",
       [](Plan& p) { transfer(p, Kind::send).inputs[0] = kNone; }, "lacks an operand"},
      {"a receive from an edge to another",
       [](Plan& p) { transfer(p, Kind::receive).edge = transfer(p, Kind::send).edge; },
       "is received by the wrong partition"},
      {"a receive of what is given to it",
       [](Plan& p) { transfer(p, Kind::receive).inputs = op(p, "leat.Step").outputs; },
       "is received by the wrong partition"},
      {"a receive into nothing", [](Plan& p) { transfer(p, Kind::receive).outputs.clear(); },
       "received into nothing"},
      {"a receive into the arena",
       [](Plan& p) {
         PlanValue& landed = first(p).values[transfer(p, Kind::receive).outputs[0]];
         landed.home = Home::arena;
         landed.offset = 0;
       },
       "another place than its slot"},
      {"a slot of an edge to others",
       [](Plan& p) {
         const uint32_t sent = transfer(p, Kind::send).edge;
         at_home(p, Home::slot).index = sent;
         at_home(p, Home::slot).type = {DType::u8, Shape{static_cast<int64_t>(p.edges[sent].bytes)},
                                        Layout::plain, ValueKind::tensor, true};
       },
       "names no edge of its size"},
      {"more feeds than the plan has", [](Plan& p) { first(p).feeds.push_back(0); },
       "has 1 feeds, the plan has 0"},
      {"a fetch that there is not", [](Plan& p) { transfer(p, Kind::fetch).edge = 2; },
       "names fetch 2"},
      {"a fetch of another partition", [](Plan& p) { p.fetches[0].partition = 1; },
       "fetched from the wrong partition"},
      {"a fetch of no partition", [](Plan& p) { p.fetches[0].partition = 9; }, "is of partition 9"},
      {"a fetch of no type", [](Plan& p) { p.fetches[0].dtype = static_cast<DType>(77); },
       "fetch 'loss' is a tensor of no type"},
      {"a fetch that is not made",
       [](Plan& p) {
         auto& all = first(p).instructions;
         all.erase(all.begin() + static_cast<std::ptrdiff_t>(find_kind(first(p), Kind::fetch)));
       },
       "is made 0 times"},
      {"a fetch of more than there is", [](Plan& p) { p.fetches[0].shape = Shape{1000}; },
       "is no float[1000] to fetch"},
      {"a partition elsewhere that is here", [](Plan& p) { first(p).elsewhere = true; },
       "has something in it"},
  };
}

}  // namespace

std::vector<HostilePlan> hostile_plans() {
  std::vector<HostilePlan> all;
  for (const auto& list : {memory(), types(), order(), borders()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace leat

// The passes from a graph to a plan. All are pure functions that any thread may call: equal inputs
// give equal outputs. A pass that takes a graph by value changes it in place, or frees its memory
// as soon as it can. A pass that takes `borders` changes them to the ids of the graph that it
// returns. Errors name the node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/plan_device.h"
#include "scheduler/graph/prune.h"
#include "scheduler/graph/rewrite.h"
#include "scheduler/plan/plan.h"

namespace leat {

// --- on the whole graph ---

// Lets products transpose an operand themselves where a Transpose of its last two axes comes before
// them, with or without a Cast in between, and nothing else needs its value. A MatMul becomes a
// leat.MatMul. Gradients that are expanded afterwards need no Transpose either. The Transposes
// stay, without readers. Changes no ids.
Graph fold_transposes(Graph graph, const Borders& borders);

// Puts one Attention in place of a softmax between two products, with or without a scale and a
// mask, where nothing else needs the values in between: accelerators then keep no matrix of scores.
// A constant mask that hides every key behind its query becomes the attribute is_causal. The bits
// change: scores are not rounded to 16 bits any more, and a query all of whose keys are hidden by
// -infinity gets zeros in place of NaN. Infers types.
Result<Graph> fuse_attention(Graph graph, Borders& borders);

// Replaces nodes whose values are known by constants, and merges equal pure nodes: those with the
// same op, inputs, attributes, device and control edges. Infers types.
Result<Graph> simplify(Graph graph, Borders& borders);

// Removes every leat.Enter. Gradients are the only task of an Enter, so this comes right after they
// are expanded.
Result<Graph> leave_branches(Graph graph, Borders& borders);

// Moves only the rows of a table that a step touches, and the gradient of those rows, instead of
// whole tables. The bits of all results stay the same. Infers types.
Result<Graph> sparsify(Graph graph, Borders& borders, int shards);

// Makes a step write nothing if a number that it fetches, or writes to a variable, is NaN or
// infinite. Adds a last fetch, an f32, which is NaN in such a step and 0 in all other steps.
// unimplemented if an op writes that cannot leave its write out. Infers types.
Result<Graph> guard_writes(Graph graph, Borders& borders);

// Sets the device of every node to one of `devices`. A resource and all nodes that touch it are one
// group, and a group is on one device that satisfies the constraints of all its nodes and has
// kernels for all of them. Of several such devices, a group prefers an accelerator, unless its
// first node does bookkeeping: a few integers, or a few numbers that a CPU made. Of those it goes
// to the one that has most input bytes of that node. A constant goes to its first reader.
// invalid_argument for a conflict, with the chain of reasons, and for a node that none of the
// devices can run that its constraints allow. Changes no ids.
Result<Graph> place(Graph graph, const std::vector<PlanDevice>& devices);

// Adds a leat.Commit of the fetched values on each device that writes variables, if all writes
// there can come after everything of a step that waits; otherwise it changes nothing. Changes no
// ids. REQUIRES: the graph is placed.
Result<Graph> add_commits(Graph graph, const Borders& borders);

// Puts the conditional form of its op in place of each node whose values only one branch of a
// leat.Merge or leat.Mask needs, so that a step runs the nodes of the branch that it takes. Nodes
// with effects and views stay, and so do those of devices other than CPUs. Ids stay, and nodes that
// compute conditions are added. REQUIRES: the graph is placed.
Result<Graph> skip_branches(Graph graph, const Borders& borders);

// --- on parts ---

// One device's share of the graph, with Send and Receive nodes at its edges.
struct Part {
  Graph graph;
  std::string device;
  Borders borders;                   // those of the caller's that are on this device
  std::vector<uint32_t> feed_index;  // borders.feeds[i] is the plan's feed feed_index[i]
  std::vector<uint32_t> fetch_index;
  std::vector<uint32_t> depth;  // by node: hops between devices before it
};
// A graph that is split: its edges, and its parts. To save memory, a part is made when it is asked
// for.
class Partitioned {
 public:
  struct Step;
  struct Routes;
  class Maker;
  Partitioned(std::vector<PlanEdge> made, std::unique_ptr<Maker> maker);
  Partitioned(Partitioned&&) noexcept;
  ~Partitioned();

  std::vector<PlanEdge> edges;
  const std::vector<std::string>& devices() const;  // by part
  Part make(uint32_t index);                        // REQUIRES: index < devices().size()

 private:
  std::unique_ptr<Maker> maker_;
};
// Splits a placed graph. Each value has one Send and one Receive for each device that reads it from
// another; a control edge between devices becomes an edge of no bytes.
Result<Partitioned> partition(Graph graph, const Borders& borders,
                              const std::vector<std::string>& devices);

// Merges an activation into the op before it, so that one kernel does both. Moves the mask of a
// Relu before the max-pool gradient that it follows, where it has fewer elements to mask.
Result<Graph> fuse(Graph graph, Borders& borders, std::vector<uint32_t>& depth);

// Rewrites of a part for an accelerator, where each node is a pass over memory:
//  * a bias that an Add brings to a product becomes the product's own;
//  * a sum of gradients of slices that have each element once becomes their Concat;
//  * biases of zeros, and gradients of biases that no node reads, go;
//  * a layer norm in float writes 16 bits, and its gradient and optimizers read them, where a Cast
//    would.
// Signs of zeros may change, and 16-bit products are rounded once in place of twice. `kind` is that
// of the device, which must have kernels for what is put in place.
Result<Graph> lighten(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                      const std::string& kind);

// Puts leat.CrossEntropy in place of a SoftmaxCrossEntropyLoss whose log probabilities only its
// gradients read, and leat.CrossEntropyGrad in place of these. Scores that were converted from 16
// bits for the loss are read, and their gradients are written, in 16 bits. Keeps the bits of
// float32 and float64.
Result<Graph> fuse_loss(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                        const std::string& kind);

// Puts one leat.Elementwise in place of neighbouring elementwise ops on floats of at most 32 bits
// whose results have one shape. Keeps all bits.
Result<Graph> fuse_elementwise(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                               const std::string& kind);

// By value of a graph: its layout in memory.
struct LayoutChoice {
  std::vector<Layout> of_value;
};
// Chooses which values have the other layout of that kind of devices, channels16 on CPUs and
// channels_last elsewhere, and adds Reorder nodes where layouts meet.
Result<Graph> choose_layouts(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                             LayoutChoice& layouts, const std::string& kind);

// The order in which a part's nodes are issued. Nodes go by hops first, so that no two devices wait
// for each other; a Send comes right after its producer, a Receive right before its first reader,
// and reads of a variable before its writes. With a Commit, the nodes that follow a write come
// after it, and all other nodes before. `copied_reads` has the reads that a cycle forces to be
// copies.
struct Order {
  std::vector<NodeId> nodes;
  std::vector<NodeId> copied_reads;
};
Result<Order> order(const Graph& graph, const std::vector<uint32_t>& depth);

// Has values computed a second time, right before their late readers, in place of keeping them,
// until the values that are kept at the same time have at most `bytes`. Of the values that are kept
// where the sum is largest, those go first whose copies cost the least for each byte. A copy makes
// the same bits: only pure nodes are copied, and all copies come before the first write of the
// step. Returns false if it changed nothing although the values have more bytes, or if there are
// more nodes than it can look at in time.
bool recompute(Part& part, Order& order, LayoutChoice& layouts, uint64_t bytes);

// Makes a partition of the plan from an ordered part: values, aliases and instructions. Chains and
// memory come next.
Result<Partition> emit(const Part& part, const Order& order, const LayoutChoice& layouts);

// Groups neighbouring instructions whose rows are independent of each other into chains, and
// chooses their tiles. For CPUs alone: their caches hold a tile.
void form_chains(Partition& partition);

// Gives every value of the arena an offset, a multiple of `alignment`, which is a power of two.
// Values whose lifetimes do not meet share memory, and a kernel computes in place where it can. Two
// values that live at the same time never share bytes.
Status lay_out_memory(Partition& partition, uint64_t alignment);

}  // namespace leat

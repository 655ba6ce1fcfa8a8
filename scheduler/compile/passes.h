// The passes from a graph to a plan, each a verb. All are pure functions: equal inputs give equal
// outputs. Those that take a graph by value change it, or give its memory back as soon as they can.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/prune.h"
#include "scheduler/graph/rewrite.h"
#include "scheduler/plan/plan.h"

namespace leat {

// --- on the whole graph ---

// Replaces nodes whose values are known by constants, and merges equal pure nodes (same op, inputs,
// attributes, device and control edges). Infers types.
Result<Graph> simplify(Graph graph, Borders& borders);

// Moves the rows of a table that a step touches instead of the table, and its gradient by rows. The
// bits of all results stay what they are. Infers types.
Result<Graph> sparsify(Graph graph, Borders& borders, int shards);

// A step of which a fetched number, or one that goes into a variable, is NaN or infinite writes
// nothing at all: a last fetch, an f32, is then NaN, and 0 in all other steps. unimplemented: an op
// writes that cannot leave it out. Infers types.
Result<Graph> guard_writes(Graph graph, Borders& borders);

// Gives every node a full device name out of `devices`: resources and all that touch them together
// (union-find), then constraints, then the device that holds most of the node's input bytes. A
// conflict is invalid_argument with the chain of reasons.
// Changes no ids.
Result<Graph> place(Graph graph, const std::vector<std::string>& devices);

// Puts a leat.Commit of what is fetched on each device that writes variables, if their writes can
// come after everything of a step that waits; else changes nothing. Changes no ids.
// REQUIRES: the graph is placed.
Result<Graph> add_commits(Graph graph, const Borders& borders);

// --- on parts ---

// One device's share of the graph, with Send and Receive nodes at its edges.
struct Part {
  Graph graph;
  std::string device;
  Borders borders;                   // what of the caller's is here
  std::vector<uint32_t> feed_index;  // borders.feeds[i] is the plan's feed feed_index[i]
  std::vector<uint32_t> fetch_index;
  std::vector<uint32_t> depth;  // by node: hops between devices before it
};
// A graph that was split: its edges, and its parts, of which each is made when it is wanted.
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
// Splits a placed graph. One Send and one Receive for each (value, destination device); a control
// edge between devices becomes an edge of no bytes.
Result<Partitioned> partition(Graph graph, const Borders& borders,
                              const std::vector<std::string>& devices);

// Merges what one kernel does in one go: an activation into the op before it. Moves the mask of a
// Relu before the max-pool gradient that it follows, where there are fewer elements to mask.
Result<Graph> fuse(Graph graph, Borders& borders, std::vector<uint32_t>& depth);

// Which values are kept in blocked layout, with Reorder nodes where layouts meet.
struct LayoutChoice {
  std::vector<Layout> of_value;  // by ValueId
};
Result<Graph> choose_layouts(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                             LayoutChoice& layouts);

// The order in which a part's nodes are issued: by hops first, so that no device waits for another
// that waits for it; a Send right after its producer, a Receive right before its first reader;
// reads of a variable before its writes. With a Commit, what follows a write comes after it and all
// else before. Reads that a cycle forces to be copies are in `copied_reads`.
struct Order {
  std::vector<NodeId> nodes;
  std::vector<NodeId> copied_reads;
};
Result<Order> order(const Graph& graph, const std::vector<uint32_t>& depth);

// Turns an ordered part into a partition of the plan: values, aliases, instructions. Chains and
// memory come next.
Result<Partition> emit(const Part& part, const Order& order, const LayoutChoice& layouts);

// Groups neighbouring instructions that are independent by rows into chains, and gives them tiles.
void form_chains(Partition& partition);

// Gives every arena value its offset by lifetime, reusing memory, in place where kernels allow it.
// The same bytes never serve two values whose lifetimes meet.
Status lay_out_memory(Partition& partition);

}  // namespace leat

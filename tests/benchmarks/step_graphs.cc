#include "tests/benchmarks/step_graphs.h"

#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "ops/definitions/sum_tree.h"
#include "ops/graph/builder.h"
#include "ops/graph/op.h"
#include "scheduler/graph/pieces.h"
#include "tests/must.h"

namespace leat::step_graphs {
namespace {

// Adds nodes on given tasks.
class Writer {
 public:
  explicit Writer(const Catalogue& catalogue) : graph_(catalogue), g_(graph_) {}

  ValueId variable(int task, const std::string& name, const Shape& shape,
                   DType dtype = DType::f32) {
    Attrs attrs{{"name", name}, {"shape", sizes(shape)}, {"dtype", std::string(dtype_name(dtype))}};
    return placed(task, g_.op("leat.Variable", {}, std::move(attrs)));
  }
  ValueId op(int task, const std::string& name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return placed(task, g_.op(name, std::move(inputs), std::move(attrs)));
  }
  ValueId read(int task, ValueId variable) { return op(task, "leat.Read", {variable}); }
  // Reads the variable, but not before `gate` is there.
  ValueId read_after(int task, ValueId variable, ValueId gate) {
    const ValueId value = read(task, variable);
    graph_.node(graph_.value(value).producer).after.push_back(graph_.value(gate).producer);
    return value;
  }
  ValueId scalar(int task, double value) { return placed(task, g_.scalar(DType::f32, value)); }
  ValueId constant(int task, Tensor value) { return placed(task, g_.constant(std::move(value))); }
  ValueId first_of(int task, ValueId value) {
    const ValueId zero = placed(task, g_.constant(Tensor::scalar_of(DType::i64, 0)));
    return op(task, "Gather", {value, zero}, {{"axis", int64_t{0}}});
  }
  ValueId joined(int task, const std::vector<ValueId>& pieces, const Shape& shape) {
    return op(task, "leat.Join", pieces, {{"shape", sizes(shape)}});
  }
  ValueId sum(int task, const std::vector<ValueId>& values) {
    return values.size() == 1 ? op(task, "Identity", values) : op(task, "Sum", values);
  }
  NodeId effect(int task, const std::string& name, std::vector<ValueId> inputs) {
    const NodeId node = g_.effect(name, std::move(inputs));
    graph_.node(node).device = device(task);
    targets_.push_back(node);
    return node;
  }
  void order(NodeId first, NodeId second) { graph_.node(second).after.push_back(first); }
  // Fills it with values from [1, 1.001), so that its pages exist and no two are equal.
  void fill(int task, const std::string& name, const Shape& shape) {
    const ValueId random =
        op(task, "RandomUniform", {}, {{"shape", sizes(shape)}, {"low", 1.0}, {"high", 1.001}});
    effect(task, "leat.Initialize", {variable(task, name, shape), random});
  }
  void ones(int task, const std::string& name, const Shape& shape) {
    const ValueId size = constant(task, Tensor::of<int64_t>({shape.rank()}, sizes(shape)));
    const ValueId one = op(task, "Expand", {scalar(task, 1), size});
    effect(task, "leat.Initialize", {variable(task, name, shape), one});
  }
  void zero(int task, const std::string& name) {
    effect(task, "leat.Initialize", {variable(task, name, {}), scalar(task, 0)});
  }

  JobGraph finish(std::vector<ValueId> fetches = {}) {
    must(g_.status());
    return JobGraph{std::move(graph_), std::move(targets_), {}, std::move(fetches)};
  }

 private:
  static std::string device(int task) { return cat("job:worker/task:", task, "/cpu:0"); }
  static std::vector<int64_t> sizes(const Shape& shape) {
    return {shape.dims().begin(), shape.dims().end()};
  }
  ValueId placed(int task, ValueId value) {
    must(g_.status());
    graph_.node(graph_.value(value).producer).device = device(task);
    return value;
  }

  Graph graph_;
  GraphBuilder g_;
  std::vector<NodeId> targets_;
};

// Separates a task's steps: a scalar that a step reads first and writes last.
struct Gate {
  Gate(Writer& w, int task) : w(w), task(task), variable(w.variable(task, name(task), {})) {
    passed = w.op(task, "Neg", {w.read(task, variable)});
  }
  static std::string name(int task) { return cat("gate", task); }
  NodeId close(ValueId last) { return w.effect(task, "leat.Assign", {variable, last}); }

  Writer& w;
  const int task;
  const ValueId variable;
  ValueId passed;
};

TreeOfSums tree(const std::vector<ValueId>& leaves, size_t first, size_t last) {
  if (last - first == 1) return TreeOfSums::leaf(leaves[first]);
  const size_t middle = first + std::bit_floor(last - first - 1);
  return TreeOfSums::sum(tree(leaves, first, middle), tree(leaves, middle, last));
}
ValueId sum_of(Writer& w, int owner, const std::vector<ValueId>& parts) {
  if (parts.size() == 2) return w.op(owner, "Add", parts);
  const TreeOfSums sum = tree(parts, 0, parts.size());
  return w.op(owner, "leat.SumTree", sum.leaves, {{"order", sum.order}});
}

// The sum of a gradient as a mirrored job computes it, or the sums of its pieces, each with an
// owner.
std::vector<ValueId> sums_of(Writer& w, const std::vector<ValueId>& parts, int first_owner,
                             int64_t elements) {
  const auto tasks = static_cast<int>(parts.size());
  const auto pieces = cut_in_pieces({elements}, DType::f32);
  if (pieces.empty()) return {sum_of(w, first_owner % tasks, parts)};
  std::vector<ValueId> sums;
  for (const ElementPiece& piece : pieces) {
    std::vector<ValueId> leaves;
    const Attrs range{{"first", piece.first}, {"count", piece.count}};
    for (int t = 0; t < tasks; ++t)
      leaves.push_back(w.op(t, "leat.Range", {parts[static_cast<size_t>(t)]}, range));
    sums.push_back(sum_of(w, first_owner++ % tasks, leaves));
  }
  return sums;
}

}  // namespace

StepGraph null_step(const Catalogue& catalogue, int workers) {
  Writer init(catalogue), w(catalogue);
  init.zero(0, "v");
  const ValueId v = w.variable(0, "v", {});
  const ValueId value = w.read(0, v);
  std::vector<ValueId> answers;
  for (int task = 1; task <= workers; ++task) {
    const ValueId share = w.op(task, "Mul", {value, w.scalar(task, 1.0 / workers)});
    answers.push_back(w.op(task, "Add", {share, w.scalar(task, 1)}));
  }
  const ValueId total = w.sum(0, answers);
  w.effect(0, "leat.Assign", {v, total});
  return {w.finish({total}), init.finish(), workers + 1};
}

StepGraph chain(const Catalogue& catalogue, int adds) {
  Writer init(catalogue), w(catalogue);
  init.zero(0, "v");
  const ValueId v = w.variable(0, "v", {});
  ValueId x = w.read(0, v);
  for (int i = 0; i < adds; ++i) x = w.op(i % 2, "Add", {x, w.scalar(i % 2, 1)});
  x = w.op(0, "Identity", {x});
  w.effect(0, "leat.Assign", {v, x});
  return {w.finish({x}), init.finish(), 2};
}

StepGraph transfer(const Catalogue& catalogue, int count, int64_t elements) {
  Writer init(catalogue), w(catalogue);
  init.zero(0, Gate::name(0));
  Gate gate(w, 0);
  std::vector<ValueId> firsts;
  for (int i = 0; i < count; ++i) {
    init.fill(0, cat("v", i), {elements});
    const ValueId v = w.variable(0, cat("v", i), {elements});
    firsts.push_back(w.first_of(1, w.read_after(0, v, gate.passed)));
  }
  const ValueId sum = w.sum(1, firsts);
  gate.close(sum);
  return {w.finish({sum}), init.finish(), 2};
}

StepGraph server_step(const Catalogue& catalogue, int64_t elements) {
  Writer init(catalogue), w(catalogue);
  init.fill(0, "v", {elements});
  init.fill(1, "gradient", {elements});
  const ValueId v = w.variable(0, "v", {elements});
  const ValueId first = w.first_of(1, w.read(0, v));
  const ValueId gradient = w.variable(1, "gradient", {elements});
  const ValueId sent = w.read_after(1, gradient, first);
  w.effect(0, "leat.ApplySgd", {v, sent, w.scalar(0, 1e-6)});
  return {w.finish({first}), init.finish(), 2};
}

StepGraph sparse_step(const Catalogue& catalogue, int64_t rows) {
  constexpr int64_t kTouched = 32, kWidth = 100;
  Writer init(catalogue), w(catalogue);
  init.zero(0, Gate::name(0));
  init.ones(0, "table", {rows, kWidth});
  init.fill(1, "gradient", {kTouched, kWidth});
  Tensor chosen(DType::i64, {kTouched});
  for (int64_t j = 0; j < kTouched; ++j) chosen.data<int64_t>()[j] = (j * 7919 + 1) % rows;
  init.effect(1, "leat.Initialize",
              {init.variable(1, "ids", {kTouched}, DType::i64), init.constant(1, chosen)});

  Gate gate(w, 0);
  const ValueId table = w.variable(0, "table", {rows, kWidth});
  const ValueId ids = w.read_after(1, w.variable(1, "ids", {kTouched}, DType::i64), gate.passed);
  const ValueId read = w.op(0, "Gather", {w.read(0, table), ids});
  const ValueId first = w.first_of(1, w.first_of(1, read));
  const ValueId lines = w.read_after(1, w.variable(1, "gradient", {kTouched, kWidth}), first);
  const ValueId shape = w.constant(1, Tensor::of<int64_t>({2}, {rows, kWidth}));
  const ValueId gradient = w.op(1, "leat.GatherGrad", {lines, ids, shape});
  const NodeId applied = w.effect(0, "leat.ApplySgd", {table, gradient, w.scalar(0, 1e-6)});
  w.order(applied, gate.close(first));
  return {w.finish({first}), init.finish(), 2};
}

StepGraph all_reduce(const Catalogue& catalogue, int tasks, int pieces, int64_t elements) {
  Writer init(catalogue), w(catalogue);
  std::vector<Gate> gates;
  for (int t = 0; t < tasks; ++t) {
    init.zero(t, Gate::name(t));
    gates.emplace_back(w, t);
  }
  std::vector<std::vector<ValueId>> firsts(gates.size());
  for (int p = 0; p < pieces; ++p) {
    std::vector<ValueId> parts;
    for (int t = 0; t < tasks; ++t) {
      const std::string name = cat("x", t, "_", p);
      init.fill(t, name, {elements});
      const ValueId x = w.variable(t, name, {elements});
      parts.push_back(w.read_after(t, x, gates[static_cast<size_t>(t)].passed));
    }
    const auto sums = sums_of(w, parts, p, elements);
    for (int t = 0; t < tasks; ++t) {
      const ValueId sum = sums.size() == 1 ? sums[0] : w.joined(t, sums, {elements});
      firsts[static_cast<size_t>(t)].push_back(w.first_of(t, sum));
    }
  }
  std::vector<ValueId> sums;
  for (int t = 0; t < tasks; ++t) {
    sums.push_back(w.sum(t, firsts[static_cast<size_t>(t)]));
    gates[static_cast<size_t>(t)].close(sums.back());
  }
  return {w.finish({sums[0]}), init.finish(), tasks};
}

}  // namespace leat::step_graphs

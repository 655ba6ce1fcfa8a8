// Random graphs with every feature of a graph file, and the equality of two graphs.
#pragma once

#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/graph/graph.h"
#include "tests/catch.h"
#include "tests/ops/text_catalogue.h"

namespace leat::testing {

inline void check_equal(const Graph& a, const Graph& b);

inline void check_attrs_equal(const Attrs& a, const Attrs& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, attr] : a) {
    INFO(name);
    REQUIRE(b.contains(name));
    if (const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr)) {
      check_equal(**region, *std::get<std::shared_ptr<Graph>>(b.at(name)));
    } else {
      CHECK(attrs_equal(attr, b.at(name)));
    }
  }
}

inline void check_equal(const Graph& a, const Graph& b) {
  CHECK(a.name == b.name);
  CHECK(a.inputs() == b.inputs());
  CHECK(a.outputs() == b.outputs());
  REQUIRE(a.nodes() == b.nodes());
  REQUIRE(a.values() == b.values());
  for (NodeId id = 0; id < a.nodes(); ++id) {
    const Node &x = a.node(id), &y = b.node(id);
    CHECK(x.op == y.op);
    CHECK(x.inputs == y.inputs);
    CHECK(x.outputs == y.outputs);
    CHECK(x.after == y.after);
    CHECK(x.device == y.device);
    CHECK(x.name == y.name);
    CHECK(x.source == y.source);
    CHECK(x.first_row == y.first_row);
    check_attrs_equal(x.attrs, y.attrs);
  }
  for (ValueId id = 0; id < a.values(); ++id) CHECK(a.value_name(id) == b.value_name(id));
  for (const ValueId id : a.inputs()) {
    CHECK(a.type_text(a.value(id).type) == b.type_text(b.value(id).type));
  }
}

// Random graphs over every feature of the text.
class GraphMaker {
 public:
  // ONNX stores attributes as 32-bit floats, so `narrow` avoids values that only a double can hold.
  GraphMaker(const Catalogue& ops, unsigned seed, bool narrow = false)
      : ops_(ops), random_(seed), narrow_(narrow) {}

  Graph graph(int nesting) {
    Graph g(ops_);
    g.name = nesting == 0 ? name() : "region_" + std::to_string(pick(100));
    if (g.name.empty()) g.name = "g";
    const int inputs = pick(4);
    for (int i = 0; i < inputs; ++i) g.add_input(unique(), type(g));
    const int nodes = pick(12);
    for (int i = 0; i < nodes; ++i) add_node(g, nesting);
    if (g.values() > 0) {
      for (int i = pick(3); i > 0; --i) g.add_output(value(g));
    }
    return g;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  ValueId value(const Graph& g) { return static_cast<ValueId>(pick(static_cast<int>(g.values()))); }

  std::string name() {
    static const char* kNames[] = {"",      "float",        "a/b",    "with space",
                                   "inf",   "\"quoted\\\"", "opaque", "日本語",
                                   "x.y:0", "NaN",          "plain",  "1st"};
    return kNames[pick(12)];
  }
  std::string unique() {
    const std::string base = name();
    return base.empty() || !used_.insert(base).second ? pick(2) ? "" : "u" + std::to_string(++last_)
                                                      : base;
  }

  ValueType type(Graph& g) {
    ValueType t;
    t.kind = static_cast<ValueKind>(pick(3));
    t.dtype = static_cast<DType>(1 + pick(kDTypeCount - 1));
    for (int i = pick(4); i > 0; --i) {
      if (pick(2))
        t.shape.push_back(Dim::of(pick(5)));
      else
        t.shape.push_back(Dim::of_symbol(g.symbol(pick(2) ? "N" : "seq/len"), 1 + pick(3)));
    }
    return t;
  }

  Tensor tensor() {
    Shape shape;
    for (int i = pick(3); i > 0; --i) shape.push_back(pick(4));
    Tensor t(static_cast<DType>(1 + pick(kDTypeCount - 1)), shape);
    for (int64_t i = 0; i < t.elements(); ++i) {
      if (t.dtype() == DType::boolean || !is_float(t.dtype())) {
        t.set(i, pick(2));
        continue;
      }
      static const double kValues[] = {0.0, -0.0, 1.0 / 3, 1e30, -1e-40, 0x1p-149, 5e-324, 1e308};
      t.set(i, kValues[pick(8)]);
    }
    return t;
  }

  Attr attr(int nesting) {
    const double kReals[] = {0.0, -0.0, 1, 0.9, narrow_ ? 1e30 : 1e300, -5e-324, 1e-7, 123456789};
    switch (pick(nesting < 2 ? 8 : 7)) {
      case 0:
        return pick(2) ? int64_t{pick(9)} : std::numeric_limits<int64_t>::min();
      case 1:
        return kReals[pick(8)];
      case 2:
        return name();
      case 3:
        return tensor();
      case 4:
        return std::vector<int64_t>(static_cast<size_t>(pick(3)), -7);
      case 5:
        return std::vector<double>(static_cast<size_t>(pick(3)), kReals[pick(8)]);
      case 6:
        return std::vector<std::string>(static_cast<size_t>(pick(3)), name());
      default:
        return std::make_shared<Graph>(graph(nesting + 1));
    }
  }

  void add_node(Graph& g, int nesting) {
    std::vector<ValueId> inputs;
    for (int i = g.values() > 0 ? pick(4) : 0; i > 0; --i) {
      inputs.push_back(pick(4) ? value(g) : kNone);
    }
    Attrs attrs;
    for (int i = pick(4); i > 0; --i) attrs["attr" + std::to_string(pick(9))] = attr(nesting);
    const NodeId id = g.add_node(*ops_.find("leat.Anything"), inputs, attrs, 0);
    for (int i = 0, n = pick(3); i < n; ++i) {
      g.node(id).outputs.push_back(kNone);
      if (pick(4)) g.set_value_name(g.ensure_output(id, i), unique());
    }
    Node& node = g.node(id);
    if (pick(3) == 0 && id > 0)
      node.after.push_back(static_cast<NodeId>(pick(static_cast<int>(id))));
    if (pick(3) == 0) node.device = "job:worker/task:1/cpu:0";
    if (pick(3) == 0) node.source = static_cast<uint32_t>(pick(1000));
    if (pick(5) == 0) node.first_row = pick(1000);
    // The name is unique, because two nodes of one name could not both be waited for.
    if (pick(3) == 0) node.name = "node " + std::to_string(++last_);
  }

  const Catalogue& ops_;
  std::mt19937 random_;
  const bool narrow_;
  std::set<std::string> used_;
  int last_ = 0;
};

// Numbers sources as the parser would, where the maker has not set them.
inline void number_sources(Graph& g, uint32_t& next) {
  for (NodeId id = 0; id < g.nodes(); ++id) {
    const uint32_t source = next++;
    if (g.node(id).source == id) g.node(id).source = source;
    for (auto& [_, attr] : g.node(id).attrs) {
      if (auto* region = std::get_if<std::shared_ptr<Graph>>(&attr)) number_sources(**region, next);
    }
  }
}

}  // namespace leat::testing

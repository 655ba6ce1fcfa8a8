// What tests of sessions share: short ways to write graphs, and to say what must hold.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "daemon/hosts/local_hosts.h"
#include "daemon/session/session.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat::testing {

// A status that begins with `code` and says `text`.
inline void check_says(const Status& status, Code code, const std::string& text) {
  INFO(status.to_string());
  CHECK(status.code() == code);
  CHECK_THAT(status.message(), Catch::Contains(text));
}

inline Session::Deadline in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

inline Tensor floats(const std::vector<float>& values) {
  return Tensor::of<float>(Shape{static_cast<int64_t>(values.size())}, values);
}
inline std::vector<float> floats(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.elements()};
}

// Where the kernels of test.Gate stop until somebody opens it.
struct Gate {
  std::atomic<int> reached{0};
  std::atomic<bool> open{true};
};

// The standard ops and test.Gate: its output is its input, once `gate` is open.
Catalogue gated_catalogue(Gate& gate);

// A graph being written, with the nodes that sessions name.
class SessionGraph {
 public:
  explicit SessionGraph(const Catalogue& catalogue) : graph(catalogue), g(graph) {}

  ValueId variable(const std::string& name, int64_t size, const std::string& device = "");
  // A node without outputs, named.
  NodeId effect(const std::string& name, const std::string& op, std::vector<ValueId> inputs,
                Attrs attrs = {});
  // A value of an op, named and perhaps placed.
  ValueId value(const std::string& name, const std::string& op, std::vector<ValueId> inputs,
                Attrs attrs = {}, const std::string& device = "");
  // A queue of int64 scalars, of the target "put" that puts "element" and the fetch "taken".
  void queue(int64_t capacity);
  const Graph& get();

  Graph graph;
  GraphBuilder g;
};

// "v" float[2], set to 0 by the target "init" and to "to" by "assign"; "value" reads it, and
// "y" is "x" (float[N,2]) + v; "add" adds "d" (float[2]) to it.
const Graph& basic_graph(SessionGraph& g);

}  // namespace leat::testing

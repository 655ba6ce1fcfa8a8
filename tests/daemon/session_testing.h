// Helpers that tests of sessions share: short ways to write graphs and checks.
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

// Checks that a status has this code and that its message contains `text`.
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

// The kernels of test.Gate wait here until a test sets `open`.
struct Gate {
  std::atomic<int> reached{0};
  std::atomic<bool> open{true};
};

// The standard ops and test.Gate: its output is its input, once `gate` is open.
Catalogue gated_catalogue(Gate& gate);

// Writes a graph with the named nodes that sessions ask for.
class SessionGraph {
 public:
  explicit SessionGraph(const Catalogue& catalogue) : graph(catalogue), g(graph) {}

  ValueId variable(const std::string& name, int64_t size, const std::string& device = "");
  // Adds a named node without outputs.
  NodeId effect(const std::string& name, const std::string& op, std::vector<ValueId> inputs,
                Attrs attrs = {});
  // Adds an op and returns its value, with this name and perhaps on this device.
  ValueId value(const std::string& name, const std::string& op, std::vector<ValueId> inputs,
                Attrs attrs = {}, const std::string& device = "");
  // Adds a queue of int64 scalars: the target "put" puts "element", and the fetch "taken" takes
  // one.
  void queue(int64_t capacity);
  const Graph& get();

  Graph graph;
  GraphBuilder g;
};

// "v" float[2], set to 0 by the target "init" and to "to" by "assign"; "value" reads it, and
// "y" is "x" (float[N,2]) + v; "add" adds "d" (float[2]) to it.
const Graph& basic_graph(SessionGraph& g);

}  // namespace leat::testing

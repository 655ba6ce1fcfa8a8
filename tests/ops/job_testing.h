// A job's state in a test: a CPU device, its resources, and a graph that the interpreter runs.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "devices/cpu/cpu_device.h"
#include "ops/graph/graph.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/state/resources.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {

// Threads: one. Every check fails the calling test case.
class TestJob {
 public:
  cpu::CpuDevice device{0, 1};
  JobResources resources{device};
  Graph graph{test_catalogue()};

  // A node of "leat.Read" or "Add"; its first output (kNone if it has none).
  ValueId add(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {},
              int outputs = 1) {
    const NodeId node = add_node(op, std::move(inputs), std::move(attrs), outputs);
    return outputs > 0 ? graph.node(node).outputs[0] : kNone;
  }
  NodeId add_node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {},
                  int outputs = 0) {
    const OpDef* def = test_catalogue().find(op);
    REQUIRE(def);
    return graph.add_node(*def, std::move(inputs), std::move(attrs), outputs);
  }
  ValueId variable(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    return add(
        "leat.Variable", {},
        {{"name", name}, {"shape", std::move(shape)}, {"dtype", std::string(dtype_name(dtype))}});
  }
  ValueId input(const std::string& name, DType dtype, const Shape& shape) {
    return graph.add_input(name, tensor_type(dtype, shape));
  }

  Result<std::vector<Tensor>> try_run(const std::map<ValueId, Tensor>& feeds,
                                      const std::vector<ValueId>& fetches,
                                      const std::vector<NodeId>& targets = {}) {
    if (Status status = validate(graph); !status.ok()) return status;
    InterpretOptions options;
    options.resources = &resources;
    options.device = &resources.device();
    options.reverse_tiles = reverse_tiles;
    return interpret(graph, feeds, fetches, targets, options);
  }
  std::vector<Tensor> run(const std::map<ValueId, Tensor>& feeds,
                          const std::vector<ValueId>& fetches,
                          const std::vector<NodeId>& targets = {}) {
    auto result = try_run(feeds, fetches, targets);
    INFO(result.status());
    REQUIRE(result.ok());
    return *result;
  }

  // Returns the variable's bytes, which the caller may change. Makes the variable if it is new.
  Tensor state(const std::string& name, DType dtype, const Shape& shape) {
    auto made = resources.variable(name, dtype, shape, true);
    REQUIRE(made.ok());
    return Tensor::wrap(dtype, shape, (*made)->data(), nullptr);
  }

  bool reverse_tiles = false;
};

}  // namespace leat::testing

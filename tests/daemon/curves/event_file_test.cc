// Tests the files for TensorBoard: the records, the distributions of weights, and graphs. The peers'
// check tests/peers/tensorboard_events.py reads them with TensorBoard itself.
#include "daemon/curves/event_file.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "daemon/curves/graph_def.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "ops/graph/validate.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

// The fields of a message by their numbers: the bytes of each, or those of a number.
using Message = std::multimap<uint64_t, std::string>;

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE_FALSE(bytes.empty());
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::string take(std::string_view& bytes, uint64_t count) {
  REQUIRE(count <= bytes.size());
  const std::string taken(bytes.substr(0, count));
  bytes.remove_prefix(count);
  return taken;
}

Message parse(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const uint64_t tag = take_varint(bytes);
    const uint64_t wire = tag & 7;
    if (wire == 0) {
      const uint64_t value = take_varint(bytes);
      message.emplace(tag >> 3, std::string(reinterpret_cast<const char*>(&value), 8));
    } else {
      REQUIRE((wire == 1 || wire == 2 || wire == 5));
      message.emplace(tag >> 3, take(bytes, wire == 1 ? 8 : wire == 5 ? 4 : take_varint(bytes)));
    }
  }
  return message;
}

std::string field(const Message& message, uint64_t number) {
  REQUIRE(message.count(number) == 1);
  return message.find(number)->second;
}

template <typename T>
std::vector<T> numbers_of(const std::string& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

std::vector<Message> events_of(std::string_view file) {
  std::vector<Message> events;
  while (!file.empty()) {
    const uint64_t length = numbers_of<uint64_t>(take(file, 8))[0];
    take(file, 4);
    events.push_back(parse(take(file, length)));
    take(file, 4);
  }
  return events;
}

TEST_CASE("the distribution of a tensor has each finite element once") {
  const std::vector<float> values = {
      -1, 0, 0.5f, 2, 2, std::nanf(""), std::numeric_limits<float>::infinity()};
  const Histogram all = histogram_of(Tensor::of<float>({7}, values));
  CHECK(all.min == -1);
  CHECK(all.max == 2);
  CHECK(all.count == 5);
  CHECK(all.not_finite == 2);
  CHECK(all.sum == 3.5);
  CHECK(all.sum_of_squares == 9.25);
  REQUIRE(all.limits.size() == 30);
  REQUIRE(all.counts.size() == 30);
  CHECK(all.limits.back() == 2);
  CHECK(all.limits[9] == Approx(0));
  CHECK(all.counts[0] == 1);   // -1
  CHECK(all.counts[10] == 1);  // 0 belongs to the part that it begins
  CHECK(all.counts[29] == 2);
  CHECK(std::accumulate(all.counts.begin(), all.counts.end(), 0.0) == 5);

  const Histogram equal = histogram_of(Tensor::of<float>({2}, std::vector<float>{3, 3}));
  CHECK(equal.limits == std::vector<double>{3.5});
  CHECK(equal.counts == std::vector<double>{2});
  CHECK(histogram_of(Tensor::of<float>({0}, std::vector<float>{})).limits.empty());
  const double most = std::numeric_limits<double>::max();
  const Histogram wide = histogram_of(Tensor::of<double>({2}, std::vector<double>{-most, most}));
  CHECK(wide.counts.front() == 1);
  CHECK(wide.counts.back() == 1);
  CHECK(std::isfinite(wide.limits[14]));
}

TEST_CASE("a distribution is an event of its step") {
  EventFile file(12.5);
  file.add_histogram("weights/l1/w", 7,
                     histogram_of(Tensor::of<float>({3}, std::vector<float>{1, 2, 4})));
  const std::vector<Message> events = events_of(file.bytes());
  REQUIRE(events.size() == 2);
  CHECK(field(events[0], 3) == "brain.Event:2");
  CHECK(numbers_of<double>(field(events[1], 1))[0] == 12.5);
  CHECK(numbers_of<int64_t>(field(events[1], 2))[0] == 7);
  const Message value = parse(field(parse(field(events[1], 5)), 1));
  CHECK(field(value, 1) == "weights/l1/w");
  const Message histogram = parse(field(value, 5));
  CHECK(numbers_of<double>(field(histogram, 3))[0] == 3);
  CHECK(numbers_of<double>(field(histogram, 6)).back() == 4);
  CHECK(numbers_of<double>(field(histogram, 7)).front() == 1);
}

TEST_CASE("a graph for TensorBoard has unique names that it takes, with all edges and shapes") {
  const Catalogue catalogue = standard_catalogue();
  Graph graph(catalogue);
  const SymbolId n = graph.symbol("N");
  ValueType type{ValueKind::tensor, DType::f32, SymbolicShape{Dim::of_symbol(n), Dim::of(4)}};
  const ValueId x = graph.add_input("x", type);
  std::vector<ValueId> last = {x};
  for (const char* name : {"/block 1/relu", "/block 1/relu", ""}) {
    const NodeId id = must(graph.add_node("", "Relu", {last.back()}, {}, 1));
    graph.node(id).name = name;
    last.push_back(graph.node(id).outputs[0]);
  }
  const NodeId split = must(graph.add_node("", "Split", {last.back()},
                                           {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, 2));
  graph.node(split).name = "split";
  const NodeId sum = must(graph.add_node(
      "", "Add", {graph.node(split).outputs[0], graph.node(split).outputs[1]}, {}, 1));
  graph.node(sum).name = "sum";
  graph.node(sum).device = "job:worker/task:1/cpu:0";
  graph.node(sum).after = {0};
  graph.set_value_name(graph.node(sum).outputs[0], "y");
  graph.add_output(graph.node(sum).outputs[0]);
  must(validate(graph));

  const Message def = parse(graph_def(graph));
  CHECK(graph_def(graph) == graph_def(Graph(graph)));
  std::map<std::string, Message> nodes;
  for (auto [at, end] = def.equal_range(1); at != end; ++at) {
    const Message node = parse(at->second);
    CHECK(nodes.emplace(field(node, 1), node).second);
  }
  const auto inputs_of = [&](const std::string& name) {
    REQUIRE(nodes.contains(name));
    std::vector<std::string> inputs;
    for (auto [at, end] = nodes.at(name).equal_range(3); at != end; ++at)
      inputs.push_back(at->second);
    return inputs;
  };
  using Names = std::vector<std::string>;
  CHECK(nodes.size() == 7);
  CHECK(field(nodes.at("x"), 2) == "Placeholder");
  CHECK(inputs_of("block_1/relu") == Names{"x"});
  CHECK(inputs_of("block_1/relu_1") == Names{"block_1/relu"});
  CHECK(inputs_of("Relu") == Names{"block_1/relu_1"});
  CHECK(inputs_of("split") == Names{"Relu"});
  CHECK(inputs_of("sum") == Names{"split", "split:1", "^block_1/relu"});
  CHECK(field(nodes.at("sum"), 4) == "job:worker/task:1/cpu:0");
  CHECK(inputs_of("outputs/y") == Names{"sum"});
  // Every input is there.
  for (const auto& [name, node] : nodes) {
    for (std::string input : inputs_of(name)) {
      if (input.starts_with("^")) input.erase(0, 1);
      CHECK(nodes.contains(input.substr(0, input.find(':'))));
    }
  }
  std::map<std::string, Message> attrs;
  const Message& of_split = nodes.at("split");
  for (auto [at, end] = of_split.equal_range(5); at != end; ++at) {
    const Message attr = parse(at->second);
    attrs.emplace(field(attr, 1), parse(field(attr, 2)));
  }
  CHECK(numbers_of<int64_t>(field(attrs.at("axis"), 3))[0] == 1);
  CHECK(numbers_of<int64_t>(field(attrs.at("dtype"), 6))[0] == 1);
  const Message shapes = parse(field(attrs.at("_output_shapes"), 1));
  CHECK(shapes.count(7) == 2);
  const Message shape = parse(shapes.find(7)->second);
  REQUIRE(shape.count(2) == 2);
  const Message batch = parse(shape.find(2)->second);
  CHECK(numbers_of<int64_t>(field(batch, 1))[0] == -1);
  CHECK(field(batch, 2) == "N");
  CHECK(numbers_of<int64_t>(field(parse(std::next(shape.find(2))->second), 1))[0] == 2);
}

}  // namespace
}  // namespace leat

// Messages and files of graphs that say what no writer says: each is refused with its own message.
#include <functional>

#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "ops/capnp/wire_attr.h"
#include "ops/graph/limits.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/ops/text_catalogue.h"

namespace leat {
namespace {

const Catalogue& known_ops() {
  static const Catalogue kOps = text_catalogue();
  return kOps;
}

// g (x of N rows) => (y): one node with a constant of 2 floats and an attribute of another kind.
EncodedGraph good_graph() {
  const auto graph = parse_graph(
      "g (float[N] x) => (y) { c = Constant <value = float[2] {1, 2}> () "
      "y = Elu <alpha = 0.5> (x) }",
      known_ops(), "good");
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  auto encoded = encode_graph(*graph);
  REQUIRE(encoded.ok());
  return *encoded;
}

using Change = std::function<void(wire::Graph::Builder)>;

// The refusal of the graph after the change.
std::string refusal_after(const Change& change, const EncodedGraph& good = good_graph()) {
  EncodedGraph changed = good;
  auto words = WireMessage::open("good", good.message);
  REQUIRE(words.ok());
  capnp::MallocMessageBuilder builder;
  builder.setRoot(words->root<wire::Graph>());
  change(builder.getRoot<wire::Graph>());
  auto bytes = canonical_bytes("changed", builder.getRoot<wire::Graph>().asReader());
  REQUIRE(bytes.ok());
  changed.message = *bytes;
  const auto graph = decode_graph(changed, known_ops());
  return graph.ok() ? "none" : graph.status().message();
}

wire::Region::Builder top(wire::Graph::Builder graph) { return graph.getRegions()[0]; }

// The node with attributes of that kind.
wire::Attr::Builder attribute(wire::Graph::Builder graph, wire::Attr::Which kind) {
  for (auto node : top(graph).getNodes()) {
    for (auto attr : node.getAttrs()) {
      if (attr.which() == kind) return attr;
    }
  }
  FAIL("no such attribute");
  return wire::Attr::Builder(nullptr);
}
wire::Tensor::Builder constant(wire::Graph::Builder graph) {
  return attribute(graph, wire::Attr::TENSOR).getTensor();
}

// Regions `depth` deep in the first.
void nest(wire::Graph::Builder graph, unsigned depth) {
  graph.initOps(1).set(0, "leat.Anything");
  auto regions = graph.initRegions(depth + 1);
  for (unsigned r = 0; r < depth; ++r) {
    auto attr = regions[r].initNodes(1)[0].initAttrs(1)[0];
    attr.setName("g");
    attr.setRegion(r + 1);
  }
}

}  // namespace

TEST_CASE("a graph whose message is changed is refused with the reason") {
  const std::string none = refusal_after([](wire::Graph::Builder) {});
  CHECK(none == "none");
  const auto refused = [](const char* message, const Change& change) {
    CHECK(refusal_after(change) == cat("decoding a graph: ", message));
  };
  refused("expected version 1, received 2", [](auto graph) { graph.setVersion(2); });
  refused("expected a graph, there is none", [](auto graph) { graph.initRegions(0); });
  refused("expected every region to be used", [](auto graph) {
    const auto one = graph.disownRegions();
    graph.initRegions(2).setWithCaveats(0, one.getReader()[0]);
  });
  refused("expected symbols with names of their own, without '*'",
          [](auto graph) { top(graph).getSymbols()[0].setName(""); });
  refused("expected symbols with names of their own, without '*'",
          [](auto graph) { top(graph).getSymbols()[0].setName("2*N"); });
  refused("expected symbols with names of their own, without '*'", [](auto graph) {
    for (auto symbol : top(graph).initSymbols(2)) symbol.setName("N");
  });
  refused("expected a bound of at least 0", [](auto graph) {
    top(graph).getSymbols()[0].setBounded(true);
    top(graph).getSymbols()[0].setBound(-1);
  });
  refused("expected a kind of value, received 4",
          [](auto graph) { top(graph).getInputs()[0].setKind(4); });
  refused("expected an element type, received 99",
          [](auto graph) { top(graph).getInputs()[0].setDtype(99); });
}

TEST_CASE("an attribute whose message is changed is refused with the reason") {
  const auto refused = [](const char* message, const Change& change) {
    CHECK(refusal_after(change) == cat("decoding a graph: ", message));
  };
  refused("expected an attribute's name, received 'no name'",
          [](auto graph) { attribute(graph, wire::Attr::FLOAT).setName("no name"); });
  refused("expected an attribute's name, received 'after'",
          [](auto graph) { attribute(graph, wire::Attr::FLOAT).setName("after"); });
  refused("expected each attribute of a node once", [](auto graph) {
    for (auto attr : top(graph).getNodes()[1].initAttrs(2)) attr.setName("alpha");
  });
  refused("expected a constant with an element type",
          [](auto graph) { constant(graph).setDtype(0); });
  refused("expected a constant with sizes of at least 0 and at most 2^40 elements",
          [](auto graph) { constant(graph).setDims({-1}); });
  refused("expected a constant with sizes of at least 0 and at most 2^40 elements",
          [](auto graph) { constant(graph).setDims({limits::kElements + 1}); });
  refused("expected a constant of 12 bytes, received 8",
          [](auto graph) { constant(graph).setDims({3}); });
  refused("expected the bytes of a constant", [](auto graph) {
    // A member of the union that this build does not know; its number stands behind `dtype`.
    auto data = capnp::toAny(constant(graph)).getDataSection();
    data[2] = 9;
  });
  refused("expected a constant of 8 bytes in chunks of 1 MiB, received 1 chunks",
          [](auto graph) { constant(graph).initChunks(1); });
}

TEST_CASE("a constant in chunks that are not its own is refused") {
  Graph graph(known_ops());
  graph.add_node(*known_ops().find("Constant"), {},
                 {{"value", Tensor(DType::u8, Shape{static_cast<int64_t>(kChunkBytes) + 9})}}, 1);
  const auto good = encode_graph(graph);
  REQUIRE(good.ok());
  const auto refused = [&](const std::string& message, const Change& change) {
    CHECK(refusal_after(change, *good) == "decoding a graph: " + message);
  };
  const auto chunks = [](wire::Graph::Builder changed) { return constant(changed).getChunks(); };
  const std::string whole = cat("expected a constant of ", kChunkBytes + 9, " bytes");
  refused(whole + " in chunks of 1 MiB, received 1 chunks",
          [](auto changed) { constant(changed).initChunks(1); });
  const std::string each = "expected chunks of 1 MiB with a digest of 32 bytes";
  refused(each, [&](auto changed) { chunks(changed)[0].setSize(kChunkBytes - 1); });
  refused(each, [&](auto changed) { chunks(changed)[1].setSize(kChunkBytes); });
  refused(each, [&](auto changed) { chunks(changed)[1].initSha256(31); });
}

TEST_CASE("graphs nest as deep as the limit and no deeper") {
  const auto at = [](unsigned depth) {
    return refusal_after([depth](wire::Graph::Builder graph) { nest(graph, depth); });
  };
  CHECK(at(limits::kNesting) == "none");
  CHECK(at(limits::kNesting + 1) ==
        cat("decoding a graph: expected at most ", limits::kNesting, " nested graphs"));
}

TEST_CASE("a message that has no words is refused with its size") {
  const EncodedGraph good = good_graph();
  for (const size_t size : {size_t{0}, size_t{7}, good.message.size() - 1}) {
    EncodedGraph cut = good;
    cut.message.resize(size);
    CHECK(decode_graph(cut, known_ops()).status().message() ==
          cat("decoding a graph: expected a message of 8 bytes to ",
              human_bytes(limits::kMessageBytes), " in words, received ", size, " bytes"));
  }
  CHECK(WireMessage::open("here", good.message, good.message.size() - 8).status().message() ==
        cat("here: expected a message of 8 bytes to ", human_bytes(good.message.size() - 8),
            " in words, received ", good.message.size(), " bytes"));
}

TEST_CASE("a file with something between its chunks is refused") {
  EncodedGraph encoded = good_graph();
  encoded.chunks.push_back({{}, Bytes(5, std::byte{1})});
  Bytes file = pack_graph_file(encoded);
  CHECK(unpack_graph_file(file).ok());
  file.back() = std::byte{1};
  seal_graph_file(file);
  CHECK(unpack_graph_file(file).status().message().find("expected zeros between chunks") !=
        std::string::npos);
}

TEST_CASE("a graph that has no bytes of its own is not encoded") {
  Graph nothing(known_ops());
  nothing.name = "g";
  nothing.set_outputs({kNone});
  CHECK(encode_graph(nothing).status().message() ==
        "encoding graph 'g': output 0 is no value of the graph");

  Graph untyped(known_ops());
  untyped.add_node(*known_ops().find("Constant"), {}, {{"value", Tensor()}}, 1);
  CHECK(encode_graph(untyped).status().message().find("expected a tensor, it has no type") !=
        std::string::npos);
}

}  // namespace leat

#include "ops/capnp/graph_file.h"

#include <cstring>

#include "ops/graph/limits.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/catch.h"
#include "tests/ops/random_graph.h"

using namespace leat;

namespace {

const Catalogue& ops() {
  static const Catalogue kOps = text_catalogue();
  return kOps;
}

template <typename T>
T must(Result<T> result) {
  INFO(result.status().message());
  REQUIRE(result.ok());
  return std::move(result).value();
}

// A graph with one constant of `bytes` bytes, 0, 1, 2, ...
Graph with_constant(int64_t bytes) {
  Graph g(ops());
  Tensor t(DType::u8, Shape{bytes});
  for (int64_t i = 0; i < bytes; ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7 + i / 251);
  g.add_node(*ops().find("Constant"), {}, {{"value", t}}, 1);
  g.set_outputs({0});
  return g;
}

}  // namespace

TEST_CASE("a graph comes back equal from its bytes") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Graph made = testing::GraphMaker(ops(), seed).graph(0);
    const Bytes file = must(write_graph(made));
    const Graph read = must(read_graph(file, ops()));
    testing::check_equal(made, read);
    REQUIRE(must(write_graph(read)) == file);
  }
}

TEST_CASE("the text and the bytes of a graph say the same") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Graph made = testing::GraphMaker(ops(), seed).graph(0);
    const Graph text = must(parse_graph(print_graph(made), ops(), "text"));
    const Graph read = must(read_graph(must(write_graph(text)), ops()));
    CHECK(print_graph(read) == print_graph(must(read_graph(must(write_graph(text)), ops()))));
    testing::check_equal(text, read);
  }
}

TEST_CASE("equal graphs have one hash, others have another") {
  const std::string text = "g (float[N] x) => (y) { y = Elu <alpha = 0.5> (x) }";
  const Graph a = must(parse_graph(text, ops(), "a"));
  const std::string hash = must(graph_hash(a));
  CHECK(hash.size() == 64);
  CHECK(must(graph_hash(must(parse_graph(text, ops(), "b")))) == hash);

  // The order in which nodes were added is not part of a graph, nor is an unused symbol.
  Graph b(ops());
  b.name = "g";
  b.fresh_symbol();
  b.add_input("x", {ValueKind::tensor, DType::f32, {Dim::of_symbol(b.symbol("N"))}});
  b.add_node(*ops().find("Elu"), {0}, {{"alpha", 0.5}}, 1);
  b.set_value_name(1, "y");
  b.set_outputs({1});
  CHECK(must(graph_hash(b)) == hash);

  b.node(0).attrs["alpha"] = 0.25;
  CHECK(must(graph_hash(b)) != hash);
}

TEST_CASE("the bytes of a graph stay the same from version to version") {
  const Graph g = must(parse_graph("g (float[2] x) => (y) { y = Relu (x) }", ops(), "g"));
  CHECK(must(graph_hash(g)) == "ba8e0275d846e5d80e3b0f54b885ae2870abc15e9c0317c130e72e4cc9ac4c17");
}

TEST_CASE("constants beyond 4096 bytes stand outside in chunks, each once") {
  CHECK(must(encode_graph(with_constant(4096))).chunks.empty());
  CHECK(must(encode_graph(with_constant(4097))).chunks.size() == 1);
  const Graph g = with_constant(2 * static_cast<int64_t>(kChunkBytes) + 5);
  const EncodedGraph encoded = must(encode_graph(g));
  CHECK(encoded.chunks.size() == 3);
  CHECK(encoded.message.size() < 1024);
  testing::check_equal(g, must(decode_graph(encoded, ops())));

  Graph zeros(ops());
  for (int i = 0; i < 2; ++i) {
    const Tensor t(DType::f32, Shape{3 * (1 << 18)});
    zeros.add_node(*ops().find("Constant"), {}, {{"value", t}}, 1);
  }
  CHECK(must(encode_graph(zeros)).chunks.size() == 1);
  testing::check_equal(zeros, must(decode_graph(must(encode_graph(zeros)), ops())));
}

TEST_CASE("a missing or a changed chunk is found") {
  EncodedGraph encoded = must(encode_graph(with_constant(5000)));
  EncodedGraph without = encoded;
  without.chunks.clear();
  CHECK(decode_graph(without, ops()).status().message().find("is missing") != std::string::npos);
  encoded.chunks[0].bytes[17] ^= std::byte{1};
  CHECK(decode_graph(encoded, ops()).status().message().find("another digest") !=
        std::string::npos);
  encoded.chunks[0].bytes.pop_back();
  CHECK(decode_graph(encoded, ops()).status().message().find("expected 5000 bytes") !=
        std::string::npos);
}

TEST_CASE("an op that this build lacks is named") {
  const Graph g = must(parse_graph("g (float[2] x) => (y) { y = Relu (x) }", ops(), "g"));
  Catalogue few;
  few.add(Op("Elu"));
  CHECK(read_graph(must(write_graph(g)), few).status().message().find("received 'Relu'") !=
        std::string::npos);
}

TEST_CASE("a shared region and a cycle are refused") {
  Graph shared(ops());
  const auto region = std::make_shared<Graph>(ops());
  shared.add_node(*ops().find("If"), {kNone}, {{"then_branch", region}, {"else_branch", region}},
                  0);
  CHECK(encode_graph(shared).status().message().find("each region once") != std::string::npos);

  Graph cycle(ops());
  cycle.add_node(*ops().find("Relu"), {kNone}, {}, 1);
  cycle.node(0).inputs[0] = 0;
  CHECK(encode_graph(cycle).status().code() == Code::invalid_argument);
}

TEST_CASE("no cut file and no flipped byte crashes the reader") {
  const Graph g = must(parse_graph(R"(<metadata_props: ["leat.bounds": "N<=3"]>
      g (float[N,"2*N"] x, optional(float[2]) r) => (y) <float[2] w = {1, -2.5e3}> {
      [n] t = leat.Anything <a = [1], b = [0.5], s = "x", ss = ["a", "b"],
                             g = r () => (v) { v = Relu (x) }> (x, , w)
      y = Relu (t) <after = ["t"], device = "cpu:0"> })",
                                   ops(), "g"));
  Graph with = g;
  with.add_node(*ops().find("Constant"), {}, {{"value", Tensor(DType::f32, Shape{2000})}}, 1);
  const Bytes file = must(write_graph(with));
  for (size_t n = 0; n < file.size(); n += n < 1500 ? 1 : 97) {
    CHECK_FALSE(read_graph(std::span(file).first(n), ops()).ok());
  }
  size_t read = 0;
  for (size_t i = 0; i < file.size(); i += i < 1500 ? 1 : 97) {
    for (const int bit : {0, 3, 7}) {
      Bytes broken = file;
      broken[i] ^= std::byte{static_cast<uint8_t>(1 << bit)};
      REQUIRE_FALSE(read_graph(broken, ops()).ok());  // every one is found by the checksum
      seal_graph_file(broken);
      const Result<Graph> graph = read_graph(broken, ops());
      if (graph.ok()) {
        ++read;  // a name, a number: still a graph, and one that can be printed
        CHECK_FALSE(print_graph(*graph).empty());
      }
    }
  }
  CHECK(read > 0);
}

TEST_CASE("a message that promises much is refused before memory is taken") {
  // A list of 2^29 structs without a body takes one word.
  Bytes message(16);
  const uint64_t root = 0x0003'0001'0000'0000;  // struct: 1 word of data, 3 pointers
  std::memcpy(message.data(), &root, 8);
  message.resize(8 * 5);
  const uint64_t version = 1;
  std::memcpy(message.data() + 8, &version, 8);
  const uint64_t regions = (uint64_t{7} << 32) | 1 | (uint64_t{0} << 35);
  std::memcpy(message.data() + 24, &regions, 8);
  const ChunkSource none = [](const Sha256Digest&) -> Result<std::span<const std::byte>> {
    return invalid_argument("none");
  };
  CHECK_FALSE(decode_graph(message, none, ops()).ok());
  CHECK_FALSE(decode_graph({}, none, ops()).ok());
  CHECK_FALSE(decode_graph(Bytes(7), none, ops()).ok());
}

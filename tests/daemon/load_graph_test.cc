#include "daemon/spec/load_graph.h"

#include "ops/catalogue.h"
#include "ops/graph/validate.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr std::string_view kText = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
product (float[N,4] a, float[4,2] b) => (float[N,2] c) {
  c = MatMul (a, b)
}
)";

void write_graph(const std::string& path, std::string_view text) {
  REQUIRE(write_file_atomically(real_files(), path, std::as_bytes(std::span(text))).ok());
}

std::string load_error(const std::string& path) {
  const Catalogue catalogue = standard_catalogue();
  const auto loaded = load_graph(real_files(), path, catalogue, {});
  return loaded.ok() ? "(no error)" : loaded.status().to_string();
}

// Adds the types of the outputs, which .leat does not keep because they follow from the rest.
std::string typed_text(Graph graph) {
  REQUIRE(validate(graph).message() == "");
  return print_graph(graph);
}

TEST_CASE("a graph is the same whichever file it went through") {
  const TemporaryDirectory folder;
  const Catalogue catalogue = standard_catalogue();
  const std::string first = folder / "a.onnxtxt", bytes = folder / "b.leat";
  write_graph(first, kText);
  const auto text = load_graph(real_files(), first, catalogue, {});
  REQUIRE(text.status().message() == "");
  REQUIRE(save_graph(real_files(), bytes, text->graph).ok());
  const auto again = load_graph(real_files(), bytes, catalogue, {});
  REQUIRE(again.status().message() == "");
  CHECK(typed_text(again->graph) == kText);
  REQUIRE(save_graph(real_files(), first, again->graph).ok());
  const auto last = load_graph(real_files(), first, catalogue, {});
  REQUIRE(last.status().message() == "");
  CHECK(typed_text(last->graph) == kText);
}

TEST_CASE("a graph of more nodes over all shards than can be planned is refused with the limit") {
  const TemporaryDirectory folder;
  const Catalogue catalogue = standard_catalogue();
  write_graph(folder / "a.onnxtxt", kText);
  const auto loaded = load_graph(real_files(), folder / "a.onnxtxt", catalogue, {});
  REQUIRE(loaded.status().message() == "");
  const auto most = static_cast<int64_t>(kMostShardNodes);  // of a graph with one node
  CHECK(check_size("a.onnxtxt", loaded->graph, most).message() == "");
  CHECK(check_size("a.onnxtxt", loaded->graph, most + 1).to_string() ==
        "invalid_argument: graph file 'a.onnxtxt': expected at most 200000 nodes over all shards, "
        "its layers expanded, received 1 in each of 200001 shards; make the graph smaller, or "
        "change shards");
}

TEST_CASE("a graph file that cannot be read says which and why") {
  const TemporaryDirectory folder;
  CHECK(load_error(folder / "none.onnxtxt").starts_with("failed_precondition: "));
  CHECK_THAT(load_error(folder / "none.onnxtxt"), Catch::Contains("none.onnxtxt"));
  CHECK(load_error("model.h5") ==
        "invalid_argument: graph file 'model.h5': expected a name that ends in .onnxtxt, .onnx or "
        ".leat");
  write_graph(folder / "bad.onnxtxt", "<ir_version: 10>\nnet (");
  CHECK_THAT(load_error(folder / "bad.onnxtxt"), Catch::Contains("bad.onnxtxt:2:6: expected"));
  for (const char* name : {"bad.leat", "bad.onnx"}) {
    write_graph(folder / name, "this is no graph");
    INFO(name);
    CHECK(load_error(folder / name).starts_with("invalid_argument: "));
    CHECK_THAT(load_error(folder / name), Catch::Contains(name));
  }
}

TEST_CASE("a graph is not written as .onnx, and a good file stays when writing fails") {
  const TemporaryDirectory folder;
  const Catalogue catalogue = standard_catalogue();
  const auto graph = parse_graph(kText, catalogue, "a.onnxtxt");
  REQUIRE(graph.status().message() == "");
  CHECK(save_graph(real_files(), folder / "a.onnx", *graph).code() == Code::unimplemented);
  CHECK_FALSE(save_graph(real_files(), folder / "none/a.leat", *graph).ok());
  CHECK(real_files().list(folder.path())->empty());
}

}  // namespace
}  // namespace leat

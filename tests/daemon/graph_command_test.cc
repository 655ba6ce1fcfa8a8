#include <map>

#include "daemon/cli/commands.h"
#include "daemon/cli/op_table.h"
#include "devices/base/files.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

// As it is printed, so that it can be compared.
constexpr const char* kLayers = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,4] x) => (float[N,3] y) {
  h = leat.Dense <activation = "relu", units = 5> (x)
  y = leat.Dense <units = 3> (h)
}
)";

void write_layers(const std::string& path, const std::string& text) {
  REQUIRE(write_file_atomically(real_files(), path, std::as_bytes(std::span(text))).ok());
}

TEST_CASE("graph files convert from text to bytes and back") {
  const TemporaryDirectory folder;
  write_layers(folder / "a.onnxtxt", kLayers);
  CHECK(run_graph_convert({folder / "a.onnxtxt", folder / "b.leat", {}}) == kExitOk);
  CHECK(run_graph_convert({folder / "b.leat", folder / "c.onnxtxt", {}}) == kExitOk);
  const auto bytes = read_file(real_files(), folder / "c.onnxtxt", 1 << 20);
  REQUIRE(bytes.ok());
  CHECK(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) == kLayers);
}

TEST_CASE("graph files with regions convert from text to bytes and back") {
  constexpr const char* kRegions = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[2] x, bool c) => (y) {
  y = If (c, x) <captures = 1, else_branch = b (x) => (q) {
      q = Abs (x)
    }, then_branch = a (x) => (p) {
      p = Neg (x)
    }>
}
)";
  const TemporaryDirectory folder;
  write_layers(folder / "a.onnxtxt", kRegions);
  CHECK(run_graph_check({folder / "a.onnxtxt", {}}) == kExitOk);
  CHECK(run_graph_show({folder / "a.onnxtxt", false, {}}) == kExitOk);
  CHECK(run_graph_convert({folder / "a.onnxtxt", folder / "b.leat", {}}) == kExitOk);
  CHECK(run_graph_convert({folder / "b.leat", folder / "c.onnxtxt", {}}) == kExitOk);
  const auto bytes = read_file(real_files(), folder / "c.onnxtxt", 1 << 20);
  REQUIRE(bytes.ok());
  CHECK(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) == kRegions);
}

TEST_CASE("the graph commands' exit codes say what is wrong") {
  const TemporaryDirectory folder;
  write_layers(folder / "good.onnxtxt", kLayers);
  write_layers(folder / "bad.onnxtxt", "<ir_version: 10>\nnet (");
  write_layers(folder / "bad.leat", "not a graph");
  write_layers(folder / "good.yaml", kLayers);
  CHECK(run_graph_check({folder / "good.onnxtxt", {}}) == kExitOk);
  CHECK(run_graph_check({folder / "none.onnxtxt", {}}) == kExitNoSuch);
  CHECK(run_graph_check({folder / "bad.onnxtxt", {}}) == kExitInvalid);
  CHECK(run_graph_check({folder / "bad.leat", {}}) == kExitInvalid);
  CHECK(run_graph_check({folder / "good.yaml", {}}) == kExitInvalid);
  CHECK(run_graph_show({folder / "bad.onnxtxt", false, {}}) == kExitInvalid);
  CHECK(run_graph_convert({folder / "good.onnxtxt", folder / "out.onnx", {}}) == kExitInvalid);
  CHECK(run_graph_convert({folder / "good.onnxtxt", folder / "none/out.leat", {}}) == kExitFailed);
}

TEST_CASE("inputs that are fixed are constants of the graph that is written") {
  constexpr const char* kReshaped = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,4] x, int64[2] sizes, float[2] w) => (y) {
  y = Reshape (x, sizes)
}
)";
  const TemporaryDirectory folder;
  const std::string in = folder / "a.onnxtxt", out = folder / "b.onnxtxt";
  write_layers(in, kReshaped);
  Tensor w = Tensor::of<double>({2}, {0.5, -1});
  REQUIRE(write_npy(real_files(), folder / "w.npy", w).ok());
  CHECK(run_graph_convert({in, out, {}, {"sizes=[2, -1]", "w=" + (folder / "w.npy")}}) == kExitOk);
  const auto bytes = read_file(real_files(), out, 1 << 20);
  REQUIRE(bytes.ok());
  const std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  INFO(text);
  CHECK(text.find("net (float[N,4] x) =>") != std::string::npos);
  CHECK(text.find("int64[2] {2, -1}") != std::string::npos);
  CHECK(text.find("float[2] {0.5, -1}") != std::string::npos);
  CHECK(run_graph_check({in, {}, {"sizes=[2, -1]"}}) == kExitOk);
  for (const char* wrong :
       {"size=[2, -1]", "sizes=[2, -1, 3]", "sizes=two", "sizes", "sizes=1.5"}) {
    INFO(wrong);
    CHECK(run_graph_check({in, {}, {wrong}}) == kExitInvalid);
  }
  CHECK(run_graph_check({in, {}, {"w=[1, 2]", "w=[1, 2]"}}) == kExitInvalid);
  CHECK(run_graph_convert({in, folder / "c.leat", {}}) == kExitOk);
  CHECK(run_graph_check({folder / "c.leat", {}, {"sizes=[2, -1]"}}) != kExitOk);
}

TEST_CASE("the page about the ops is the table that the command prints") {
  const auto page = read_file(real_files(), LEAT_SOURCE_DIR "/docs/ops.md", 1 << 20);
  REQUIRE(page.ok());
  INFO("make it again: leat graph ops --markdown > docs/ops.md");
  CHECK(std::string(reinterpret_cast<const char*>(page->data()), page->size()) ==
        op_page(standard_catalogue()));
}

TEST_CASE("the table of ops tells gradients, composites and refusals") {
  const Catalogue catalogue = standard_catalogue();
  std::map<std::string, OpRow> rows;
  for (const OpRow& row : op_rows(catalogue)) {
    INFO(row.name);
    CHECK(rows.emplace(row.name, row).second);
    CHECK((row.gradient == "composite" || !row.types.empty() || row.devices.size() < 2));
  }
  CHECK(rows.at("Attention").gradient == "yes");
  CHECK(rows.at("Attention").opset == 25);
  CHECK(rows.at("Attention").types == "floats");
  CHECK(rows.at("Attention").devices == std::vector<std::string>{"cpu"});
  CHECK(rows.at("Equal").gradient == "no");
  CHECK(rows.at("Mish").gradient == "composite");
  CHECK(rows.at("leat.Dense").gradient == "composite");
  CHECK(rows.at("ai.onnx.ml.Binarizer").domain == "ai.onnx.ml");
  CHECK_FALSE(rows.contains("SequenceMap"));
  const std::string json = op_lines_json(catalogue);
  CHECK_THAT(json,
             Catch::Contains(R"("kind": "Op", "name": "Attention", "domain": "", "opset": 25,)"));
  CHECK_THAT(json, Catch::Contains(
                       R"("kind": "RefusedOp", "name": "SequenceMap", "domain": "", "reason": ")"));
}

}  // namespace
}  // namespace leat

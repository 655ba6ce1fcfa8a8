#include "daemon/cli/commands.h"
#include "devices/base/files.h"
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

}  // namespace
}  // namespace leat

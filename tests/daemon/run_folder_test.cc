// Moves a run's folder to another place. The run must resume there, with the same result as here.
#include "daemon/training/run_folder.h"

#include <filesystem>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/jobs/blobs.h"
#include "daemon/master/submitted_job.h"
#include "daemon/spec/load_graph.h"
#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/metrics_text.h"
#include "tests/must.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

// Writes a field of a protobuf message, and one of a small number.
std::string part(int number, const std::string& bytes) {
  std::string out{static_cast<char>(number << 3 | 2)};
  if (bytes.size() >= 128) out += static_cast<char>(bytes.size() % 128 + 128);
  return out + static_cast<char>(bytes.size() < 128 ? bytes.size() : bytes.size() / 128) + bytes;
}
std::string part(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

std::string value_info(const std::string& name, int columns) {
  const std::string shape = part(1, part(2, "N")) + part(1, part(1, columns));
  return part(1, name) + part(2, part(1, part(1, 1) + part(2, shape)));
}

// Returns a model of y = MatMul(x, w), whose w is in the file `data` beside it.
std::string model_with_data(const std::string& data) {
  const std::string where = part(1, "location") + part(2, data);
  const std::string w =
      part(1, 4) + part(1, 3) + part(2, 1) + part(8, "w") + part(13, where) + part(14, 1);
  const std::string node = part(1, "x") + part(1, "w") + part(2, "y") + part(4, "MatMul");
  const std::string graph = part(1, node) + part(2, "g") + part(5, w) +
                            part(11, value_info("x", 4)) + part(12, value_info("y", 3));
  return part(1, 8) + part(8, part(2, 17)) + part(7, graph);
}
std::string data_of_w() {
  std::string bytes;
  for (int i = 0; i < 12; ++i) bytes += std::string({'\x00', '\x00', static_cast<char>(i), '\x3e'});
  return bytes;
}

// Moves the run, resumes it from its first checkpoint, and compares the files that it writes.
void goes_on_elsewhere(const TinyJob& tiny, const std::vector<std::string>& more = {}) {
  const std::string weights = tiny.read("run/weights.safetensors");
  const std::string metrics = tiny.read("run/metrics.jsonl");
  fs::create_directories(tiny.folder() + "/far");
  fs::rename(tiny.folder() + "/run", tiny.folder() + "/far/away");
  fs::remove_all(tiny.folder() + "/far/away/checkpoints/step-00000008");
  fs::remove(tiny.folder() + "/far/away/weights.safetensors");
  std::vector<std::string> arguments = {"train", "--resume", "far/away", "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished done = tiny.leat(arguments);
  check_ok(done);
  CHECK_THAT(done.err, Contains("Going on after step 4"));
  CHECK(tiny.read("far/away/weights.safetensors") == weights);
  CHECK(without_timing(tiny.read("far/away/metrics.jsonl")) == without_timing(metrics));
}

TEST_CASE("the data of an ONNX file of weights is submitted with it") {
  const TinyJob tiny;
  fs::create_directories(tiny.folder() + "/deep");
  tiny.write("deep/w.bin", data_of_w());
  tiny.write("w.onnx", model_with_data("deep/w.bin"));
  const auto data = must(data_of_weights(real_files(), tiny.folder() + "/w.onnx"));
  REQUIRE(data.size() == 1);
  CHECK(must(data_name(data[0], tiny.folder() + "/w.onnx")) == "deep/w.bin");
  CHECK(must(data_of_weights(real_files(), tiny.folder() + "/w.npz")).empty());
}

TEST_CASE("a run goes on elsewhere, without the files that it was made of") {
  const TinyJob tiny;
  check_ok(tiny.train("weights"));
  fs::rename(tiny.folder() + "/weights/weights.safetensors", tiny.folder() + "/w.safetensors");
  check_ok(tiny.train("run", {{"net.onnxtxt}", "net.onnxtxt, weights: w.safetensors}"}}));
  CHECK_THAT(tiny.read("run/job.yaml"), Contains("model: {graph: net.onnxtxt"));
  for (const char* gone : {"net.onnxtxt", "job.yaml", "w.safetensors"})
    fs::remove(tiny.folder() + "/" + gone);
  goes_on_elsewhere(tiny);
}

TEST_CASE("a run says how to name its data where they are at another place") {
  const TinyJob tiny;
  check_ok(tiny.train("run"));
  fs::create_directories(tiny.folder() + "/data");
  for (const char* name : {"x", "y"})
    fs::rename(tiny.folder() + "/" + name, tiny.folder() + "/data/" + name);
  const std::string text = tiny.read("run/job.yaml");
  const size_t root = text.find("  root: ");
  REQUIRE(root != std::string::npos);
  const std::string line = text.substr(root, text.find('\n', root) - root);
  tiny.write("run/job.yaml", with(text, line, "  root: fashion-mnist"));
  const Finished lost = tiny.leat({"train", "--resume", "run"});
  CHECK(lost.exit_code == kExitNoSuch);
  CHECK_THAT(lost.err, Contains("no such data root") && Contains("--set data.root=PATH"));
  goes_on_elsewhere(tiny, {"--set", "data.root=" + tiny.folder() + "/data"});
}

TEST_CASE("a run has its graph's data, which goes elsewhere with it") {
  const TinyJob tiny;
  tiny.write("m.onnx", model_with_data("parts/w.bin"));
  fs::create_directories(tiny.folder() + "/parts");
  tiny.write("parts/w.bin", data_of_w());
  check_ok(tiny.train("run", {{"net.onnxtxt", "m.onnx"}}));
  CHECK_THAT(tiny.read("run/job.yaml"), Contains("model: {graph: graph/m.onnx}"));
  CHECK(tiny.read("run/graph/parts/w.bin") == data_of_w());
  fs::remove(tiny.folder() + "/m.onnx");
  fs::remove_all(tiny.folder() + "/parts");
  goes_on_elsewhere(tiny);
}

TEST_CASE("a run of an older version, which names its graph by its path, goes on") {
  const TinyJob tiny;
  check_ok(tiny.train("run"));
  tiny.write("run/job.yaml", with(tiny.read("run/job.yaml"), "graph: net.onnxtxt",
                                  "graph: " + tiny.folder() + "/net.onnxtxt"));
  fs::remove(tiny.folder() + "/net.onnxtxt");
  goes_on_elsewhere(tiny);
  CHECK_THAT(tiny.read("far/away/job.yaml"), Contains("model: {graph: net.onnxtxt"));
}

TEST_CASE("a graph whose data were uploaded is one that a job can be submitted with") {
  const TinyJob tiny;
  Blobs blobs(real_files(), tiny.folder() + "/blobs");
  const std::string data = data_of_w();
  const auto bytes = std::as_bytes(std::span(data));
  AttachedFile blob = attach("graph/w.bin", data);
  must(blobs.put(blob.sha256, bytes));
  blob.bytes.reset();
  Submission submission;
  submission.request_id = "r";
  submission.text = tiny.read("job.yaml");
  submission.overrides = {"model.graph=graph/m.onnx"};
  submission.files = {attach("graph/m.onnx", model_with_data("w.bin")), blob};
  const Catalogue catalogue = standard_catalogue();
  const auto checked =
      check_submitted_job(real_files(), catalogue, blobs, submission, tiny.folder() + "/check");
  INFO(checked.status());
  CHECK(checked.ok());
}

TEST_CASE("files of a job that cannot lie in one folder are refused") {
  const TemporaryDirectory folder;
  const Blobs blobs(real_files(), folder / "blobs");
  Submission submission;
  submission.files = {attach("a", "a file"), attach("a/b", "and a file in it")};
  const std::string path = folder / "job";
  CHECK(unpack(submission, blobs, path).message() ==
        "'" + path + "/a': making the folder failed: Not a directory");
  const std::string below = path + "/a/job";
  CHECK(unpack(Submission(), blobs, below).message() ==
        "'" + below + "': making the folder failed: Not a directory");
}

TEST_CASE("a run is submitted for at least the steps that it has done") {
  const TinyJob tiny;
  check_ok(tiny.train("run"));
  // There is no master. The command looks for one only after it has accepted the job.
  const auto submit = [&](const std::string& set) {
    return tiny.leat({"submit", "--resume", "run", "--master", "127.0.0.1:1", "--timeout", "1ms",
                      "--wait", "--set", set});
  };
  check_refused(submit("steps=7"), kExitInvalid,
                {"checkpoint of step 8", "expected at most 7, the steps of the job"});
  check_refused(submit("seed=9"), kExitInvalid, {"checkpoint of step 8", "received seed 9"});
  CHECK(submit("steps=8").exit_code != kExitInvalid);
}

TEST_CASE("a path is below a folder by its text") {
  CHECK(name_below("/a/b/c", "/a") == "b/c");
  CHECK(name_below("/a/b/../c", "/a/") == "c");
  CHECK(name_below("/a", "/a").empty());
  CHECK(name_below("/ab/c", "/a").empty());
  CHECK(name_below("/a/../b", "/a").empty());
  CHECK(name_below("", "/a").empty());  // a job without data has no root
  CHECK(name_below("x/y", "x") == "y");
}

}  // namespace
}  // namespace leat

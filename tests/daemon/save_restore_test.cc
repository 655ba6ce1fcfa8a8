// Save and Restore in sessions and in programs.
#include <filesystem>
#include <fstream>

#include "ops/formats/safetensors.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/session_testing.h"
#include "tests/daemon/training_testing.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using testing::check_says;
using testing::floats;
using testing::SessionGraph;
using Texts = std::vector<std::string>;

// "save" and "restore" of the variable v, on these devices.
const Graph& saving_graph(SessionGraph& g, const std::string& device = "") {
  testing::basic_graph(g);
  const ValueId v = *g.graph.find_value("v");
  const Attrs file = {{"path", std::string("deep/v.safetensors")}, {"names", Texts{"v"}}};
  const ValueId read = g.value("now", "leat.Read", {v});
  const NodeId save = g.effect("save", "leat.Save", {read}, file);
  const ValueId saved = g.value("saved", "leat.Restore", {read}, file, device);
  g.graph.node(save).device = device;
  g.effect("restore", "leat.Assign", {v, saved});
  return g.get();
}

TEST_CASE("a session saves variables, and another one restores them") {
  const TemporaryDirectory folder;
  const Catalogue catalogue = standard_catalogue();
  SessionGraph g(catalogue);
  const Graph& graph = saving_graph(g);
  {
    const auto hosts = make_local_hosts(1, 1);
    set_save_folder(hosts->hosts(), "job", folder.path());
    const auto session = must(Session::open(*hosts, {}));
    must(session->extend(0, graph).status());
    must(session->run({}, {}, {"init"}).status());
    must(session->run({{"to", floats({3, 4})}}, {}, {"assign"}).status());
    must(session->run({}, {}, {"save"}).status());
    must(session->run({{"to", floats({5, 6})}}, {}, {"assign"}).status());
    CHECK(floats(must(session->run({}, {"saved"}, {}))[0]) == std::vector<float>{3, 4});
    must(session->run({}, {}, {"restore"}).status());
    CHECK(floats(must(session->run({}, {"value"}, {}))[0]) == std::vector<float>{3, 4});
  }
  const auto file = must(read_safetensors(real_files(), folder / "deep/v.safetensors"));
  CHECK(floats(file.tensors.at("v")) == std::vector<float>{3, 4});
  const auto hosts = make_local_hosts(1, 1);
  set_save_folder(hosts->hosts(), "job", folder.path());
  const auto session = must(Session::open(*hosts, {}));
  must(session->extend(0, graph).status());
  must(session->run({}, {}, {"init"}).status());
  must(session->run({}, {}, {"restore"}).status());
  CHECK(floats(must(session->run({}, {"value"}, {}))[0]) == std::vector<float>{3, 4});
}

TEST_CASE("values of another host travel to the host that saves them") {
  const TemporaryDirectory folder;
  const Catalogue catalogue = standard_catalogue();
  SessionGraph g(catalogue);
  const Graph& graph = saving_graph(g, "job:worker/task:1");
  const auto hosts = make_local_hosts(2, 1);
  set_save_folder(hosts->hosts(), "job", folder.path());
  const auto session = must(Session::open(*hosts, {}));
  must(session->extend(0, graph).status());
  must(session->run({}, {}, {"init"}).status());
  must(session->run({{"to", floats({3, 4})}}, {}, {"assign"}).status());
  must(session->run({}, {}, {"save"}).status());
  must(session->run({}, {}, {"init"}).status());
  must(session->run({}, {}, {"restore"}).status());
  CHECK(floats(must(session->run({}, {"value"}, {}))[0]) == std::vector<float>{3, 4});
}

TEST_CASE("a session without a folder refuses to save, and goes on") {
  const Catalogue catalogue = standard_catalogue();
  SessionGraph g(catalogue);
  const Graph& graph = saving_graph(g);
  const auto hosts = make_local_hosts(1, 1);
  const auto session = must(Session::open(*hosts, {}));
  must(session->extend(0, graph).status());
  must(session->run({}, {}, {"init"}).status());
  check_says(session->run({}, {}, {"save"}).status(), Code::failed_precondition,
             "this host has no folder for files of the job");
  must(session->run({}, {"value"}, {}).status());
}

// Counts its steps in v, and saves the count after every second one.
constexpr const char* kCounting = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
counting () => (count) {
  v = leat.Variable <name = "v", shape = [1]> ()
  zero = Constant <value_floats = [0.0]> ()
  one = Constant <value_floats = [1.0]> ()
  first = leat.Restore <path = "v.safetensors", names = ["v"], optional = 1> (zero)
  [begin] = leat.Initialize (v, first)
  [add] = leat.AssignAdd (v, one)
  now = leat.Read <after = ["[add]"]> (v)
  [save] = leat.Save <path = "v.safetensors", names = ["v"], every = 2> (now)
  count = Squeeze (now)
}
)";

TEST_CASE("a program saves after every so many steps, and begins with what was saved") {
  const SmallJob small(kCounting);
  const auto count = [&](const char* steps) {
    JobOverrides overrides;
    overrides.set = {steps};
    const Job job = must(load_job(small.path("model.onnxtxt"), overrides));
    Silent watch;
    small.train(job, "run", watch);
    return watch.losses.back();
  };
  CHECK(count("steps=5") == 5);
  const std::string path = small.path("run/saved/v.safetensors");
  CHECK(floats(must(read_safetensors(real_files(), path)).tensors.at("v")) ==
        std::vector<float>{4});
  // A new run in the same folder finds the file.
  std::filesystem::remove_all(small.path("run/checkpoints"));
  CHECK(count("steps=1") == 5);
}

// Its summaries after every second step: the count, and two numbers.
constexpr const char* kSummarized = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
counting () => (count) {
  v = leat.Variable <name = "v", shape = [1]> ()
  zero = Constant <value_floats = [0.0]> ()
  one = Constant <value_floats = [1.0]> ()
  [begin] = leat.Initialize (v, zero)
  [add] = leat.AssignAdd (v, one)
  now = leat.Read <after = ["[add]"]> (v)
  both = Concat <axis = 0> (now, one)
  [log] = leat.Save <path = "summaries/{step}.safetensors", names = ["counted", "both"], every = 2> (now, both)
  count = Squeeze (now)
}
)";

TEST_CASE("the summaries of a program are in files of their steps, and in those for TensorBoard") {
  const SmallJob small(kSummarized);
  check_ok(
      run_leat(small.path(), {"train", "model.onnxtxt", "--set", "steps=5", "--output", "run"}));
  const std::string folder = small.path("run/saved/summaries/");
  for (const int step : {2, 4}) {
    const auto file =
        must(read_safetensors(real_files(), cat(folder, "0000000", step, ".safetensors")));
    CHECK(file.metadata.at("leat.step") == std::to_string(step));
    CHECK(floats(file.tensors.at("counted")) == std::vector<float>{static_cast<float>(step)});
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
  check_ok(run_leat(small.path(), {"metrics", "run", "--tensorboard", "board"}));
  const std::string events = contents_of(small.path("board/run/events.out.tfevents.leat"));
  for (const char* tag : {"summaries/counted", "summaries/both"}) {
    size_t count = 0;
    for (size_t at = 0; (at = events.find(tag, at)) != std::string::npos; ++at) ++count;
    CHECK(count == 2);
  }
  std::ofstream(folder + "y.safetensors") << "damaged";
  check_refused(run_leat(small.path(), {"metrics", "run", "--tensorboard", "board"}), 7,
                {"y.safetensors"});
}

TEST_CASE("a restore takes no file of a step") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
g () => (read) {
  zero = Constant <value_floats = [0.0]> ()
  read = leat.Restore <path = "{step}.safetensors", names = ["v"]> (zero)
}
)");
  check_refused(run_leat(small.path(), {"graph", "check", "model.onnxtxt"}), 7,
                {"path: expected no '{step}', which only leat.Save fills in"});
}

TEST_CASE("a program of several shards saves no value of one of them") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
g () => (count) {
  v = leat.Variable <name = "v", shape = [1]> ()
  zero = Constant <value_floats = [0.0]> ()
  [begin] = leat.Initialize (v, zero)
  now = leat.Read (v)
  id = leat.ReplicaId ()
  own = Cast <to = 1> (id)
  [save] = leat.Save <path = "v.safetensors", names = ["v"]> (own)
  count = Squeeze (now)
}
)");
  JobOverrides overrides;
  for (const int shards : {1, 2}) {
    overrides.set = {"steps=1", cat("shards=", shards), "num_workers=1"};
    const Job job = must(load_job(small.path("model.onnxtxt"), overrides));
    const auto trainer = small.trainer(job, {small.path(cat("run-", shards))});
    Silent watch;
    const Status status =
        trainer.ok() ? (*trainer)->run(watch, [] { return false; }).status() : trainer.status();
    INFO(status.message());
    CHECK(status.ok() == (shards == 1));
    if (shards == 2)
      check_says(status, Code::invalid_argument, "saves values that differ between the 2 shards");
  }
}

}  // namespace
}  // namespace leat

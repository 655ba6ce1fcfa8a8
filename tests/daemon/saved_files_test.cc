// leat.Save and leat.Restore of jobs on the real daemons: the files are in the job's folder on the
// master's machine.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/base/sealed_magic.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/session_testing.h"
#include "tests/daemon/small_client.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::floats;

// Counts its steps in v, and saves the count after each step. The first value is that of the file,
// of which the job has none when it is submitted.
constexpr const char* kCountingAndSaving = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
counting () => (count) {
  v = leat.Variable <name = "v", shape = [1]> ()
  zero = Constant <value_floats = [0.0]> ()
  one = Constant <value_floats = [1.0]> ()
  first = leat.Restore <path = "deep/v.safetensors", names = ["v"], optional = 1> (zero)
  [begin] = leat.Initialize (v, first)
  [add] = leat.AssignAdd (v, one)
  now = leat.Read <after = ["[add]"]> (v)
  [save] = leat.Save <path = "deep/v.safetensors", names = ["v"]> (now)
  count = Squeeze (now)
}
)";

// The same with numbers beside the count that no other file has.
constexpr const char* kSavingMarks = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
marking () => (count) {
  v = leat.Variable <name = "v", shape = [1]> ()
  zero = Constant <value_floats = [0.0]> ()
  one = Constant <value_floats = [1.0]> ()
  scale = Constant <value_floats = [4242.5]> ()
  many = Constant <value_floats = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> ()
  first = leat.Restore <path = "deep/v.safetensors", names = ["v"], optional = 1> (zero)
  [begin] = leat.Initialize (v, first)
  [add] = leat.AssignAdd (v, one)
  now = leat.Read <after = ["[add]"]> (v)
  mark = Mul (now, scale)
  marks = Add (mark, many)
  [save] = leat.Save <path = "deep/v.safetensors", names = ["v", "marks"]> (now, marks)
  count = Squeeze (now)
}
)";
// As the last step saves them.
std::string marks_after(int steps) {
  std::string bytes;
  const float mark = static_cast<float>(steps) * 4242.5f;
  for (int i = 0; i < 8; ++i) bytes.append(reinterpret_cast<const char*>(&mark), sizeof mark);
  return bytes;
}

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A cluster and jobs of such programs.
class SavingCluster {
 public:
  explicit SavingCluster(int workers, const std::vector<std::string>& master = {})
      : cluster_({.workers = workers, .master = master}) {
    client_ = client_of(cluster_.master());
  }

  ProcessCluster& cluster() { return cluster_; }
  std::string submit(const std::string& graph, const std::vector<std::string>& set) {
    std::ofstream(cluster_.folder() / "p.onnxtxt") << graph;
    std::vector<std::string> arguments = {"--json", "p.onnxtxt"};
    for (const std::string& each : set) arguments.insert(arguments.end(), {"--set", each});
    const Finished submitted = cluster_.leat("submit", arguments);
    INFO(submitted.out << submitted.err << cluster_.logs());
    REQUIRE(submitted.exit_code == 0);
    return nlohmann::json::parse(last_object(submitted.out)).at("id");
  }
  JobView await_end(const std::string& id) {
    JobView view;
    const bool ended = eventually(
        [&] {
          view = must(client_->job(id));
          return has_ended(view.condition.state);
        },
        std::chrono::seconds(120), std::chrono::milliseconds(20));
    INFO(view.condition.reason << cluster_.logs());
    REQUIRE(ended);
    return view;
  }
  // Waits for the end of the job, which has to succeed.
  void await_success(const std::string& id) {
    const JobView view = await_end(id);
    INFO(view.condition.reason << cluster_.logs());
    REQUIRE(view.condition.state == JobState::succeeded);
  }
  std::string saved(const std::string& id) const {
    return cat(cluster_.folder() / "master/jobs/", id, "/saved");
  }
  Status fetch(const std::string& id, const std::string& name) {
    return client_->fetch(id, name, cluster_.folder() / ("again-" + id)).status();
  }
  // The files of the master that have these bytes somewhere. It may remove others meanwhile.
  int files_with(const std::string& wanted) const {
    std::optional<int> count;
    REQUIRE(eventually([&] { return (count = try_files_with(wanted)).has_value(); }));
    return *count;
  }
  // The count that the job has saved, or 0.
  float count(const std::string& id) const {
    const auto file = read_safetensors(real_files(), saved(id) + "/deep/v.safetensors");
    return file.ok() ? floats(file->tensors.at("v"))[0] : 0;
  }
  // The value of v in a file of the job that a client fetches.
  float fetched(const std::string& id, const std::string& name) {
    const std::string path = must(client_->fetch(id, name, cluster_.folder() / ("of-" + id)));
    return floats(must(read_safetensors(real_files(), path)).tensors.at("v"))[0];
  }

 private:
  // Nothing if a folder has vanished on the way, so that files behind it were not seen.
  std::optional<int> try_files_with(const std::string& wanted) const {
    int count = 0;
    std::error_code error;
    fs::recursive_directory_iterator at(cluster_.folder() / "master", error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      std::error_code gone;
      if (at->is_regular_file(gone) && content_of(at->path()).find(wanted) != std::string::npos)
        ++count;
    }
    return error ? std::nullopt : std::optional(count);
  }

  ProcessCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
};

TEST_CASE("a job of several workers saves a file that clients fetch") {
  SavingCluster scene(3);
  for (const int workers : {1, 3}) {
    const std::string id =
        scene.submit(kCountingAndSaving, {"steps=7", cat("num_workers=", workers)});
    scene.await_success(id);
    CHECK(scene.fetched(id, "saved/deep/v.safetensors") == 7);
    CHECK(scene.fetched(id, "weights.safetensors") == 7);
    // Nothing else is left there.
    CHECK(std::distance(fs::directory_iterator(scene.saved(id) + "/deep"),
                        fs::directory_iterator()) == 1);
  }
}

TEST_CASE("a file of the longest name that a job can save is fetched under it") {
  SavingCluster scene(1);
  std::string graph = kCountingAndSaving;
  const std::string usual = "v.safetensors", longest(249, 'n');
  for (size_t at; (at = graph.find(usual)) != graph.npos;) graph.replace(at, usual.size(), longest);
  const std::string id = scene.submit(graph, {"steps=3", "num_workers=1"});
  scene.await_success(id);
  CHECK(scene.fetched(id, "saved/deep/" + longest) == 3);
}

TEST_CASE("a job that loses all its state begins again without what it saved") {
  SavingCluster scene(1);
  const std::string id = scene.submit(kCountingAndSaving, {"steps=400", "num_workers=1"});
  for (const float step : {20.f, 40.f}) {
    REQUIRE(eventually([&] { return scene.count(id) >= step; }, std::chrono::seconds(60)));
    const auto runners = scene.cluster().runners();
    REQUIRE(runners.size() == 1);
    ::kill(runners[0], SIGKILL);
    REQUIRE(eventually([&] { return scene.cluster().runners() != runners; }));
  }
  scene.await_success(id);
  CHECK(scene.fetched(id, "weights.safetensors") == 400);
  CHECK(scene.fetched(id, "saved/deep/v.safetensors") == 400);
}

TEST_CASE("a job goes on saving after its master was killed") {
  SavingCluster scene(2);
  const std::string id = scene.submit(kCountingAndSaving, {"steps=600", "num_workers=2"});
  REQUIRE(eventually([&] { return scene.count(id) >= 20; }, std::chrono::seconds(60)));
  scene.cluster().restart_master(SIGKILL);
  CHECK(scene.cluster().await_state(id, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  INFO(scene.cluster().logs());
  CHECK(scene.fetched(id, "weights.safetensors") == 600);
  CHECK(scene.fetched(id, "saved/deep/v.safetensors") == 600);
}

TEST_CASE("a job restores in each step what it saved in the step before") {
  const TemporaryDirectory keys;
  const std::string key = keys / "key";
  std::ofstream(key) << std::string(48, 'k');
  REQUIRE(::chmod(key.c_str(), 0600) == 0);
  const bool has_key = GENERATE(false, true);
  SavingCluster scene(1, has_key ? std::vector<std::string>{"--set", "checkpoint_key_file=" + key}
                                 : std::vector<std::string>{});
  // twice(n) = 2 * twice(n - 1) + 1, kept in the file alone.
  const std::string id = scene.submit(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
doubling () => (now) {
  v = leat.Variable <name = "v", shape = [1]> ()
  zero = Constant <value_floats = [0.0]> ()
  one = Constant <value_floats = [1.0]> ()
  [begin] = leat.Initialize (v, zero)
  before = leat.Restore <path = "v", names = ["v"], optional = 1> (zero)
  twice = Add (before, before)
  next = Add (twice, one)
  [assign] = leat.Assign (v, next)
  [save] = leat.Save <path = "v", names = ["v"]> (next)
  now = Squeeze (next)
}
)",
                                      {"steps=10", "num_workers=1"});
  scene.await_success(id);
  CHECK(scene.fetched(id, "weights.safetensors") == 1023);
  CHECK(scene.fetched(id, "saved/v") == 1023);
}

TEST_CASE("what a graph saves is encrypted on the disk of a master that has a key") {
  const TemporaryDirectory keys;
  const std::string key = keys / "key";
  std::ofstream(key) << std::string(48, 'k');
  REQUIRE(::chmod(key.c_str(), 0600) == 0);
  constexpr int kSteps = 400;
  const std::string marks = marks_after(kSteps), name = "saved/deep/v.safetensors";
  const auto set = {cat("steps=", kSteps), std::string("num_workers=2")};
  {
    SavingCluster plain(2);  // so that the search below can find something
    const std::string id = plain.submit(kSavingMarks, set);
    plain.await_success(id);
    CHECK(plain.files_with(marks) == 1);
  }
  SavingCluster scene(2, {"--set", cat("checkpoint_key_file=", key)});
  const std::string id = scene.submit(kSavingMarks, set);
  const std::string path = scene.saved(id) + "/deep/v.safetensors";
  REQUIRE(eventually([&] { return fs::exists(path); }, std::chrono::seconds(60)));
  scene.cluster().restart_master(SIGKILL);
  CHECK(scene.cluster().await_state(id, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  INFO(scene.cluster().logs());
  CHECK(scene.fetched(id, name) == kSteps);
  CHECK(scene.fetched(id, "weights.safetensors") == kSteps);
  CHECK(scene.files_with(marks) == 0);
  const std::string good = content_of(path);
  CHECK(good.starts_with(kSealedMagic));
  for (const size_t at : {size_t{60}, good.size() - 1}) {
    std::string bad = good;
    bad[at] ^= 1;
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
    CHECK_THAT(scene.fetch(id, name).message(), Catch::Contains("v.safetensors': expected "));
  }
  const std::string other = scene.submit(kSavingMarks, {"steps=1", "num_workers=1"});
  scene.await_success(other);
  const std::string foreign = content_of(scene.saved(other) + "/deep/v.safetensors");
  for (const std::string& bad : {good.substr(0, good.size() / 2), foreign}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
    CHECK_THAT(scene.fetch(id, name).message(), Catch::Contains("v.safetensors': expected "));
  }
}

TEST_CASE("a path that no client could fetch, or that leads out, fails the job by name") {
  SavingCluster scene(1);
  for (const auto& [path, says] : std::map<std::string, std::string>{
           {".hidden", "expected a name that clients can fetch"},
           {"a/../../w", "expected that of a file below the job's folder"},
           {"v.tmp", "expected that of a file below the job's folder"}}) {
    std::string graph = kCountingAndSaving;
    const std::string usual = "deep/v.safetensors";
    for (size_t at; (at = graph.find(usual)) != graph.npos;) graph.replace(at, usual.size(), path);
    std::ofstream(scene.cluster().folder() / "p.onnxtxt") << graph;
    const Finished done = scene.cluster().leat(
        "submit", {"--wait", "--set", "steps=2", "--set", "num_workers=1", "p.onnxtxt"});
    INFO(done.out << done.err);
    CHECK(done.exit_code != 0);
    CHECK((done.out + done.err).find(says) != std::string::npos);
  }
}

}  // namespace
}  // namespace leat

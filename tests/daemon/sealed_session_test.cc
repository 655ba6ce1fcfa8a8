// A lasting session of a master with a key: it is killed and goes on with the same bits, and none
// of its values is on the disk in the clear.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "daemon/client/session_client.h"
#include "daemon/hosts/local_hosts.h"
#include "daemon/session/session.h"
#include "devices/base/files.h"
#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/session_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::SessionGraph;

constexpr int64_t kSize = 256;

const Catalogue& ops() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

// A variable that each "train" multiplies, and to which it adds "x" and noise: the order of the
// steps and their numbers count.
const Graph& training_graph(SessionGraph& s) {
  const ValueId x = s.g.input("x", DType::f32, Shape{kSize});
  const ValueId v = s.variable("v", kSize);
  const ValueId now = s.value("now", "leat.Snapshot", {v});
  const ValueId noise =
      s.value("noise", "RandomUniform", {}, {{"shape", std::vector<int64_t>{kSize}}});
  const ValueId grown = s.g.op("Mul", {now, s.g.scalar(DType::f32, 1.0625)});
  const ValueId next = s.value("next", "Add", {grown, s.g.op("Add", {x, noise})});
  s.effect("train", "leat.Assign", {v, next});
  return s.get();
}

Tensor feed(uint64_t step) {
  std::vector<float> x(kSize);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(step) + 0.001f * static_cast<float>(i);
  return Tensor::of<float>(Shape{kSize}, x);
}

template <typename AnySession>
Tensor train(AnySession& session, uint64_t step) {
  return must(session.run({{"x", feed(step)}}, {"next"}, {"train"}))[0];
}

// The variable after each step, by the same session in this process.
std::vector<Tensor> twin(uint64_t steps) {
  const auto hosts = make_local_hosts(1, 1);
  SessionOptions options;
  options.seed = 5;
  const auto session = must(Session::open(*hosts, options));
  SessionGraph s(ops());
  must(session->extend(0, training_graph(s)));
  std::vector<Tensor> values = {Tensor(DType::f32, Shape{kSize})};
  for (uint64_t step = 1; step <= steps; ++step) values.push_back(train(*session, step));
  return values;
}

// The files below a folder that have these bytes somewhere.
std::vector<std::string> files_with(const std::string& folder, const Tensor& wanted) {
  const auto* const begin = wanted.data<std::byte>();
  std::vector<std::string> names;
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    if (!each.is_regular_file()) continue;
    const Bytes bytes = must(read_file(real_files(), each.path(), UINT64_MAX));
    // A part will do: a database has long values in several places.
    if (std::search(bytes.begin(), bytes.end(), begin, begin + 64) != bytes.end())
      names.push_back(each.path().string());
  }
  return names;
}

// A master whose key is in a file, one worker, and a session.
struct Scene {
  explicit Scene(bool sealed) {
    write_key('k');
    ProcessClusterOptions options;
    if (sealed) options.master = {"--set", "checkpoint_key_file=" + keys / "key"};
    cluster = std::make_unique<ProcessCluster>(options);
    REQUIRE(cluster->await_ready(1));
    master.address = cluster->master().ready().listen;
    master.patience = std::chrono::seconds(60);
    options_of_session.save_every = 4;
    options_of_session.seed = 5;
    options_of_session.patience = std::chrono::seconds(60);
    session = must(RemoteSession::open(master, options_of_session));
    job = session->job();
    SessionGraph s(ops());
    must(session->extend(0, training_graph(s)));
  }
  void write_key(char content) const {
    std::ofstream(keys / "key") << std::string(48, content);
    REQUIRE(::chmod((keys / "key").c_str(), 0600) == 0);
  }
  std::string state() const { return cluster->folder() / "master"; }
  std::string record() const { return state() + "/jobs/" + job + "/session.db"; }

  const TemporaryDirectory keys;
  std::unique_ptr<ProcessCluster> cluster;
  ClusterClientOptions master;
  RemoteSessionOptions options_of_session;
  std::unique_ptr<RemoteSession> session;
  std::string job;
};

}  // namespace

TEST_CASE("a lasting session with a key that is killed goes on with the same bits, all encrypted",
          "[cluster]") {
  Scene scene(true);
  const std::vector<Tensor> expected = twin(16);
  const auto run = [&](uint64_t from, uint64_t to) {
    for (uint64_t step = from; step <= to; ++step)
      CHECK(train(*scene.session, step).identical(expected[step]));
  };
  const auto nothing_is_in_the_clear = [&] {
    for (uint64_t step = 1; step <= 16; ++step) {
      CHECK(files_with(scene.state(), expected[step]).empty());
      CHECK(files_with(scene.state(), feed(step)).empty());
    }
  };
  run(1, 10);
  nothing_is_in_the_clear();
  scene.cluster->restart_master(SIGKILL);
  run(11, 15);
  CHECK(must(scene.session->steps()) == 15);
  nothing_is_in_the_clear();
  SECTION("it is closed, and its record is gone") {
    run(16, 16);
    scene.session->close();
    CHECK(scene.cluster->await_state(scene.job, {"SUCCEEDED"}) == "SUCCEEDED");
    CHECK_FALSE(fs::exists(scene.record()));
  }
  SECTION("without its key it fails, and keeps its record") {
    scene.write_key('o');
    scene.session.reset();
    scene.cluster->restart_master(SIGKILL);
    CHECK(scene.cluster->await_state(scene.job, {"FAILED"}) == "FAILED");
    CHECK_THAT(scene.cluster->show(scene.job),
               Catch::Contains("session.db' is encrypted: expected its key"));
    CHECK(fs::exists(scene.record()));
  }
}

TEST_CASE("without a key the values of a lasting session are found in its record", "[cluster]") {
  // So the search of the test above can find something.
  Scene scene(false);
  const std::vector<Tensor> expected = twin(6);
  for (uint64_t step = 1; step <= 6; ++step)
    CHECK(train(*scene.session, step).identical(expected[step]));
  CHECK_FALSE(files_with(scene.state(), expected[4]).empty());
  CHECK_FALSE(files_with(scene.state(), feed(6)).empty());
  scene.session->close();
}

}  // namespace leat

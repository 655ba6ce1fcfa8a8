// Other users of the machine at a real master: what local_users lets them do, over loopback and at
// the master's Unix socket. Only root can take the users that these tests need.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/base/exit_code.h"
#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/small_models.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// No account of a machine has them.
constexpr int kSubmitter = 64001, kViewer = 64002, kStranger = 64003, kWorker = 64004;

// Whether this process can become those users, and they can run this build. Else says so.
bool can_be_others() {
  if (::geteuid() != 0) {
    WARN("SKIP: only root can be other users of the machine");
    return false;
  }
  const Finished tried =
      run_program("/usr/bin/setpriv", "/",
                  {cat("--reuid=", kStranger), "--clear-groups", leat_binary(), "--version"}, {});
  if (tried.exit_code != 0) WARN("SKIP: other users cannot run this build: " << tried.err);
  return tried.exit_code == 0;
}

// A cluster whose socket every user reaches.
struct LocalScene {
  explicit LocalScene(const std::vector<std::string>& more = {})
      : small(kTinyCnn), cluster(options(more)) {}

  ProcessClusterOptions options(const std::vector<std::string>& more) {
    REQUIRE(::chmod(open.path().c_str(), 0755) == 0);
    REQUIRE(::chmod(small.path().c_str(), 0755) == 0);
    ProcessClusterOptions options;
    options.workers = 0;
    options.transports = "[tcp]";
    options.data_path = small.path();
    options.master = {"--set", cat("local_socket=", socket()), "--set",
                      cat("local_users={'uid:", kSubmitter, "': submitter, 'uid:", kViewer,
                          "': viewer, 'uid:", kWorker, "': worker}")};
    options.master.insert(options.master.end(), more.begin(), more.end());
    return options;
  }
  std::string socket() const { return open / "m.sock"; }
  std::string tcp() { return cluster.master().ready().listen; }
  std::string unix_address() const { return cat("unix:", socket()); }

  // Runs `leat` as that user.
  Finished as(int user, const std::string& master, std::vector<std::string> words) const {
    words.insert(words.end(), {"--master", master});
    std::vector<std::string> arguments = {
        "HOME=/",         "setpriv",    cat("--reuid=", user), cat("--regid=", user),
        "--clear-groups", leat_binary()};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return run_program("/usr/bin/env", "/", arguments, {}, std::chrono::seconds(120));
  }
  std::string audit() {
    return run_leat(cluster.folder().path(), {"audit", cluster.folder() / "master"}).out;
  }
  std::string job_file(const std::vector<std::string>& set) {
    Job job = small.job(set);
    job.data.root = "data";
    std::ofstream(small.path("job.yaml")) << print_job(job);
    return small.path("job.yaml");
  }

  TemporaryDirectory open;
  const SmallJob small;
  ProcessCluster cluster;
};

void expect_refused(const Finished& done, const std::string& why) {
  INFO(done.out << done.err);
  CHECK(done.exit_code != 0);
  CHECK_THAT(done.err, Catch::Contains(why));
}

void expect_done(const Finished& done) {
  INFO(done.out << done.err);
  CHECK(done.exit_code == 0);
}

TEST_CASE("each user of the machine may do what local_users says, over TCP and the Unix socket") {
  if (!can_be_others()) return;
  LocalScene scene;
  scene.cluster.start_worker(0);
  REQUIRE(scene.cluster.await_ready(1));
  const std::string job = scene.job_file({"num_workers=1"});
  for (const std::string& master : {scene.tcp(), scene.unix_address()}) {
    INFO(master);
    // The runner has a user of its own, which local_users does not name, and a key of its job.
    const Finished done = scene.as(kSubmitter, master, {"submit", job, "--wait", "--json"});
    INFO(done.out << done.err << scene.cluster.logs());
    REQUIRE(done.exit_code == 0);
    // The first line is the job as it was taken.
    const std::string id = Json::parse(done.out.substr(0, done.out.find('\n'))).at("id");
    expect_done(scene.as(kViewer, master, {"ps", "--all"}));
    const Json seen = Json::parse(scene.as(kViewer, master, {"show", id, "--json"}).out);
    CHECK(seen.at("user") == cat("uid-", kSubmitter));
    expect_refused(scene.as(kViewer, master, {"rm", id}), "expected the role submitter");
    expect_done(scene.as(kSubmitter, master, {"rm", id}));
    expect_refused(scene.as(kSubmitter, master, {"nodes", "drain", "w0"}),
                   "expected the role operator");
    expect_done(scene.as(0, master, {"nodes", "drain", "w0"}));
    expect_done(scene.as(0, master, {"nodes", "drain", "w0", "--undo"}));
    for (const int user : {kStranger, kWorker, 70000}) {  // 70000: the first user of runners
      const Finished refused = scene.as(user, master, {"ps"});
      CHECK(refused.exit_code == kExitRefused);
      expect_refused(refused, cat("user ", user, " of this machine has no role there"));
      expect_refused(refused, cat("'uid:", user, ": submitter'"));
    }
  }
  const std::string audit = scene.audit();
  INFO(audit);
  CHECK_THAT(audit, Catch::Contains(cat("submitter 'uid-", kSubmitter, "' at 127.0.0.1:")));
  CHECK_THAT(audit, Catch::Contains(cat("submitter 'uid-", kSubmitter, "' at process ")));
  CHECK_THAT(audit, Catch::Contains("user 'root' at process "));
  CHECK_THAT(audit, Catch::Contains(cat("user 'uid-", kStranger, "' (uid ", kStranger,
                                        "): expected a role in local_users that may be a client")));
}

TEST_CASE("a worker of another user is taken only if local_users names it as one") {
  if (!can_be_others()) return;
  LocalScene scene;
  const auto start = [&](int user, const std::string& log) {
    const std::string state = scene.open / cat("state-", user);
    fs::create_directory(state);
    REQUIRE(::chown(state.c_str(), static_cast<uid_t>(user), static_cast<gid_t>(user)) == 0);
    return std::make_unique<ChildProcess>(
        "/usr/bin/env",
        std::vector<std::string>{"HOME=/", "setpriv", cat("--reuid=", user), cat("--regid=", user),
                                 "--clear-groups", LEATD_BINARY, "worker", "--name",
                                 cat("w", user - kStranger), "--master", scene.tcp(), "--http",
                                 "off", "--data", "127.0.0.1:0", "--state-dir", state, "--set",
                                 cat("datasets.data=", scene.small.path())},
        ChildProcess::Options{.folder = "/", .err = log});
  };
  const std::string log = scene.open / "stranger.log";
  const auto stranger = start(kStranger, log);
  CHECK(eventually([&] {
    return contents_of(log).find(cat("'uid:", kStranger, ": worker'")) != std::string::npos;
  }));
  const auto worker = start(kWorker, scene.open / "worker.log");
  const bool ready = scene.cluster.await_ready(1);
  INFO(contents_of(scene.open / "worker.log") << scene.cluster.logs());
  REQUIRE(ready);
  // Its runners have its user, since it is not root, and the job trains.
  const Finished done = scene.as(kSubmitter, scene.unix_address(),
                                 {"submit", scene.job_file({"num_workers=1"}), "--wait"});
  INFO(done.out << done.err);
  CHECK(done.exit_code == 0);
  CHECK_THAT(scene.cluster.leat("nodes", {}).out, Catch::Contains("w1"));
}

TEST_CASE("at the Unix socket of a cluster with a secret the user is enough, over TCP it is not") {
  if (!can_be_others()) return;
  const TemporaryDirectory secrets;
  const std::string secret = secrets / "secret";
  std::ofstream(secret) << "a secret of this cluster, which only its master has\n";
  REQUIRE(::chmod(secret.c_str(), 0600) == 0);
  LocalScene scene({"--secret-file", secret});
  expect_done(scene.as(kViewer, scene.unix_address(), {"ps"}));
  expect_refused(scene.as(kStranger, scene.unix_address(), {"ps"}), "has no role there");
  expect_refused(scene.as(kViewer, scene.tcp(), {"ps"}), "this end has no secret");
  expect_refused(scene.as(0, scene.tcp(), {"ps"}), "this end has no secret");
  // Roles of users make no tokens; an admin of the machine does.
  expect_refused(scene.as(kSubmitter, scene.unix_address(), {"token", "list"}),
                 "expected the role admin");
  expect_done(scene.as(0, scene.unix_address(), {"token", "list"}));
}

TEST_CASE("the socket and the master's own secret outlive a killed master, the socket no stop") {
  const TemporaryDirectory state;
  const std::string socket = state / "master/master.sock", secret = state / "master/secret";
  const auto start = [&] {
    auto master = std::make_unique<LeatdProcess>(std::vector<std::string>{
        "master", "--listen", "127.0.0.1:0", "--http", "off", "--state-dir", state / "master"});
    (void)master->ready();
    return master;
  };
  const auto ps = [&] { return run_leat(state.path(), {"ps", "--master", cat("unix:", socket)}); };
  auto master = start();
  expect_done(ps());
  struct stat there {};
  REQUIRE(::stat(secret.c_str(), &there) == 0);
  CHECK((there.st_mode & 0777) == 0600);
  const std::string text = contents_of(secret);
  CHECK(text.size() == 65);
  master->signal(SIGKILL);
  (void)master->wait();
  CHECK(fs::exists(socket));
  expect_refused(ps(), "no master at unix:");
  master = start();
  expect_done(ps());
  CHECK(contents_of(secret) == text);
  CHECK(master->log().find(text.substr(0, 64)) == std::string::npos);
  CHECK(master->stop() == 0);
  CHECK_FALSE(fs::exists(socket));
}

TEST_CASE("local_socket: off makes none, and a folder that others may not enter is warned of") {
  const TemporaryDirectory state;
  LeatdProcess off({"master", "--listen", "127.0.0.1:0", "--http", "off", "--state-dir",
                    state / "off", "--set", "local_socket=off"});
  (void)off.ready();
  CHECK_FALSE(fs::exists(state / "off/master.sock"));
  LeatdProcess closed({"master", "--listen", "127.0.0.1:0", "--http", "off", "--state-dir",
                       state / "closed", "--set",
                       "local_users={nobody: viewer, no-such-user: viewer}"});
  (void)closed.ready();
  CHECK_THAT(closed.log(), Catch::Contains("and root reach unix:") &&
                               Catch::Contains("since others may not enter ") &&
                               Catch::Contains("'no-such-user' is not in the accounts"));
}

}  // namespace
}  // namespace leat

// Roles on a real cluster whose wires are sealed: what the holder of each token may do, and what
// happens to one that was revoked or has expired.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

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

// A cluster with a secret, whose connections are all sealed. The worker has a token of its own.
struct TokenScene {
  TokenScene() : small(kTinyCnn), secret(secrets / "secret"), cluster(options()) {
    give("worker", "w0");
    cluster.start_worker(0, {"--secret-file", file("w0")});
    if (!cluster.await_ready(1)) FAIL(cluster.logs());
  }

  ProcessClusterOptions options() {
    std::ofstream(secret) << "a secret of this cluster, which only its master has\n";
    REQUIRE(::chmod(secret.c_str(), 0600) == 0);
    ProcessClusterOptions options;
    options.workers = 0;
    options.transports = "[tcp]";
    options.data_path = small.path("");
    options.master = {"--secret-file", secret,
                      "--set",         "seal_loopback=true",
                      "--set",         cat("previous_secret_file=", file("previous"))};
    options.worker = {"--set", "seal_loopback=true"};
    options.client = {"--secret-file", secret};
    return options;
  }
  std::string file(const std::string& name) const { return secrets / name; }
  // Makes a token, and writes it to the file of its name.
  void give(const std::string& role, const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"create", "--role", role, "--name", name, "-o", file(name)};
    words.insert(words.end(), more.begin(), more.end());
    const Finished made = cluster.leat("token", words);
    INFO(made.err);
    REQUIRE(made.exit_code == 0);
  }
  // Runs a command as the holder of a token.
  Finished as(const std::string& name, const std::string& command,
              std::vector<std::string> words = {}) {
    words.insert(words.end(), {"--secret-file", file(name)});
    return cluster.leat(command, words);
  }
  std::string audit() {
    return run_leat(cluster.folder().path(), {"audit", cluster.folder() / "master"}).out;
  }
  std::string job_file(const std::string& name) {
    Job job = small.with_endless_epoch(small.job({"num_workers=1", "steps=1000000"}));
    job.data.root = "data";
    std::ofstream(small.path(name)) << print_job(job);
    return small.path(name);
  }

  TemporaryDirectory secrets;
  const SmallJob small;
  const std::string secret;
  ProcessCluster cluster;
};

void check_refused(const Finished& done, const std::string& why) {
  INFO(done.out << done.err);
  CHECK(done.exit_code != 0);
  CHECK_THAT(done.err, Catch::Contains(why));
}

void check_done(const Finished& done) {
  INFO(done.out << done.err);
  CHECK(done.exit_code == 0);
}

TEST_CASE("each token may do what its role may, and no more") {
  TokenScene scene;
  for (const char* role : {"viewer", "operator", "admin"}) scene.give(role, cat("the-", role));
  scene.give("submitter", "alice");
  scene.give("submitter", "bob");
  struct stat mode;
  REQUIRE(::stat(scene.file("alice").c_str(), &mode) == 0);
  CHECK((mode.st_mode & 0777) == 0600);

  const std::string job = scene.job_file("alice.yaml");
  check_refused(scene.as("the-viewer", "submit", {job}), "expected the role submitter, received");
  const Finished submitted = scene.as("alice", "submit", {job, "--json"});
  INFO(submitted.err << scene.cluster.logs());
  REQUIRE(submitted.exit_code == 0);
  const std::string id = Json::parse(submitted.out).at("id");
  // The runner has a key of its job alone, and trains with it.
  CHECK(Json::parse(scene.cluster.leat("show", {id, "--json"}).out).at("user") == "alice");
  CHECK(eventually([&] {
    const Json seen = Json::parse(scene.cluster.leat("show", {id, "--json"}).out);
    return seen.at("progress").at("step").get<int>() > 3;
  }));

  check_done(scene.as("the-viewer", "ps"));
  check_done(scene.as("the-viewer", "logs", {id}));
  check_refused(scene.as("the-viewer", "cancel", {id}), "expected the role submitter");
  check_refused(scene.as("bob", "cancel", {id}), "expected its owner 'alice' or an operator");
  check_refused(scene.as("bob", "pause", {id}), "expected its owner 'alice' or an operator");
  check_refused(scene.as("alice", "nodes", {"drain", "w0"}), "expected the role operator");
  check_refused(scene.as("the-operator", "token", {"list"}), "expected the role admin");
  check_done(scene.as("the-operator", "nodes", {"drain", "w0"}));
  check_done(scene.as("the-operator", "nodes", {"drain", "w0", "--undo"}));
  check_done(scene.as("alice", "cancel", {id, "--wait"}));
  check_done(scene.as("the-admin", "token", {"list"}));

  // A worker's token is not a person's, and the other way round; and it is for one name.
  check_refused(scene.as("w0", "ps"), "nothing for the role client");
  scene.cluster.start_worker(1, {"--secret-file", scene.file("w0")});
  CHECK(
      eventually([&] { return scene.audit().find("expected worker 'w0'") != std::string::npos; }));
  scene.cluster.start_worker(1, {"--secret-file", scene.file("alice")});
  CHECK(eventually([&] {
    return scene.cluster.worker(1).log().find("nothing for the role worker") != std::string::npos;
  }));

  const std::string audit = scene.audit();
  CHECK_THAT(audit, Catch::Contains("submitter 'bob' at 127.0.0.1:"));
  CHECK_THAT(audit, Catch::Contains("expected its owner 'alice'"));
  CHECK_THAT(audit, Catch::Contains("create token"));
  // No key is in a log, or in the state of a daemon.
  std::ifstream token(scene.file("alice"));
  std::string text;
  std::getline(token, text);
  const std::string key = text.substr(text.rfind(':') + 1);
  REQUIRE(key.size() == 64);
  CHECK(audit.find(key) == std::string::npos);
  CHECK(scene.cluster.logs().find(key) == std::string::npos);
}

TEST_CASE("a token that was revoked or has expired ends what it began, also after a restart") {
  TokenScene scene;
  scene.give("viewer", "carol");
  scene.give("viewer", "dora", {"--lasts", "1s"});
  check_done(scene.as("carol", "ps"));
  check_done(scene.cluster.leat("token", {"revoke", "carol"}));
  check_refused(scene.as("carol", "ps"), "revoked");
  CHECK(
      eventually([&] { return scene.as("dora", "ps").err.find("expired") != std::string::npos; }));
  scene.cluster.restart_master(SIGKILL);
  check_refused(scene.as("carol", "ps"), "revoked");
  if (!scene.cluster.await_ready(1)) FAIL(scene.cluster.logs());

  // The worker is known by its connection: it is lost within a second.
  check_done(scene.cluster.leat("token", {"revoke", "w0"}));
  CHECK(eventually([&] {
    return scene.cluster.leat("nodes", {"--json"}).out.find("\"READY\"") == std::string::npos;
  }));
  // A change of the token changes what its key is for, and the key does not fit any more.
  std::ifstream file(scene.file("dora"));
  std::string text;
  std::getline(file, text);
  for (const auto& [from, to] : {std::pair{"viewer", "admin"}, std::pair{"dora", "carol"}}) {
    std::string forged = text;
    forged.replace(forged.find(from), std::strlen(from), to);
    std::ofstream(scene.file("forged")) << forged << "\n";
    REQUIRE(::chmod(scene.file("forged").c_str(), 0600) == 0);
    check_refused(scene.as("forged", "ps"), "authentication failed");
  }
  const std::string list = scene.cluster.leat("token", {"list"}).out;
  CHECK_THAT(list, Catch::Contains("REVOKED") && Catch::Contains("EXPIRED"));
}

TEST_CASE("the secret of a cluster is replaced under a job that goes on") {
  TokenScene scene;
  const Finished submitted = scene.cluster.leat("submit", {scene.job_file("long.yaml"), "--json"});
  INFO(submitted.err << scene.cluster.logs());
  REQUIRE(submitted.exit_code == 0);
  const std::string id = Json::parse(submitted.out).at("id");
  const auto step = [&]() -> int {
    const Finished shown = scene.cluster.leat("show", {id, "--json"});
    return shown.exit_code == 0 ? Json::parse(shown.out).at("progress").at("step").get<int>() : -1;
  };
  CHECK(eventually([&] { return step() > 3; }));
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
  };
  std::stringstream old;
  old << std::ifstream(scene.secret).rdbuf();
  write(scene.file("previous"), old.str());
  write(scene.file("old"), old.str());
  write(scene.secret, "another secret of this cluster, which is the new one\n");
  scene.cluster.master().signal(SIGHUP);
  CHECK(eventually([&] { return scene.cluster.leat("ps", {}).exit_code == 0; }));
  check_done(scene.as("old", "ps"));  // both are accepted
  CHECK_THAT(scene.cluster.leat("token", {"list"}).out, Catch::Contains("w0    PREVIOUS SECRET"));

  REQUIRE(::unlink(scene.file("w0").c_str()) == 0);
  scene.give("worker", "w0");  // the token of the same name, made from the new secret
  scene.cluster.worker(0).signal(SIGHUP);
  REQUIRE(::unlink(scene.file("previous").c_str()) == 0);
  CHECK(eventually([&] {
    return scene.cluster.worker(0).log().find("reading the secrets again") != std::string::npos;
  }));
  const int before = step();
  scene.cluster.master().signal(SIGHUP);
  CHECK(eventually([&] {
    return scene.as("old", "ps").err.find("authentication failed") != std::string::npos;
  }));
  const std::string list = scene.cluster.leat("token", {"list"}).out;
  INFO(list);
  CHECK_THAT(list, Catch::Contains("w0    OLD SECRET") && Catch::Contains("w0    GOOD"));
  CHECK(eventually([&] { return step() > before + 3; }, std::chrono::seconds(60)));
  INFO(scene.cluster.logs());
  check_done(scene.cluster.leat("cancel", {id, "--wait"}));
}

}  // namespace
}  // namespace leat

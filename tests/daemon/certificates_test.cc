// A cluster whose ends know each other by certificates of `leat ca`, and shares no secret.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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

using Catch::Contains;
using Json = nlohmann::json;

struct CertifiedScene {
  CertifiedScene() : small(kTinyCnn), cluster(options()) {
    for (int i = 0; i < 2; ++i) {
      issue("worker", cat("w", i));
      start_worker(i);
    }
    if (!cluster.await_ready(2)) FAIL(cluster.logs());
  }

  ProcessClusterOptions options() {
    ca({"init"});
    issue("master", "m");
    issue("admin", "root");
    ProcessClusterOptions options;
    options.workers = 0;
    options.transports = "[tcp]";
    options.data_path = small.path("");
    options.master = {"--certificate-file",
                      file("m"),
                      "--set",
                      cat("authority_file=", authority / "authority.pem"),
                      "--set",
                      cat("revoked_file=", authority / "revoked.pem")};
    options.client = {"--certificate-file", file("root")};
    return options;
  }
  void start_worker(int i) {
    cluster.start_worker(i, {"--certificate-file", file(cat("w", i)), "--set",
                             cat("authority_file=", authority / "authority.pem")});
  }
  std::string file(const std::string& name) const { return files / (name + ".pem"); }
  void ca(std::vector<std::string> words) {
    words.insert(words.begin(), "ca");
    words.insert(words.end(), {"--dir", authority.path()});
    const Finished done = run_leat(files.path(), words);
    INFO(done.out << done.err);
    REQUIRE(done.exit_code == 0);
  }
  // Makes the certificate of that name, or makes it anew.
  void issue(const std::string& role, const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"issue", "--role", role, "--name", name, "-o", file(name)};
    if (std::filesystem::exists(file(name))) words.push_back("--renew");
    words.insert(words.end(), more.begin(), more.end());
    ca(words);
  }
  Finished as(const std::string& name, const std::string& command,
              std::vector<std::string> words = {}) {
    words.insert(words.end(), {"--certificate-file", file(name)});
    return cluster.leat(command, words);
  }
  std::string job_file(const std::string& name, const std::vector<std::string>& overrides) {
    Job job = small.with_endless_epoch(small.job(overrides));
    job.data.root = "data";
    std::ofstream(small.path(name)) << print_job(job);
    return small.path(name);
  }
  std::string submit(const std::string& job, const std::string& as) {
    const Finished submitted = this->as(as, "submit", {job, "--json"});
    INFO(submitted.err << cluster.logs());
    REQUIRE(submitted.exit_code == 0);
    return Json::parse(submitted.out).at("id");
  }
  Json show(const std::string& id) {
    const Finished shown = cluster.leat("show", {id, "--json"});
    return shown.exit_code == 0 ? Json::parse(shown.out) : Json();
  }
  int step(const std::string& id) {
    const Json shown = show(id);
    return shown.is_null() ? -1 : shown.at("progress").at("step").get<int>();
  }

  TemporaryDirectory authority, files;
  const SmallJob small;
  ProcessCluster cluster;
};

TEST_CASE("ends with certificates train together and have the rights of their roles") {
  CertifiedScene scene;
  scene.issue("submitter", "alice");
  scene.issue("viewer", "eve");
  const std::string job = scene.job_file("a.yaml", {"num_workers=2", "steps=1000000"});
  CHECK_THAT(scene.as("eve", "submit", {job}).err, Contains("expected the role submitter"));
  const std::string id = scene.submit(job, "alice");
  CHECK(eventually([&] { return scene.step(id) > 3; }, std::chrono::seconds(60)));
  INFO(scene.cluster.logs());
  CHECK(scene.show(id).at("user") == "alice");
  CHECK_THAT(scene.as("eve", "cancel", {id}).err, Contains("expected the role submitter"));
  // A worker is a worker, under its own name, and nothing else.
  CHECK_THAT(scene.as("w0", "ps").err, Contains("role"));
  // Tokens go on beside certificates.
  const std::string token = scene.files / "token";
  CHECK(scene.cluster.leat("token", {"create", "--role", "viewer", "--name", "carol", "-o", token})
            .exit_code == 0);
  CHECK(scene.cluster.leat("ps", {"--secret-file", token}).exit_code == 0);
  CHECK(scene.as("alice", "cancel", {id, "--wait"}).exit_code == 0);
  const std::string audit =
      run_leat(scene.files.path(), {"audit", scene.cluster.folder() / "master"}).out;
  CHECK_THAT(audit, Contains("submitter 'alice' at 127.0.0.1:"));
  CHECK_THAT(audit, Contains("viewer 'eve'"));
}

TEST_CASE("a certificate that was revoked ends its connections within seconds") {
  CertifiedScene scene;
  scene.issue("viewer", "carol");
  CHECK(scene.as("carol", "ps").exit_code == 0);
  scene.ca({"revoke", "carol"});
  CHECK(eventually([&] {
    return scene.as("carol", "ps").err.find("certificate revoked") != std::string::npos;
  }));
  CHECK(scene.as("root", "ps").exit_code == 0);
  scene.ca({"revoke", "w0"});
  // The master ends the worker's connection, and lets it in no more.
  CHECK(eventually([&] {
    return scene.cluster.master().log().find(
               "end of the certificate of worker 'w0': certificate: certificate revoked") !=
               std::string::npos &&
           scene.cluster.worker(0).log().find("certificate revoked") != std::string::npos;
  }));
  INFO(scene.cluster.logs());
}

TEST_CASE("all certificates and the authority are replaced under a job, and no step is lost") {
  CertifiedScene scene;
  // Short, so that the connection of this certificate ends in the middle of the job.
  scene.issue("worker", "w1", {"--lasts", "8s"});
  scene.start_worker(1);
  if (!scene.cluster.await_ready(2)) FAIL(scene.cluster.logs());
  const std::string id =
      scene.submit(scene.job_file("a.yaml", {"num_workers=2", "steps=1000000"}), "root");
  CHECK(eventually([&] { return scene.step(id) > 3; }, std::chrono::seconds(60)));
  scene.ca({"rotate"});  // both authorities are trusted now
  const auto authorities = [&](LeatdProcess& daemon) {
    return eventually(
        [&] { return daemon.log().find("read the certificates again") != std::string::npos; });
  };
  CHECK(authorities(scene.cluster.master()));
  for (int i = 0; i < 2; ++i) CHECK(authorities(scene.cluster.worker(i)));
  scene.issue("master", "m");
  scene.issue("admin", "root");
  for (int i = 0; i < 2; ++i) scene.issue("worker", cat("w", i));
  // The old certificate of w1 expires, and w1 comes back with its new one.
  CHECK(eventually([&] {
    return scene.cluster.master().log().find("end of the certificate of worker 'w1'") !=
           std::string::npos;
  }));
  // The job goes on before the next worker is lost, so that each loss has an end of its own.
  const auto has_gone_on = [&](size_t losses) {
    return eventually([&] {
      const Json shown = scene.show(id);
      return !shown.is_null() && shown.at("history").size() == losses &&
             !shown.at("history").back().at("source").is_null();
    });
  };
  CHECK(has_gone_on(1));
  scene.ca({"rotate", "--finish", "--force"});
  const int before = scene.step(id);
  CHECK(eventually(
      [&] {
        return scene.cluster.master().log().find("end of the certificate of worker 'w0'") !=
                   std::string::npos &&
               scene.step(id) > before + 3;
      },
      std::chrono::seconds(60)));
  CHECK(scene.cluster.await_ready(2));
  INFO(scene.cluster.logs());
  REQUIRE(has_gone_on(2));
  const Json shown = scene.show(id);
  CHECK(shown.at("state") == "RUNNING");
  for (const Json& lost : shown.at("history")) {
    // The other worker had the job in memory, so that each step was done once.
    CHECK(lost.at("source") == "memory");
    CHECK(lost.at("steps_recomputed") == 0);
  }
  CHECK(scene.cluster.leat("cancel", {id, "--wait"}).exit_code == 0);
}

TEST_CASE("a daemon refuses a certificate that is not its own") {
  TemporaryDirectory files;
  const auto ca = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "ca");
    words.insert(words.end(), {"--dir", files / "ca"});
    const Finished done = run_leat(files.path(), words);
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
  };
  ca({"init", "--cluster", "lab"});
  ca({"issue", "--role", "worker", "--name", "w1", "-o", files / "w1.pem"});
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--certificate-file", files / "w1.pem", "--state-dir",
                               files / "state", "--http", "off"});
    const Finished done = run_leatd(files.path(), words);
    CHECK(done.exit_code == 78);
    return done.err;
  };
  CHECK_THAT(refusal({"master", "--set", "cluster=lab"}),
             Contains("expected the certificate of a master of cluster 'lab'"));
  CHECK_THAT(refusal({"worker", "--name", "w1"}),
             Contains("expected the certificate of a worker of cluster 'leat'"));
  CHECK_THAT(refusal({"worker", "--name", "w2", "--set", "cluster=lab"}),
             Contains("expected the certificate of worker 'w2'"));
  CHECK_THAT(refusal({"worker", "--name", "w1", "--set", "cluster=lab", "--set",
                      "insecure_plaintext=true"}),
             Contains("certificates need TLS"));
  REQUIRE(::chmod((files / "w1.pem").c_str(), 0644) == 0);
  CHECK_THAT(refusal({"worker", "--name", "w1", "--set", "cluster=lab"}),
             Contains("its owner alone may read"));
}

}  // namespace
}  // namespace leat

// The audit log of a real master: who asked for what, and that nothing is missing.
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"

namespace leat {
namespace {

using Json = nlohmann::json;

std::vector<Json> entries_of(ProcessCluster& cluster, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"audit", cluster.folder() / "master"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished done = run_leat(cluster.folder().path(), arguments);
  INFO(done.out + done.err);
  REQUIRE(done.exit_code == 0);
  std::vector<Json> entries;
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line);) entries.push_back(Json::parse(line));
  return entries;
}

// The entries with this action.
std::vector<Json> of_action(const std::vector<Json>& entries, const std::string& action) {
  std::vector<Json> found;
  for (const Json& each : entries)
    if (each.at("action") == action) found.push_back(each);
  return found;
}

TEST_CASE("the audit log tells who asked the master for what, also after a kill") {
  JobScene scene(1);
  ProcessCluster& cluster = scene.cluster();
  const std::string id = scene.submit(scene.endless({"num_workers=1"}));
  (void)scene.await_step(id, 3, 1);
  (void)must(scene.client().drain("w0"));
  (void)must(scene.client().drain("w0", true));
  CHECK(cluster.leat("fetch", {id, "job.yaml"}).exit_code == 0);
  CHECK(cluster.leat("rm", {id}).exit_code != 0);  // it goes on
  CHECK(cluster.leat("ps", {"--cluster", "other"}).exit_code != 0);
  HttpClient stranger(cluster.master().ready().http);
  stranger.send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(stranger.reply().status == 421);
  // Refusals are written beside their answers.
  const auto refused = [&](const std::string& why) {
    for (const Json& each : of_action(entries_of(cluster), "connect"))
      if (each.at("message").get<std::string>().find(why) != std::string::npos) return true;
    return false;
  };
  CHECK(eventually([&] { return refused("cluster") && refused("HTTP 421"); }));
  cluster.restart_master(SIGKILL);
  scene.cancel(id);

  const std::vector<Json> entries = entries_of(cluster);
  CHECK(of_action(entries, "start").size() == 2);
  CHECK(of_action(entries, "register worker").size() >= 1);
  CHECK(of_action(entries, "register worker")[0].at("subject") == "w0");
  for (const char* action : {"submit", "cancel"}) {
    const auto found = of_action(entries, action);
    REQUIRE(found.size() == 1);
    CHECK(found[0].at("subject") == id);
    CHECK(found[0].at("outcome") == "ok");
    CHECK_THAT(found[0].at("by").get<std::string>(), Catch::Contains("127.0.0.1:"));
  }
  CHECK(of_action(entries, "drain").at(0).at("subject") == "w0");
  CHECK(of_action(entries, "undrain").size() == 1);
  CHECK(of_action(entries, "fetch").at(0).at("subject") == id + "/job.yaml");
  CHECK(of_action(entries, "remove").at(0).at("outcome") == "failed_precondition");
  const auto head = entries_of(cluster, {"--verify", "--json"});
  REQUIRE(head.size() == 1);
  CHECK(head[0].at("entries") >= entries.size());
  CHECK(entries_of(cluster, {"--verify", "--json", "--head", head[0].at("sha256")}) == head);
  const Finished other =
      run_leat(cluster.folder().path(),
               {"audit", cluster.folder() / "master", "--verify", "--head", std::string(64, 'a')});
  CHECK(other.exit_code != 0);
  CHECK_THAT(other.err, Catch::Contains("there is none"));
}

}  // namespace
}  // namespace leat

// Tests a worker whose name is taken, and one whose data are missing.
#include "daemon/leatd/command_line.h"
#include "tests/catch.h"
#include "tests/daemon/leatd_process.h"
#include "tests/eventually.h"

namespace leat {
namespace {

struct TwinScene {
  std::vector<std::string> worker(const std::string& state,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "worker", "--name", "twin",        "--master",    master.ready().listen, "--http",
        "off",    "--data", "127.0.0.1:0", "--state-dir", folder / state};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  bool has_registered(const LeatdProcess& worker) {
    return eventually([&] { return worker.log().find("registered with") != std::string::npos; });
  }

  const TemporaryDirectory folder;
  LeatdProcess master{
      {"master", "--listen", "127.0.0.1:0", "--http", "off", "--state-dir", folder / "master"}};
};

TEST_CASE("a second worker of a name says why it tries again, and ends with a code of its own") {
  TwinScene scene;
  LeatdProcess first(scene.worker("first"));
  (void)first.ready();
  REQUIRE(scene.has_registered(first));
  LeatdProcess second(scene.worker("second", {"--set", "name_patience=700ms"}));
  CHECK(second.wait() == kLeatdNameTaken);
  INFO(second.log());
  CHECK_THAT(second.log(),
             Catch::Contains("not registered yet: worker 'twin': the name is in use") &&
                 Catch::Contains("tries again for 0.7 s, then it ends") &&
                 Catch::Contains("expected another name"));
  CHECK(first.log().find("no longer a member") == std::string::npos);
  CHECK(first.stop() == 0);
}

TEST_CASE("a worker takes the name of one that has gone meanwhile") {
  TwinScene scene;
  LeatdProcess first(scene.worker("first"));
  (void)first.ready();
  REQUIRE(scene.has_registered(first));
  LeatdProcess second(scene.worker("second", {"--set", "name_patience=1m"}));
  REQUIRE(eventually([&] { return second.log().find("the name is in use") != std::string::npos; }));
  CHECK(first.stop() == 0);
  CHECK(scene.has_registered(second));
  CHECK(second.stop() == 0);
}

TEST_CASE("a worker whose data set is not there does not start, and names it") {
  TwinScene scene;
  LeatdProcess worker(scene.worker("w", {"--set", "datasets.digits=/none/such"}));
  CHECK(worker.wait() == kLeatdFailed);
  CHECK_THAT(worker.log(), Catch::Contains("datasets.digits: expected a folder or a file, there is "
                                           "no '/none/such'"));
}

TEST_CASE("nodes says that nothing trains where there are no data") {
  TwinScene scene;
  LeatdProcess worker(scene.worker("w"));
  (void)worker.ready();
  REQUIRE(scene.has_registered(worker));
  const Finished nodes =
      run_leat(scene.folder.path(), {"nodes", "--master", scene.master.ready().listen});
  CHECK(nodes.exit_code == 0);
  CHECK_THAT(nodes.out, Catch::Contains("none: trains nothing"));
  CHECK_THAT(nodes.err, Catch::Contains("no job can train here; start workers with "
                                        "--set datasets.NAME=PATH"));
}

}  // namespace
}  // namespace leat

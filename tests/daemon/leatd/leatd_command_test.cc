#include <map>

#include "daemon/leatd/command_line.h"
#include "tests/catch.h"
#include "tests/daemon/config/config_testing.h"
#include "tests/daemon/leatd_process.h"

namespace leat {
namespace {

using Catch::Contains;

TEST_CASE("the daemons take flags of their own, and --set wins over them") {
  const auto command = parse_leatd({"worker", "--set", "threads=3", "--config", "w.yaml",
                                    "--threads", "2", "--ready-fd", "5", "--set", "log.level=off"});
  const auto* run = std::get_if<RunDaemon>(&command);
  REQUIRE(run != nullptr);
  CHECK(run->daemon == Daemon::worker);
  CHECK(run->file == "w.yaml");
  CHECK(run->ready_fd == 5);
  REQUIRE(run->flags.size() == 3);
  CHECK(run->flags[0].key == "threads");
  CHECK(run->flags[0].shown == "--threads 2");
  CHECK(run->flags[1].value == "3");
  CHECK(run->flags[2].shown == "--set log.level=off");
}

TEST_CASE("wrong arguments of leatd say what was meant, and exit with 2") {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    const auto command = parse_leatd(arguments);
    const auto* print = std::get_if<PrintText>(&command);
    REQUIRE(print != nullptr);
    CHECK(print->exit_code == kLeatdUsage);
    return print->text;
  };
  CHECK_THAT(refusal({}), Contains("expected a command: master, worker, dev, config"));
  CHECK_THAT(refusal({"mster"}), Contains("did you mean 'master'?"));
  CHECK_THAT(refusal({"master", "--lisen", "x"}), Contains("did you mean '--listen'?"));
  CHECK_THAT(refusal({"master", "--set", "log.level"}), Contains("expected KEY=VALUE"));
  CHECK_THAT(refusal({"master", "--ready-fd", "03"}), Contains("--ready-fd"));
  CHECK_THAT(refusal({"config", "show"}), Contains("expected a command: master, worker, dev"));
}

TEST_CASE("every flag of a daemon sets a key that there is") {
  const TemporaryDirectory folder;
  write_text(folder / "secret", std::string(32, 's'));
  const std::map<std::string, std::string> values = {{"--listen", "127.0.0.1:9"},
                                                     {"--http", "off"},
                                                     {"--state-dir", "/s"},
                                                     {"--log-level", "debug"},
                                                     {"--name", "w9"},
                                                     {"--master", "127.0.0.1:8"},
                                                     {"--data", "127.0.0.1:7"},
                                                     {"--threads", "2"},
                                                     {"--workers", "3"},
                                                     {"--secret-file", folder / "secret"}};
  const auto show = [&](const std::string& daemon, const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"config", "show", daemon, "--origin"};
    for (const std::string& flag : flags) words.insert(words.end(), {flag, values.at(flag)});
    const Finished finished = run_leatd(folder.path(), words);
    CHECK(finished.err == "");
    CHECK(finished.exit_code == 0);
    for (const std::string& flag : flags) {
      CHECK_THAT(finished.out, Contains("# " + flag + " " + values.at(flag)));
    }
  };
  show("master", {"--listen", "--http", "--state-dir", "--secret-file", "--log-level"});
  show("worker", {"--name", "--master", "--http", "--data", "--threads", "--state-dir",
                  "--secret-file", "--log-level"});
  show("dev", {"--workers", "--threads", "--listen", "--http", "--log-level"});
}

TEST_CASE("a bad config exits with 78, so that systemd does not try again") {
  const ConfigFile file("listen: 0.0.0.0:17461\n");
  const std::vector<std::string> run = {"master", "--config", "c.yaml"};
  const std::vector<std::string> show = {"config", "show", "master", "--config", "c.yaml"};
  for (const auto& words : {run, show}) {
    const Finished finished = run_leatd(file.folder.path(), words);
    CHECK(finished.exit_code == kLeatdBadConfig);
    CHECK(finished.out == "");
    CHECK_THAT(finished.err,
               Contains("leatd: error: c.yaml:1:9: listen: expected a loopback address"));
  }
  const Finished missing = run_leatd(file.folder.path(), {"dev", "--config", "none.yaml"});
  CHECK(missing.exit_code == kLeatdBadConfig);
  CHECK_THAT(missing.err, Contains("none.yaml"));
  const Finished log = run_leatd(file.folder.path(), {"dev", "--set", "log.file=none/log"});
  CHECK(log.exit_code == kLeatdBadConfig);
}

TEST_CASE("leatd tells its version, and refuses a descriptor that is not open") {
  const TemporaryDirectory folder;
  const Finished version = run_leatd(folder.path(), {"--version"});
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, Catch::StartsWith("leatd "));
  CHECK(run_leatd(folder.path(), {"version"}).out == version.out);
  CHECK(run_leatd(folder.path(), {"help", "worker"}).out ==
        run_leatd(folder.path(), {"worker", "--help"}).out);
  const Finished closed = run_leatd(folder.path(), {"dev", "--ready-fd", "77"});
  CHECK(closed.exit_code == kLeatdUsage);
  CHECK_THAT(closed.err, Contains("--ready-fd: expected an open descriptor, received 77"));
}

}  // namespace
}  // namespace leat

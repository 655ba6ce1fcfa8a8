// The programs of --on-event: with real processes, and with the views of a job.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/cli/event_program.h"
#include "daemon/cli/job_events.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

std::vector<Json> events_in(const std::string& path) {
  std::vector<Json> out;
  std::istringstream lines(contents_of(path));
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    out.push_back(Json::parse(line));
  }
  return out;
}

std::vector<std::string> kinds_of(const std::vector<Json>& events) {
  std::vector<std::string> out;
  for (const Json& event : events) out.push_back(event["event"]);
  return out;
}

int count_of(const std::vector<std::string>& kinds, const std::string& kind) {
  return static_cast<int>(std::count(kinds.begin(), kinds.end(), kind));
}

std::string copy_to(const std::string& path) { return cat("sh -c 'cat > \"", path, "\"'"); }

}  // namespace

TEST_CASE("a command is split into words as a shell splits it, and nothing else has a meaning") {
  CHECK(must(split_command("a b  c\t d")) == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(must(split_command("'a b' \"c 'd'\" e\\ f")) ==
        std::vector<std::string>{"a b", "c 'd'", "e f"});
  CHECK(must(split_command("a '' $HOME;*")) == std::vector<std::string>{"a", "", "$HOME;*"});
  CHECK(must(split_command("a'b'\"c\"")) == std::vector<std::string>{"abc"});
  CHECK_FALSE(split_command("a 'b").ok());
  CHECK_FALSE(split_command("  ").ok());
  CHECK_FALSE(split_command("''").ok());
}

TEST_CASE("a program gets each line once, and its end is reported") {
  const TemporaryDirectory folder;
  {
    const auto program = must(EventProgram::start(copy_to(folder / "lines")));
    for (int i = 0; i < 500; ++i) program->send(cat("line ", i, "\n"));
    CHECK(program->finish() == "");
    CHECK(program->finish() == "");
    program->send("too late\n");
  }
  std::string expected;
  for (int i = 0; i < 500; ++i) expected += cat("line ", i, "\n");
  CHECK(contents_of(folder / "lines") == expected);

  const auto failing = must(EventProgram::start("sh -c 'cat > /dev/null; exit 3'"));
  failing->send("line\n");
  CHECK_THAT(failing->finish(), Catch::Contains("exit code 3"));
  const auto killed = must(EventProgram::start("sh -c 'kill -9 $$'"));
  CHECK_THAT(killed->finish(), Catch::Contains("signal 9 ended it"));
  CHECK_THAT(EventProgram::start("/nowhere/program").status().message(),
             Catch::Contains("'/nowhere/program'"));
}

TEST_CASE("a path with spaces is one program") {
  const TemporaryDirectory folder;
  const std::string path = folder / "my program";
  std::ofstream(path) << "#!/bin/sh\ncat > \"" << (folder / "got") << "\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const auto program = must(EventProgram::start(path));
  program->send("line\n");
  CHECK(program->finish() == "");
  CHECK(contents_of(folder / "got") == "line\n");
}

TEST_CASE("a program that reads nothing delays no thread, and the lines it misses are counted") {
  const auto begun = std::chrono::steady_clock::now();
  EventProgram::Limits limits;
  limits.lines = 100;
  limits.end = 300ms;
  const auto program = must(EventProgram::start("tail -f /dev/null", limits));
  const std::string line(1000, 'x');
  for (int i = 0; i < 2000; ++i) program->send(line + "\n");
  check_promised(begun, 5s);
  const std::string report = program->finish();
  CHECK_THAT(report, Catch::Contains("it had not ended 300 ms after the last event"));
  CHECK_THAT(report, Catch::Contains("signal 15 ended it"));
  CHECK_THAT(report, Catch::Contains("events dropped"));
  check_promised(begun, 10s);
}

TEST_CASE("a program that does not heed SIGTERM is killed") {
  EventProgram::Limits limits;
  limits.end = 200ms;
  limits.kill = 200ms;
  const auto program = must(EventProgram::start(
      "sh -c 'trap \"\" TERM; while true; do read line || true; done'", limits));
  program->send("line\n");
  CHECK_THAT(program->finish(), Catch::Contains("signal 9 ended it"));
}

TEST_CASE("a program that has ended gets no more lines, and no signal comes back") {
  const auto program = must(EventProgram::start("true"));
  for (int i = 0; i < 200; ++i) program->send(std::string(4096, 'x') + "\n");
  CHECK_THAT(program->finish(), Catch::Contains("dropped"));
}

TEST_CASE("leat train tells its events, and its exit code is that of the training") {
  const SmallJob small(kTinyCnn);
  const Job job = small.job({"validation={every_steps: 20}"});
  std::ofstream(small.path("job.yaml")) << print_job(job);
  const Finished done = run_leat(small.path(), {"train", "job.yaml", "--output", "run",
                                                "--on-event", copy_to(small.path("got"))});
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  const auto events = events_in(small.path("got"));
  const auto kinds = kinds_of(events);
  CHECK(kinds.front() == "started");
  CHECK(kinds.back() == "succeeded");
  CHECK(count_of(kinds, "epoch") == 4);
  CHECK(count_of(kinds, "validation") == 5);  // after 9, 17, 20, 25 and 30
  CHECK(count_of(kinds, "checkpoint") >= 1);
  for (const Json& event : events) CHECK(event["job"] == "small");
  CHECK(events.front()["steps"] == 30);
  CHECK(events.back()["step"] == 30);
  CHECK(events.back()["weights_sha256"].get<std::string>().size() == 64);
  CHECK_THAT(done.err, Catch::Contains("Step 20 - val_loss: "));

  const Finished reported = run_leat(small.path(), {"train", "job.yaml", "--output", "run-2",
                                                    "--json", "--on-event", "sh -c 'cat; exit 7'"});
  CHECK(reported.exit_code == 0);
  CHECK_THAT(reported.err, Catch::Contains("--on-event 'sh': exit code 7"));
  // Its output is not among the data of the command.
  CHECK(reported.out.find("\"job\": \"small\", \"step\"") == std::string::npos);
  CHECK_THAT(reported.out,
             Catch::Contains("{\"event\": \"validation\", \"step\": 20, \"val_loss\""));
  check_refused(run_leat(small.path(), {"train", "job.yaml", "--output", "run-3", "--on-event",
                                        "/nowhere/program"}),
                kExitFailed, {"--on-event", "/nowhere/program"});
  CHECK_FALSE(std::filesystem::exists(small.path("run-3")));
}

TEST_CASE("SIGUSR1 has leat train write a checkpoint and go on") {
  const SmallJob small(kTinyCnn);
  const Job job = small.job({"steps=100000000", "data.validation=null", "checkpoint=null"});
  std::ofstream(small.path("job.yaml")) << print_job(job);
  const std::string got = small.path("got");
  ChildProcess train(leat_binary(),
                     {"train", "job.yaml", "--output", "run", "--on-event", copy_to(got)},
                     {.folder = small.path(), .out = "", .err = small.path("err")});
  REQUIRE(eventually([&] { return count_of(kinds_of(events_in(got)), "started") == 1; }));
  train.signal(SIGUSR1);
  INFO(contents_of(small.path("err")));
  REQUIRE(eventually([&] { return count_of(kinds_of(events_in(got)), "checkpoint") == 1; }));
  CHECK(must(list_checkpoints(real_files(), small.path("run/checkpoints"))).size() == 1);
  train.signal(SIGTERM);
  CHECK(train.wait(30s) == 143);
  const auto events = events_in(got);
  CHECK(events.back()["event"] == "cancelled");
  CHECK(events.back()["reason"] == "interrupted");
}

TEST_CASE("the views of a job become events, each once") {
  JobView job;
  job.id = "job-1";
  JobEvents events;
  const auto taken = [&] {
    std::vector<std::string> kinds;
    for (const std::string& line : events.take(job)) kinds.push_back(Json::parse(line)["event"]);
    return kinds;
  };
  using Kinds = std::vector<std::string>;
  job.condition.state = JobState::queued;
  CHECK(taken() == Kinds{"queued"});
  CHECK(taken().empty());
  job.condition.state = JobState::starting;
  CHECK(taken().empty());
  job.condition.state = JobState::running;
  job.progress.last.steps = 100;
  CHECK(taken() == Kinds{"started"});
  job.progress.last.step = 20;
  job.progress.last.validated_step = 20;
  job.progress.last.val_loss = 0.5;
  CHECK(taken() == Kinds{"validation"});
  EpochResult epoch;
  for (epoch.epoch = 1; epoch.epoch <= 3; ++epoch.epoch) job.progress.epochs.push_back(epoch);
  job.progress.last.checkpoint_step = 60;
  CHECK(taken() == Kinds{"epoch", "epoch", "epoch", "checkpoint"});
  job.condition.state = JobState::recovering;
  job.condition.restarts = 1;
  CHECK(taken().empty());
  // New runners count their checkpoints and validations from none.
  job.progress.last.validated_step = job.progress.last.checkpoint_step = 0;
  job.condition.state = JobState::running;
  CHECK(taken() == Kinds{"recovered"});
  job.condition.state = JobState::failed;
  job.condition.reason = "it \"broke\"";
  const auto last = events.take(job);
  REQUIRE(last.size() == 1);
  CHECK(Json::parse(last[0])["reason"] == "it \"broke\"");
  CHECK(Json::parse(last[0])["event"] == "failed");
  CHECK(taken().empty());
}

TEST_CASE("a job of a cluster tells its events through a recovery, and has each row once",
          "[cluster]") {
  SmallJob small(kTinyCnn);
  ProcessCluster cluster({.data_path = small.path()});
  const std::vector<std::string> set = {
      cat("steps=", 2000 / kSlowness), "shards=1", cat("steps_per_epoch=", 500 / kSlowness),
      "validation={every_steps: 40}", "checkpoint={every_steps: 100, keep: 2}"};
  Job job = small.job(set);
  job.data.root = "data";
  const std::string got = small.path("got"), file = small.path("sent.yaml");
  std::ofstream(file) << print_job(job);
  ChildProcess submit(leat_binary(),
                      {"submit", "--follow", "--on-event", copy_to(got), file, "--master",
                       cluster.master().ready().listen},
                      {.folder = small.path(), .out = small.path("out"), .err = small.path("err")});
  const auto seen = [&](const std::string& kind) {
    return eventually([&] { return count_of(kinds_of(events_in(got)), kind) > 0; }, 60s, 5ms);
  };
  INFO(contents_of(small.path("err")) << cluster.logs());
  REQUIRE(seen("validation"));
  const auto runners = children_of(cluster.worker(0).pid());
  REQUIRE(runners.size() == 1);
  REQUIRE(::kill(runners[0], SIGKILL) == 0);
  REQUIRE(seen("recovered"));
  CHECK(submit.wait(60s) == 0);
  const auto events = events_in(got);
  const auto kinds = kinds_of(events);
  CHECK(count_of(kinds, "started") == 1);
  CHECK(count_of(kinds, "recovered") == 1);
  CHECK(count_of(kinds, "epoch") == 4);
  CHECK(kinds.back() == "succeeded");
  const std::string id = events.front()["job"];
  REQUIRE(cluster.leat("fetch", {id, "metrics.jsonl", "-o", small.path("fetched")}).exit_code == 0);
  Silent watch;
  small.train(small.job(set), "here", watch);
  CHECK(without_timing(contents_of(small.path("fetched/metrics.jsonl"))) ==
        without_timing(contents_of(small.path("here/metrics.jsonl"))));
}

TEST_CASE("leat checkpoint save has a job of the cluster write a checkpoint and go on",
          "[cluster]") {
  SmallJob small(kTinyCnn);
  ProcessCluster cluster({.data_path = small.path()});
  Job job = small.job({"steps=100000000", "data.validation=null", "checkpoint=null"});
  job.data.root = "data";
  std::ofstream(small.path("sent.yaml")) << print_job(job);
  const Finished submitted = cluster.leat("submit", {"--json", small.path("sent.yaml")});
  REQUIRE(submitted.exit_code == 0);
  const std::string id = Json::parse(last_object(submitted.out))["id"];
  REQUIRE(cluster.await_state(id, {"RUNNING"}) == "RUNNING");
  // A job that only begins to train answers that it does not train yet.
  Finished saved;
  REQUIRE(eventually(
      [&] {
        saved = cluster.leat("checkpoint", {"save", "--wait", id});
        return saved.exit_code == 0;
      },
      60s, 50ms));
  CHECK_THAT(saved.out, Catch::Contains(id + " "));
  const Json shown = Json::parse(last_object(cluster.show(id)));
  CHECK(shown["state"] == "RUNNING");
  CHECK(shown["progress"]["checkpoint_step"].get<int64_t>() > 0);
  CHECK_THAT(cluster.leat("checkpoint", {"ls", id}).out, Catch::Contains("step-"));
  CHECK(cluster.leat("cancel", {"--wait", id}).exit_code == 0);
  const Finished late = cluster.leat("checkpoint", {"save", id});
  CHECK(late.exit_code == kExitState);
  CHECK_THAT(late.err, Catch::Contains("expected one that trains"));
}

}  // namespace leat

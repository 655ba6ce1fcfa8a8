// `leat evaluate` as a process, on runs of this machine and of a cluster.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/training/run_evaluator.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/run_weights.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line));
  return out;
}

// A run of 30 steps with checkpoints after 10, 20 and 30.
class EvaluatedRun {
 public:
  EvaluatedRun() : small(kTinyCnn) {
    outcome = small.train(small.job({"checkpoint={every_steps: 10, keep: 9}"}), "run", watch);
  }
  Finished evaluate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"evaluate", "run"});
    return run_leat(small.path(), arguments);
  }
  Json json(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const Finished done = evaluate(std::move(arguments));
    INFO(done.out << done.err);
    REQUIRE(done.exit_code == 0);
    return Json::parse(last_object(done.out));
  }

  SmallJob small;
  Silent watch;
  TrainOutcome outcome;
};

}  // namespace

TEST_CASE("leat evaluate gives the numbers of the training, to the bit") {
  const EvaluatedRun run;
  const Json whole = run.json({});
  CHECK(whole["step"] == 30);
  CHECK(whole["val_loss"] == run.outcome.validation->loss);
  CHECK(whole["val_accuracy"] == *run.outcome.validation->accuracy);
  CHECK(run.json({"--threads", "3"}) == whole);
  CHECK(run.json({"--checkpoint", "30"}) == whole);
  CHECK(run.json({"--checkpoint", "10"})["val_loss"] != whole["val_loss"]);
  CHECK(run.json({"--checkpoint", "10"})["step"] == 10);
  // The training data may be gone.
  fs::rename(run.small.path("train-x.npy"), run.small.path("gone.npy"));
  CHECK(run.json({}) == whole);
  const Finished text = run.evaluate({});
  CHECK_THAT(text.out, Catch::Contains("step 30 - val_loss: "));
  CHECK_THAT(text.out, Catch::Contains(" - val_accuracy: "));
}

TEST_CASE("leat evaluate takes other data, other weights and other keys") {
  const EvaluatedRun run;
  const Json whole = run.json({});
  CHECK(run.json({"--data", "features=val-x.npy", "--data", "labels=val-y.npy"}) == whole);
  const Json train = run.json({"--data", "features=train-x.npy", "--data", "labels=train-y.npy"});
  CHECK(train["val_loss"] != whole["val_loss"]);
  CHECK(run.json({"--data",
                  "{format: npy, files: {features: train-x.npy, labels: train-y.npy}}"}) == train);
  CHECK(run.json({"--set", "validation.rows=10"})["val_loss"] != whole["val_loss"]);
  // A file of the run, or of this folder; the name of the best weights is one of them.
  fs::copy(run.small.path("run/weights.safetensors"),
           run.small.path("run/best_weights.safetensors"));
  CHECK(run.json({"--weights", "best_weights.safetensors"}) == whole);
  CHECK(run.json({"--weights", "run/weights.safetensors"}) == whole);
  // Several sets have numbers each.
  const Json both =
      run.json({"--set",
                "data.validation={val: {format: npy, features: val-x.npy, labels: val-y.npy}, "
                "other: {format: npy, features: train-x.npy, labels: train-y.npy}}"});
  CHECK(both["val_loss"] == whole["val_loss"]);
  CHECK(both["other_loss"] == train["val_loss"]);
  // Without weights of its own, the run's newest checkpoint counts.
  fs::remove(run.small.path("run/weights.safetensors"));
  CHECK(run.json({}) == whole);
}

TEST_CASE("leat evaluate refuses what is missing or does not fit") {
  const EvaluatedRun run;
  check_refused(run.evaluate({"--checkpoint", "15"}), kExitFailed,
                {"step-00000015", "there is none"});
  check_refused(run.evaluate({"--weights", "none"}), kExitFailed, {"--weights", "'none'"});
  check_refused(run.evaluate({"--data", "x.npy"}), kExitInvalid,
                {"--data", "COLUMN=FILE", "'x.npy'"});
  check_refused(run.evaluate({"--data", "features=x.npy", "--data", "labels=y.gz"}), kExitInvalid,
                {"--data", "files of one format", "npy", "idx"});
  check_refused(run.evaluate({"--data", "features=val-y.npy", "--data", "labels=val-x.npy"}),
                kExitInvalid, {"expected"});
  check_refused(run.evaluate({"--set", "data.root=elsewhere"}), kExitNoSuch,
                {"no such data root", "elsewhere"});
  check_refused(run.evaluate({"--set", "data.validation=null"}), kExitInvalid,
                {"expected data.validation, or --data"});
  check_refused(run_leat(run.small.path(), {"evaluate", "./none"}), kExitNoSuch, {"no such run"});
  CHECK(run_leat(run.small.path(), {"evaluate", "run", "-o", "x"}).exit_code == kExitUsage);
  CHECK(
      run_leat(run.small.path(), {"evaluate", "run", "--follow", "--checkpoint", "1"}).exit_code ==
      kExitUsage);
}

TEST_CASE("leat evaluate --follow gives each checkpoint a row, until the run has ended") {
  const SmallJob small(kTinyCnn);
  const Job job = small.job({"checkpoint={every_steps: 5, keep: 9}"});
  Silent first, second;
  small.train(job, "run", first, 1, false, [&] { return first.losses.size() >= 12; });
  // It is started before the run has ended, and goes on when it has.
  ChildProcess follower(leat_binary(), {"evaluate", "--follow", "run"},
                        {.folder = small.path(), .out = "", .err = ""});
  const std::string rows = small.path("run/evaluations.jsonl");
  REQUIRE(eventually([&] { return lines_of(contents_of(rows)).size() == 3; }));
  const TrainOutcome outcome = small.train(job, "run", second, 1, true);
  const auto code = follower.wait(std::chrono::seconds(30));
  REQUIRE(code.has_value());
  CHECK(*code == 0);
  const auto evaluated = lines_of(contents_of(rows));
  // All of them are kept. The first training ended some steps after it was told to.
  std::vector<std::string> checkpoints;
  for (const Json& row : evaluated)
    checkpoints.insert(checkpoints.begin(),
                       cat(small.path("run/checkpoints/"), checkpoint_name(row["step"])));
  CHECK(checkpoints == must(list_checkpoints(real_files(), small.path("run/checkpoints"))));
  CHECK(evaluated.back()["step"] == 30);
  CHECK(evaluated.back()["val_loss"] == outcome.validation->loss);
  // Once more it finds all rows there, and one that is cut is written again.
  const std::string before = contents_of(rows);
  std::ofstream(rows) << before.substr(0, before.size() - 5);
  CHECK(run_leat(small.path(), {"evaluate", "--follow", "run"}).exit_code == 0);
  CHECK(contents_of(rows) == before);
}

TEST_CASE("leat evaluate --follow ends with the timeout or Ctrl-C where a run goes on") {
  const SmallJob small(kTinyCnn);
  Silent watch;
  small.train(small.job(), "run", watch, 1, false, [&] { return watch.losses.size() >= 12; });
  const Finished done = run_leat(
      small.path(), {"evaluate", "--follow", "run", "--timeout", "2s", "-o", "rows.jsonl"});
  CHECK(done.exit_code == kExitTimeout);
  CHECK(lines_of(contents_of(small.path("rows.jsonl"))).size() >= 2);
  // Ctrl-C ends it, too.
  ChildProcess follower(leat_binary(), {"evaluate", "--follow", "run", "-o", "more.jsonl"},
                        {.folder = small.path(), .out = "", .err = ""});
  REQUIRE(eventually([&] { return !contents_of(small.path("more.jsonl")).empty(); }));
  follower.signal(SIGINT);
  CHECK(follower.wait(std::chrono::seconds(20)) == 130);
}

TEST_CASE("leat evaluate takes a job of the cluster, and follows it", "[cluster]") {
  SmallJob small(kTinyCnn);
  ProcessCluster cluster({.data_path = small.path()});
  Job job = small.job({"checkpoint={every_steps: 10, keep: 9}"});
  job.data.root = "data";
  std::ofstream(small.path("sent.yaml")) << print_job(job);
  const Finished submitted = cluster.leat("submit", {"--wait", "--json", small.path("sent.yaml")});
  INFO(submitted.out << submitted.err << cluster.logs());
  REQUIRE(submitted.exit_code == 0);
  const std::string id = Json::parse(last_object(submitted.out))["id"];
  Silent watch;
  const TrainOutcome expected = small.train(small.job(), "here", watch);
  const std::string root = "data.root=" + small.path();
  const Finished done = cluster.leat("evaluate", {id, "--set", root, "--json"});
  INFO(done.out << done.err);
  REQUIRE(done.exit_code == 0);
  CHECK(Json::parse(last_object(done.out))["val_loss"] == expected.validation->loss);
  const std::string rows = cluster.folder() / "rows.jsonl";
  const Finished followed = cluster.leat("evaluate", {"--follow", id, "--set", root, "-o", rows});
  INFO(followed.out << followed.err);
  REQUIRE(followed.exit_code == 0);
  const auto evaluated = lines_of(contents_of(rows));
  // A slow disk may leave out one of the three.
  REQUIRE(evaluated.size() >= 1);
  CHECK(evaluated.size() <= 3);
  CHECK(evaluated.back()["step"] == 30);
  CHECK(evaluated.back()["val_loss"] == expected.validation->loss);
  // Its data is not here under the name that the workers have for it.
  CHECK(cluster.leat("evaluate", {id}).exit_code == kExitNoSuch);
}

}  // namespace leat

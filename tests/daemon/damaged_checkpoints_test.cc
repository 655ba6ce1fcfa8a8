// Jobs whose checkpoints were damaged, replaced or removed end with the same weights.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/set_aside.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

void damage(const fs::path& part) {
  std::fstream file(part, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
}

// Damages all checkpoints in the folder, in each part, and returns their number.
int damage_checkpoints(const std::string& folder) {
  int count = 0;
  for (const auto& step : fs::directory_iterator(folder)) {
    if (!step.path().filename().string().starts_with("step-")) continue;
    ++count;
    for (const auto& file : fs::directory_iterator(step)) {
      if (file.path().extension() == ".safetensors") damage(file.path());
    }
  }
  return count;
}

size_t names_with(const std::string& folder, const std::string& start) {
  size_t count = 0;
  for (const auto& each : fs::directory_iterator(folder))
    count += each.path().filename().string().starts_with(start);
  return count;
}

std::string all_of(const std::vector<std::string>& lines) { return join(lines, "\n"); }

// A training that was interrupted after step 17, with checkpoints of steps 10 and 17.
struct Interrupted {
  explicit Interrupted(const std::vector<std::string>& set = {}) : job(small.job(set)) {
    Silent first;
    (void)small.train(job, "run", first, 1, false, [&] { return first.losses.size() >= 17; });
  }
  // Resumes as a master does for a job whose runners have all ended.
  Result<TrainOutcome> go_on(Silent& watch) const {
    TrainOptions options{folder(), true};
    options.survivors = options.begin_anew = true;
    options.skip_checkpoints = false;
    LEAT_ASSIGN_OR_RETURN(const auto trainer, small.trainer(job, options));
    return trainer->run(watch, [] { return false; });
  }
  std::string folder() const { return small.path("run"); }
  std::string checkpoints() const { return small.path("run/checkpoints"); }

  const SmallJob small{kTinyDense};
  const Job job;
};

TEST_CASE("a job whose checkpoints are all damaged begins once more, and keeps them aside") {
  const Interrupted run;
  const std::string expected = run.small.hash(run.job, "twin");
  REQUIRE(damage_checkpoints(run.checkpoints()) == 2);
  Silent watch;
  const auto outcome = run.go_on(watch);
  REQUIRE(outcome.status().to_string() == "ok");
  CHECK(outcome->weights_sha256 == expected);
  CHECK(watch.first == 0);
  CHECK_THAT(all_of(watch.warnings), Catch::Contains("BEGINS ONCE MORE at step 0") &&
                                         Catch::Contains("damaged-step-00000017"));
  CHECK(names_with(run.checkpoints(), "damaged-step-") == 2);
  CHECK(must(verify_checkpoint(real_files(), run.checkpoints() + "/step-00000030")).step == 30);
}

TEST_CASE("damaged and deleted checkpoints come to the same, however many there are") {
  const Interrupted run;
  const std::string expected = run.small.hash(run.job, "twin");
  const auto newest = run.checkpoints() + "/step-00000017";
  SECTION("the newest is damaged: the older one is gone on from") {
    damage(newest + "/part-00000-of-00001.safetensors");
    Silent watch;
    CHECK(must(run.go_on(watch)).weights_sha256 == expected);
    CHECK(watch.first == 10);
    CHECK(names_with(run.checkpoints(), "damaged-step-00000017") == 1);
  }
  SECTION("a file is in the place of a checkpoint") {
    fs::remove_all(newest);
    std::ofstream(newest) << "not a folder";
    Silent watch;
    CHECK(must(run.go_on(watch)).weights_sha256 == expected);
    CHECK(watch.first == 10);
    CHECK(names_with(run.checkpoints(), "damaged-step-00000017") == 1);
  }
  SECTION("a file is in the place of all checkpoints") {
    fs::remove_all(run.checkpoints());
    std::ofstream(run.checkpoints()) << "not a folder";
    Silent watch;
    CHECK(must(run.go_on(watch)).weights_sha256 == expected);
    CHECK(watch.first == 0);
    CHECK(names_with(run.folder(), "damaged-checkpoints") == 1);
  }
  SECTION("a folder is in the place of a file") {
    for (const char* name : {"/job.yaml", "/weights.safetensors"}) {
      fs::remove_all(run.folder() + name);
      fs::create_directories(run.folder() + name + "/below");
    }
    Silent watch;
    CHECK(must(run.go_on(watch)).weights_sha256 == expected);
    CHECK(watch.first == 17);
    CHECK(names_with(run.folder(), "damaged-") == 2);
  }
  SECTION("they are damaged twice") {
    for (int i = 0; i < 2; ++i) {
      CHECK(damage_checkpoints(run.checkpoints()) == 2);
      Silent watch;
      CHECK(must(run.go_on(watch)).weights_sha256 == expected);
      CHECK(watch.first == 0);
    }
    CHECK(names_with(run.checkpoints(), "damaged-step-") == 4);
  }
}

TEST_CASE("a job whose weights depend on timing does not begin once more by itself") {
  const Interrupted run({"strategy={name: parameter_server, mode: async}"});
  REQUIRE(damage_checkpoints(run.checkpoints()) > 0);
  Silent watch;
  const Status refused = run.go_on(watch).status();
  CHECK(refused.code() == Code::failed_precondition);
  CHECK_THAT(refused.message(),
             Catch::Contains("only damaged ones") && Catch::Contains("depend on timing"));
  CHECK(names_with(run.checkpoints(), "damaged-") == 0);
}

TEST_CASE("a disk that cannot set a checkpoint aside is an error, and names stay what they are") {
  const Interrupted run;
  const std::string path = run.checkpoints() + "/step-00000017";
  for (int i = 1; i <= 3; ++i) {
    const std::string to = must(set_aside(real_files(), path));
    CHECK(to == cat(run.checkpoints(), "/damaged-step-00000017", i == 1 ? "" : cat("-", i)));
    fs::create_directories(path);
  }
  CHECK(must(make_way_for_folder(real_files(), path)).empty());
  CHECK(must(make_way_for_folder(real_files(), path + "-none")).empty());
  CHECK(set_aside(real_files(), path + "-none").status().code() == Code::failed_precondition);
}

TEST_CASE("checkpoints after a step are set aside, also if that step has none") {
  const TemporaryDirectory folder;
  for (const int64_t step : {10, 20, 30, 100'000'000})
    fs::create_directories(folder / checkpoint_name(step));
  CHECK(must(set_aside_checkpoints_after(real_files(), folder.path(), 25)).size() == 2);
  CHECK(must(list_checkpoints(real_files(), folder.path())).size() == 2);
  CHECK(must(set_aside_checkpoints_after(real_files(), folder.path(), 10)).size() == 1);
  CHECK(must(set_aside_checkpoints_after(real_files(), folder.path(), -1)).size() == 1);
}

// On real daemons ---------------------------------------------------------------------------------

constexpr uint64_t kJobSteps = kSlowness > 1 ? 400 : 1500;

// Waits until the job's folder on the master has a checkpoint, which is written beside the steps.
JobView await_checkpoint(JobScene& scene, const std::string& id) {
  const std::string checkpoints =
      cat(scene.cluster().folder() / "master", "/jobs/", id, "/checkpoints");
  return scene.await(id, [&](const JobView&) {
    return fs::exists(checkpoints) && names_with(checkpoints, "step-") > 0;
  });
}

TEST_CASE("a job that lost all processes and all checkpoints to damage ends with its weights") {
  JobScene scene(3);
  const Job job = scene.job(kJobSteps);
  const std::string id = scene.submit(job);
  (void)await_checkpoint(scene, id);
  for (int i = 0; i < 3; ++i) scene.cluster().worker(i).signal(SIGKILL);
  (void)scene.await(id, [](const JobView& view) {
    return view.condition.state == JobState::recovering && view.condition.assembly == 1;
  });
  const std::string folder = cat(scene.cluster().folder() / "master", "/jobs/", id);
  CHECK(damage_checkpoints(folder + "/checkpoints") > 0);
  scene.cluster().restart_master(SIGKILL);
  for (int i = 0; i < 3; ++i) scene.cluster().start_worker(i);
  const std::string ended = scene.cluster().await_state(id, {"SUCCEEDED", "FAILED"});
  const std::string shown = scene.cluster().show(id);
  INFO(shown << scene.cluster().logs());
  CHECK(ended == "SUCCEEDED");
  CHECK_THAT(shown, Catch::Contains(scene.expected(job)));
  CHECK(names_with(folder + "/checkpoints", "damaged-step-") > 0);
  CHECK_THAT(scene.cluster().leat("logs", {id}).out, Catch::Contains("BEGINS ONCE MORE at step 0"));
}

// Empties the file, or changes its first row.
void damage_metrics(const std::string& path, bool change) {
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  in.close();
  if (change) {
    const size_t digit = text.find("\"loss\":") + 8;
    REQUIRE(digit < text.size());
    text[digit] = text[digit] == '1' ? '2' : '1';
  }
  std::ofstream(path) << (change ? text : "");
}

TEST_CASE("a job that lost all processes says what its metrics lost") {
  const bool change = GENERATE(false, true);
  CAPTURE(change);
  JobScene scene(3);
  const Job job = scene.job(kJobSteps);
  const std::string id = scene.submit(job);
  const std::string folder = cat(scene.cluster().folder() / "master", "/jobs/", id);
  (void)await_checkpoint(scene, id);
  for (int i = 0; i < 3; ++i) scene.cluster().worker(i).signal(SIGKILL);
  (void)scene.await(id, [](const JobView& view) {
    return view.condition.state == JobState::recovering && view.condition.assembly == 1;
  });
  damage_metrics(folder + "/metrics.jsonl", change);
  scene.cluster().restart_master(SIGKILL);
  for (int i = 0; i < 3; ++i) scene.cluster().start_worker(i);
  CHECK(scene.cluster().await_state(id, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  const std::string shown = scene.cluster().show(id);
  const std::string log = scene.cluster().leat("logs", {id}).out;
  INFO(shown << log);
  CHECK_THAT(shown, Catch::Contains(scene.expected(job)));
  CHECK_THAT(log, Catch::Contains(change ? "are not those that were written"
                                         : "rows are missing: of steps 1 to "));
  const std::string none =
      change ? R"("metrics_changed_until":null)" : R"("metrics_missing_rows":0)";
  CHECK_THAT(shown, Catch::Contains(none.substr(0, none.find(':'))) && !Catch::Contains(none));
}

TEST_CASE("a file in the place of the checkpoints costs nothing of a job that is in memory") {
  JobScene scene(3);
  const Job job = scene.job(kJobSteps);
  const std::string id = scene.submit(job);
  const JobView before = await_checkpoint(scene, id);
  const auto runners = scene.runners(before);
  REQUIRE(runners.size() == 3);
  const std::string folder = cat(scene.cluster().folder() / "master", "/jobs/", id);
  fs::rename(folder + "/checkpoints", folder + "/elsewhere");
  std::ofstream(folder + "/checkpoints") << "not a folder";
  ::kill(runners.begin()->second, SIGKILL);
  const JobView end = scene.await_end(id);
  INFO(end.condition.reason << scene.cluster().logs());
  CHECK(end.condition.state == JobState::succeeded);
  CHECK(end.condition.result.weights_sha256 == scene.expected(job));
  REQUIRE_FALSE(end.history.last.empty());
  CHECK(end.history.last.back().source == RecoverySource::memory);
  CHECK(names_with(folder, "damaged-checkpoints") > 0);
}

}  // namespace
}  // namespace leat

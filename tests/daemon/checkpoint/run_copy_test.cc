// Copies of runs on another disk and in a store: whole at each moment, through every fault.
#include <filesystem>
#include <fstream>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/run_copier.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/s3_store.h"
#include "tests/small_models.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// A run's folder with checkpoints that the test writes itself.
class CopiedRun {
 public:
  std::string run() const { return directory_ / "run"; }
  std::string checkpoints() const { return run() + "/checkpoints"; }
  std::string to() const { return directory_ / "copy"; }
  RunCopyPlaces places(std::string to, int64_t keep = 2) const {
    return {run(), std::move(to), keep};
  }
  std::string path(int64_t step) const { return cat(checkpoints(), "/", checkpoint_name(step)); }

  void write_text(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(run()) / fs::path(name).parent_path());
    std::ofstream(run() + "/" + name, std::ios::binary) << text;
  }
  // A checkpoint of two parts, with the metrics up to it.
  void write_step(int64_t step, double value = 0) const {
    write_text("job.yaml", "version: 1\n");
    write_text("graph/net.onnx", "graph");
    write_text("metrics.jsonl", std::string(static_cast<size_t>(step), 'm'));
    fs::create_directories(checkpoints());
    auto writer = must(CheckpointWriter::begin(real_files(), checkpoints(), step, 2));
    for (size_t part = 0; part < 2; ++part) {
      Tensor weights(DType::f32, Shape{100});
      for (int64_t i = 0; i < 100; ++i) weights.set(i, value + static_cast<double>(step * i));
      Variables variables;
      variables.emplace(cat("w", part), std::move(weights));
      must(writer->write_part(part, variables));
    }
    Manifest manifest;
    manifest.step = step;
    manifest.job = "copied";
    manifest.graph = std::string(64, 'a');
    manifest.shards = 1;
    manifest.strategy = "mirrored";
    manifest.workers = 1;
    must(writer->commit(manifest));
  }

 private:
  TemporaryDirectory directory_;
};

// The steps of the checkpoints in a copy. Requires that each of them is whole.
std::vector<int64_t> whole_steps(Files& files, const std::string& run) {
  std::vector<int64_t> out;
  for (const std::string& path : must(list_checkpoints(files, run + "/checkpoints")))
    out.push_back(must(verify_checkpoint(files, path)).step);
  return out;
}

TEST_CASE("a copy has the newest checkpoints and what the run has changed") {
  const CopiedRun one;
  RunCopy copy(real_files(), one.places(one.to()));
  must(copy.expect_none());
  for (const int64_t step : {10, 20, 30}) {
    one.write_step(step);
    must(copy.copy(step));
  }
  CHECK(whole_steps(real_files(), one.to()) == std::vector<int64_t>{30, 20});
  CHECK(must(read_file(real_files(), one.to() + "/metrics.jsonl", 100)).size() == 30);
  CHECK(fs::exists(one.to() + "/graph/net.onnx"));
  CHECK(copy.expect_none().message().find("no checkpoints of another training") !=
        std::string::npos);
  // A file that has not changed is left alone.
  fs::remove(one.to() + "/graph/net.onnx");
  one.write_text("weights.safetensors", "w");
  must(copy.copy_files());
  CHECK(fs::exists(one.to() + "/weights.safetensors"));
  CHECK(!fs::exists(one.to() + "/graph/net.onnx"));
  // A training that went back has other later checkpoints.
  fs::remove_all(one.path(30));
  one.write_step(25);
  RunCopy again(real_files(), one.places(one.to()));
  must(again.copy(25));
  CHECK(whole_steps(real_files(), one.to()) == std::vector<int64_t>{25, 20});
  CHECK(must(read_file(real_files(), one.to() + "/metrics.jsonl", 100)).size() == 25);
}

TEST_CASE("a damaged checkpoint is not copied, and replaces none") {
  const CopiedRun one;
  RunCopy copy(real_files(), one.places(one.to(), 1));
  one.write_step(10);
  must(copy.copy(10));
  one.write_step(20);
  const std::string part = one.path(20) + "/part-00001-of-00002.safetensors";
  std::fstream(part, std::ios::in | std::ios::out | std::ios::binary).seekp(200).put('x');
  const Status refused = copy.copy(20);
  CHECK(refused.code() == Code::invalid_argument);
  CHECK(refused.message().find(cat("'", part, "': expected SHA-256 ")) == 0);
  CHECK(fs::exists(one.to() + "/checkpoints/step-00000010/manifest.json"));
  std::vector<std::string> skipped;
  CHECK(must(bring_run(real_files(), one.to(), one.run() + "-2", skipped)) == 10);
  CHECK(skipped.empty());
  CHECK(must(list_checkpoints(real_files(), one.to() + "/checkpoints")).size() == 1);
}

// Fails one operation of many, and all after it: a process that dies there.
class DyingFiles final : public ForwardingFiles {
 public:
  DyingFiles(Files& files, int last) : ForwardingFiles(files), left_(last) {}
  bool died() const { return left_ < 0; }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(step());
    return files_.create(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    LEAT_RETURN_IF_ERROR(step());
    return files_.rename(from, to);
  }
  Status remove(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(step());
    return files_.remove(path);
  }
  Status remove_all(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(step());
    return files_.remove_all(path);
  }

 private:
  Status step() { return --left_ < 0 ? unavailable("it is dead") : Status(); }
  int left_;
};

TEST_CASE("whenever copying ends, a training can go on from the copy") {
  const CopiedRun one;
  const S3Store store;
  StoreOptions options;
  options.variable = store.variable();
  options.writes = true;
  const auto in_store = make_store_files(real_files(), options);
  const std::vector<std::string> places{one.to(), "s3://bucket/runs/x"};
  int deaths = 0;
  for (const std::string& place : places) {
    for (int last = 0;; ++last) {
      const std::string to = cat(place, "-", last), back = cat(one.run(), "-back-", deaths++);
      DyingFiles files(*in_store, last);
      RunCopy copy(files, one.places(to, 1));
      int64_t copied = 0;
      bool replaces = false;
      for (const int64_t step : {10, 20, 20, 30}) {
        one.write_step(step, copied == step ? 1 : 0);  // another one of step 20
        replaces = copied == step;
        if (!copy.copy(step).ok()) break;
        replaces = false;
        copied = step;
      }
      INFO(to << ", copied " << copied);
      std::vector<std::string> skipped;
      const auto brought = bring_run(*in_store, to, back, skipped);
      // While the checkpoint of a step is replaced by another one of that step there may be none.
      if (copied > 0 && !replaces) CHECK((brought.ok() ? *brought : 0) >= copied);
      if (brought.ok()) {
        CHECK(whole_steps(real_files(), back) == std::vector<int64_t>{*brought});
        CHECK(must(read_file(real_files(), back + "/metrics.jsonl", 100)).size() >=
              static_cast<size_t>(*brought));
        CHECK(fs::exists(back + "/graph/net.onnx"));
      }
      fs::remove_all(one.checkpoints());
      if (!files.died()) break;
    }
  }
  CHECK(deaths > 40);
}

TEST_CASE("no name in a store leads out of the folder that a run is brought to") {
  const CopiedRun one;
  S3Store store;
  StoreOptions options;
  options.variable = store.variable();
  options.writes = true;
  const auto in_store = make_store_files(real_files(), options);
  one.write_step(10);
  RunCopy copy(*in_store, one.places("s3://bucket/x"));
  must(copy.copy(10));
  for (const char* key :
       {"x/../out", "x/a/../../out", "x/.bashrc", "x/..", "x/a\nb", "x/saved/../../out",
        "x/saved/a/../../../out", "x/saved//b", "x/saved/./c"}) {
    store.put(key, "bad");
  }
  std::vector<std::string> skipped;
  CHECK(must(bring_run(*in_store, "s3://bucket/x", one.run() + "-2/back", skipped)) == 10);
  CHECK(must(real_files().list(one.run() + "-2")) == std::vector<std::string>{"back"});
  CHECK(must(real_files().list(one.run() + "-2/back")) ==
        std::vector<std::string>{"checkpoints", "graph", "job.yaml", "metrics.jsonl"});
}

// Options for a store that is asked for a short time only. It is long enough for an answer on a
// busy machine, where a request of a few microseconds can take 100 ms.
StoreOptions hasty_options(const S3Store& store) {
  StoreOptions options;
  options.variable = store.variable();
  options.writes = true;
  options.pause = std::chrono::milliseconds(10);
  options.patience = options.upload_patience = std::chrono::seconds(2);
  return options;
}

TEST_CASE("only a checkpoint that is damaged makes room for an older one") {
  const CopiedRun one;
  std::string down;  // requests for keys with it get no answer
  S3Store store([&](int, const StoreRequest& request) -> std::optional<StoreAnswer> {
    if (down.empty() || request.target.find(down) == std::string::npos) return std::nullopt;
    return StoreAnswer{503};
  });
  const auto files = make_store_files(real_files(), hasty_options(store));
  RunCopy copy(*files, one.places("s3://bucket/x"));
  for (const int64_t step : {10, 20}) {
    one.write_step(step);
    must(copy.copy(step));
  }
  int brought = 0;
  const auto bring = [&] {
    std::vector<std::string> skipped;
    return bring_run(*files, "s3://bucket/x", cat(one.run(), "-", brought++), skipped);
  };
  // A store that does not answer is no damage, and a file that it does not give is not left out.
  for (const char* key : {"step-00000020/part-00001", "step-00000020/manifest", "net.onnx"}) {
    INFO(key);
    down = key;
    CHECK(bring().status().code() == Code::unavailable);
  }
  down.clear();
  CHECK(must(bring()) == 20);
  store.put("x/checkpoints/step-00000030/part-00000-of-00002.safetensors", "begun");
  CHECK(must(bring()) == 20);
  store.put("x/checkpoints/step-00000020/part-00001-of-00002.safetensors", "changed");
  CHECK(must(bring()) == 10);
  // A checkpoint without a manifest does not count as one of the newest.
  one.write_step(40);
  must(copy.copy(40));
  CHECK(!store.objects().contains("x/checkpoints/step-00000030/part-00000-of-00002.safetensors"));
  // The user's own folder stays as it is.
  fs::create_directories(one.run() + "-mine");
  std::ofstream(one.run() + "-mine/metrics.jsonl") << "mine";
  std::vector<std::string> skipped;
  CHECK(bring_run(*files, "s3://bucket/x", one.run() + "-mine", skipped)
            .status()
            .message()
            .find("expected an empty folder or none, found 'metrics.jsonl' in it") !=
        std::string::npos);
  CHECK(bring_run(*files, "s3://bucket/x", "s3://bucket/y", skipped).status().code() ==
        Code::invalid_argument);
}

TEST_CASE("a failed copy of an older checkpoint costs no newer one") {
  const CopiedRun one;
  std::atomic<RunCopier*> copier = nullptr;
  std::atomic<bool> offered = false;
  S3Store store([&](int, const StoreRequest& request) -> std::optional<StoreAnswer> {
    const bool is_older = request.target.find("step-00000020/part") != std::string::npos;
    if (!is_older || request.method != "PUT") return std::nullopt;
    // The newer one comes while this one fails.
    if (copier != nullptr && !offered.exchange(true)) copier.load()->offer(30);
    return StoreAnswer{503};
  });
  const auto files = make_store_files(real_files(), hasty_options(store));
  for (const int64_t step : {20, 30}) one.write_step(step);
  const auto made = must(RunCopier::create(real_files(), one.places("s3://bucket/x", 3),
                                           RunCopier::Start::is_new, hasty_options(store)));
  copier = made.get();
  made->offer(20);
  must(made->finish(std::chrono::minutes(1), [] { return false; }));
  CHECK(offered);
  CHECK(whole_steps(*files, "s3://bucket/x") == std::vector<int64_t>{30});
}

TEST_CASE("a run that is behind its copy leaves the copy alone") {
  const CopiedRun one;
  RunCopy copy(real_files(), one.places(one.to(), 3));
  for (const int64_t step : {10, 20}) {
    one.write_step(step);
    must(copy.copy(step));
  }
  fs::remove_all(one.path(20));  // as of a backup
  // Not a checkpoint from which a run goes on.
  fs::create_directories(one.path(20));
  std::ofstream(one.path(20) + "/manifest.json") << "damaged";
  CHECK(RunCopier::create(real_files(), one.places(one.to(), 3), RunCopier::Start::is_resumed)
            .status()
            .message()
            .find("expected no checkpoint after step 10, where the run goes on") !=
        std::string::npos);
  const auto copier =
      must(RunCopier::create(real_files(), one.places(one.to(), 3), RunCopier::Start::recovers));
  must(copier->finish(std::chrono::minutes(1), [] { return false; }));
  CHECK(whole_steps(real_files(), one.to()) == std::vector<int64_t>{20, 10});
  one.write_step(15);
  copier->offer(15);
  must(copier->finish(std::chrono::minutes(1), [] { return false; }));
  CHECK(whole_steps(real_files(), one.to()) == std::vector<int64_t>{15, 10});
}

TEST_CASE("a run is not copied into itself, and a refusal is not waited for") {
  const CopiedRun one;
  one.write_step(10);
  for (const std::string& to : {one.run(), one.run() + "/copy", one.run() + "/../run/x/..",
                                fs::path(one.run()).parent_path().string()}) {
    INFO(to);
    const Status refused =
        RunCopier::create(real_files(), one.places(to), RunCopier::Start::is_new).status();
    CHECK(refused.code() == Code::invalid_argument);
    CHECK(refused.message().find("expected a place for the copy outside of") != std::string::npos);
  }
  S3Store store([](int, const StoreRequest& request) -> std::optional<StoreAnswer> {
    return request.method == "PUT" ? std::optional(StoreAnswer{403}) : std::nullopt;
  });
  const auto copier = must(RunCopier::create(real_files(), one.places("s3://bucket/x"),
                                             RunCopier::Start::is_new, hasty_options(store)));
  copier->offer(10);
  const Status refused = copier->finish(std::chrono::hours(1), [] { return false; });
  CHECK(refused.code() == Code::failed_precondition);
  CHECK(refused.message().find("refuses the request (status 403)") != std::string::npos);
}

TEST_CASE("a copier copies the newest checkpoint, through a store that is down for a while") {
  const CopiedRun one;
  S3Store store;
  const StoreOptions options = hasty_options(store);
  const auto reading = make_store_files(real_files(), options);
  one.write_step(10);
  store.set_down(true);
  const auto places = one.places("s3://bucket/x", 3);
  CHECK(RunCopier::create(real_files(), places, RunCopier::Start::is_new, options)
            .status()
            .message()
            .find("answers with status 503") != std::string::npos);
  const auto copier =
      must(RunCopier::create(real_files(), places, RunCopier::Start::recovers, options));
  std::vector<std::string> warnings;
  CHECK(eventually([&] {
    for (const std::string& each : copier->take_warnings()) warnings.push_back(each);
    return !warnings.empty();
  }));
  CHECK(warnings.at(0).find("no copy of the checkpoint of step 10: 's3://bucket/x/") == 0);
  const Status late = copier->finish(std::chrono::milliseconds(300), [] { return false; });
  CHECK(late.code() == Code::deadline_exceeded);
  CHECK(late.message().find("the copy in 's3://bucket/x' is not whole after ") == 0);
  CHECK(copier->finish(std::chrono::hours(1), [] { return true; }).code() == Code::cancelled);
  store.set_down(false);
  for (const int64_t step : {20, 30}) {
    one.write_step(step);
    copier->offer(step);
  }
  one.write_text("weights.safetensors", "w");
  must(copier->finish(std::chrono::minutes(1), [] { return false; }));
  const auto steps = whole_steps(*reading, "s3://bucket/x");
  CHECK(steps.at(0) == 30);
  CHECK(store.objects().contains("x/weights.safetensors"));
  CHECK(
      RunCopier::create(real_files(), places, RunCopier::Start::is_new, options).status().code() ==
      Code::failed_precondition);
}

TEST_CASE("a copier ends at once while its store does not answer") {
  const CopiedRun one;
  one.write_step(10);
  std::atomic<int> asked = 0;
  S3Store store([&](int, const StoreRequest&) {
    ++asked;
    return std::optional(StoreAnswer{503});
  });
  StoreOptions options;
  options.variable = store.variable();
  options.pause = options.patience = options.upload_patience = std::chrono::hours(1);
  const auto copier = must(RunCopier::create(real_files(), one.places("s3://bucket/x"),
                                             RunCopier::Start::recovers, options));
  CHECK(eventually([&] { return asked > 0; }));
}

// The line with the hash in what `leat train` prints.
std::string hash_line_of(const Finished& done) {
  const size_t at = done.err.find("  sha256 ");
  return at == std::string::npos ? done.err : done.err.substr(at, done.err.find('\n', at) - at);
}

TEST_CASE("a run whose disk is lost goes on from its copy in a store, to the same weights") {
  const SmallJob small(kTinyCnn);
  S3Store store;
  const auto leat = [&](const std::vector<std::string>& arguments) {
    return run_program(leat_binary(), small.path(), arguments, store.environment());
  };
  std::ofstream(small.path("job.yaml"))
      << print_job(small.job({"steps=20", "data.validation=", "lr_scheduler={name: constant}"}));
  const Finished twin = leat({"train", "job.yaml", "--output", "twin"});
  REQUIRE(twin.exit_code == 0);
  const std::vector<std::string> copied{
      "--set", "checkpoint={every_steps: 5, keep: 2, copy_to: 's3://bucket/runs/a'}"};
  std::vector<std::string> half{"train", "job.yaml", "--output", "half", "--set", "steps=12"};
  half.insert(half.end(), copied.begin(), copied.end());
  const Finished first = leat(half);
  INFO(first.err);
  CHECK(first.exit_code == 0);
  CHECK(first.err.find("Copying the run to s3://bucket/runs/a") != std::string::npos);
  CHECK(store.objects().contains("runs/a/weights.safetensors"));
  // Another run must not replace it.
  half[3] = "other";
  check_refused(leat(half), kExitFailed, {"s3://bucket/runs/a", "another training"});
  fs::remove_all(small.path("half"));

  const Finished verified = leat({"checkpoint", "verify", "s3://bucket/runs/a"});
  INFO(verified.err);
  CHECK(verified.exit_code == 0);
  CHECK(verified.out.find("step-00000012: whole, ") != std::string::npos);
  const Finished brought = leat({"checkpoint", "copy", "s3://bucket/runs/a", "back"});
  INFO(brought.err);
  CHECK(brought.exit_code == 0);
  CHECK(brought.out == "back: step 12\n");
  check_refused(leat({"checkpoint", "copy", "s3://bucket/runs/a", "back"}), kExitFailed,
                {"'back': expected an empty folder or none, found 'checkpoints' in it"});
  check_refused(leat({"checkpoint", "copy", "s3://bucket/runs/none", "b"}), kExitFailed,
                {"expected a run with a checkpoint, found none"});
  const Finished rest = leat({"train", "--resume", "back", "--set", "steps=20"});
  INFO(rest.err);
  CHECK(rest.exit_code == 0);
  CHECK(hash_line_of(rest) == hash_line_of(twin));
  const auto objects = store.objects();
  CHECK(objects.contains("runs/a/checkpoints/step-00000020/manifest.json"));
  CHECK(!objects.contains("runs/a/checkpoints/step-00000010/manifest.json"));
  CHECK(objects.at("runs/a/metrics.jsonl") == contents_of(small.path("back/metrics.jsonl")));
}

TEST_CASE("a cluster copies its jobs, also one whose runner is killed", "[cluster]") {
  const SmallJob small(kTinyCnn);
  S3Store store;
  const Job job =
      small.job({"num_workers=2", "steps=40", "checkpoint.every_steps=5", "data.validation="});
  const std::string truth = small.hash(job, "twin", 2);
  Job on_cluster = job;
  on_cluster.data.root = "data";
  std::ofstream(small.path("job.yaml")) << print_job(on_cluster);
  ProcessCluster cluster(
      {.workers = 2,
       .data_path = job.data.root,
       .master = {"--set", "chaos=true", "--set", "checkpoint_copies=s3://bucket/jobs"},
       .master_environment = store.environment()});
  REQUIRE(cluster.await_ready(2));
  const std::string view = cluster.run_with_fault(small.path("job.yaml"), "kill=runner:1@step=17");
  INFO(view << cluster.logs());
  CHECK(view.find(truth) != std::string::npos);
  StoreOptions options;
  options.variable = store.variable();
  const auto files = make_store_files(real_files(), options);
  const auto jobs = must(files->list("s3://bucket/jobs"));
  REQUIRE(jobs.size() == 1);
  const std::string copy = "s3://bucket/jobs/" + jobs.front();
  CHECK(whole_steps(*files, copy).at(0) == 40);
  CHECK(must(files->exists(copy + "/weights.safetensors")));
  // A job may not choose the place itself.
  std::ofstream(small.path("own.yaml"))
      << print_job(small.job({"checkpoint={every_steps: 5, copy_to: /tmp/x}"}));
  check_refused(cluster.leat("submit", {small.path("own.yaml")}), kExitInvalid,
                {"checkpoint.copy_to: expected none in a job of a cluster", "checkpoint_copies"});
}

}  // namespace
}  // namespace leat

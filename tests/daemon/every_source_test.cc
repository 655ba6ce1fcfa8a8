// Every source of data in one table: the same weights on any number of workers and threads, after a
// stop at a drawn row and after SIGKILL in a drawn step, and each row once in an epoch.
//
// The rows are counted where they are used. The model has a variable with an element for each row,
// and each use of a row lowers its element by 1/16: the weights at the end tell how often the
// training had each row, and all runs of a source must have equal weights.
//
// LEAT_SOURCE_SEED=7 draws the rows and steps of an earlier run again.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>

#include "daemon/cli/data_ledger.h"
#include "daemon/training/train_specs.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/image_files.h"
#include "tests/daemon/table_files.h"
#include "tests/daemon/training_testing.h"
#include "tests/environment_number.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr int kRows = 60, kBatch = 8, kSteps = 15;  // two epochs, the first ends within a step
static_assert(kBatch * kSteps == 2 * kRows);

// The graph with the columns of a source, and the counts of its rows.
std::string counted_model(const std::string& inputs, const std::string& outputs,
                          const std::string& nodes) {
  return cat("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\nevery (", inputs, ") => (",
             outputs, ", float seen) {\n", nodes,
             "  counts = leat.Embedding <input_dim = 60, output_dim = 1, "
             "kernel_initializer = \"zeros\"> (row)\n"
             "  seen = ReduceMean <keepdims = 0> (counts)\n}\n");
}

// A folder with the files of some sources that have the same columns.
struct SourceGroup {
  SourceGroup(const std::string& model, std::vector<std::string> set)
      : small(model), settings(std::move(set)) {}
  SmallJob small;
  std::vector<std::string> settings;
  std::map<std::string, std::string> sources;  // data.train by name
  bool has_equal_rows = true;                  // all sources have the same rows
};

std::unique_ptr<SourceGroup> tables() {
  auto group = std::make_unique<SourceGroup>(
      counted_model("float[N,3] features, int64[N] row", "float[N,4] logits",
                    "  h = leat.Dense <activation = \"relu\", units = 12> (features)\n"
                    "  logits = leat.Dense <units = 4> (h)\n"),
      std::vector<std::string>{"data.rescale=1"});
  write_table_files(group->small.path("all"), 0, kRows);
  write_table_files(group->small.path("part-1"), 0, 23);
  write_table_files(group->small.path("part-2"), 23, kRows);
  for (const std::string& format : table_formats()) group->sources[format] = table_source(format);
  return group;
}

// Sources with the columns of the tables, and other rows.
std::unique_ptr<SourceGroup> made_rows() {
  auto group = tables();
  // 30 rows of one source and 15 of the other, which come twice in an epoch of 60.
  write_table_files(group->small.path("part-1"), 0, 30);
  write_table_files(group->small.path("part-2"), 0, 0);
  write_table_files(group->small.path("all"), 30, 45);
  group->sources = {
      {"mixture",
       cat("{format: mixture, sources: {many: {weight: 1, ", table_source("csv").substr(1),
           ", few: {weight: 1, ", table_source("sqlite").substr(1), "}}")},
      {"synthetic",
       "{format: synthetic, rows: 60, columns: {features: {shape: 3, distribution: normal}, "
       "labels: {dtype: int64, distribution: integers, high: 4}, row: {dtype: int64, "
       "distribution: row}}}"}};
  group->has_equal_rows = false;
  return group;
}

// Each image is of a class of its own, which is the number of its row.
std::unique_ptr<SourceGroup> images() {
  auto group = std::make_unique<SourceGroup>(
      counted_model("float[N,3,6,6] image, int64[N] row", "float[N,60] logits",
                    "  c = leat.Conv2D <filters = 4, kernel = 3, activation = \"relu\"> (image)\n"
                    "  f = Flatten (c)\n  logits = leat.Dense <units = 60> (f)\n"),
      std::vector<std::string>{"model.inputs={row: labels}"});
  write_image_files(group->small.path(), kRows, kRows);
  for (const char* format : kImageFormats) group->sources[format] = image_source(format);
  return group;
}

// The first token of a window is the number of its row.
std::unique_ptr<SourceGroup> token_windows() {
  auto group = std::make_unique<SourceGroup>(
      counted_model("int64[N,3] tokens, int64[N,1] row", "float[N,3,60] logits",
                    "  e = leat.Embedding <input_dim = 60, output_dim = 8> (tokens)\n"
                    "  logits = leat.Dense <units = 60> (e)\n"),
      std::vector<std::string>{
          "data.rescale=1",
          "data.columns={row: 'window[:1]', tokens: 'window[1:-1]', labels: 'window[2:]'}"});
  std::vector<uint16_t> text;
  for (uint16_t row = 0; row < kRows; ++row) {
    text.push_back(row);
    for (uint16_t i = 0; i < 4; ++i) text.push_back(static_cast<uint16_t>((row + i) * 5 % 12));
  }
  const auto* bytes = reinterpret_cast<const char*>(text.data());
  constexpr size_t kFirst = size_t{2} * 5 * 23;  // 23 windows
  std::ofstream(group->small.path("text-1.bin"), std::ios::binary).write(bytes, kFirst);
  std::ofstream(group->small.path("text-2.bin"), std::ios::binary)
      .write(bytes + kFirst, static_cast<std::streamsize>(2 * text.size() - kFirst));
  group->sources["tokens"] = "{format: tokens, files: 'text-*.bin', window: 5}";
  return group;
}

std::vector<std::unique_ptr<SourceGroup>> all_groups() {
  std::vector<std::unique_ptr<SourceGroup>> out;
  out.push_back(tables());
  out.push_back(made_rows());
  out.push_back(images());
  out.push_back(token_windows());
  return out;
}

// Syncs nothing, which would take most of the time: pages of a killed process are not lost.
class UnsyncedFiles final : public ForwardingFiles {
 public:
  UnsyncedFiles() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return unsynced(files_.create(path));
  }
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override {
    return unsynced(files_.append_to(path, size));
  }
  Status sync_directory(const std::string&) override { return {}; }

 private:
  class Unsynced final : public ForwardingFile {
   public:
    using ForwardingFile::ForwardingFile;
    Status sync() override { return {}; }
  };
  static Result<std::unique_ptr<WritableFile>> unsynced(
      Result<std::unique_ptr<WritableFile>> file) {
    LEAT_RETURN_IF_ERROR(file.status());
    return std::unique_ptr<WritableFile>(std::make_unique<Unsynced>(std::move(*file)));
  }
};

TrainOutcome train(const SourceGroup& group, const Job& job, const std::string& folder,
                   Silent& watch, int threads, bool resume = false) {
  static const Catalogue catalogue = standard_catalogue();
  UnsyncedFiles files;
  TrainOptions options{group.small.path(folder), resume, threads};
  options.skip_checkpoints = false;
  const auto trainer = must(Trainer::create(catalogue, files, job, options));
  return must(trainer->run(watch, [] { return false; }));
}

std::string hash_of(const SourceGroup& group, const Job& job, const std::string& folder,
                    int threads) {
  Silent watch;
  return train(group, job, folder, watch, threads).weights_sha256;
}

Job job_on(const SourceGroup& group, const std::string& source,
           const std::vector<std::string>& more = {}) {
  std::vector<std::string> set = {
      cat("data.train=", group.sources.at(source)),
      "data.validation=null",
      "metrics=[]",
      "loss=[{name: cross_entropy, output: logits}, {name: output, output: seen}]",
      "optimizer={name: sgd, learning_rate: 0.5}",
      "lr_scheduler={name: constant}",
      cat("global_batch_size=", kBatch),
      cat("steps=", kSteps),
      "checkpoint={every_steps: 1000}"};
  set.insert(set.end(), group.settings.begin(), group.settings.end());
  set.insert(set.end(), more.begin(), more.end());
  return group.small.job(set);
}

// How often the training that left this folder had each row.
std::vector<int64_t> uses_of_rows(const std::string& run) {
  const SafeTensors weights = must(read_safetensors(real_files(), run + "/weights.safetensors"));
  for (const auto& [name, values] : weights.tensors) {
    if (name.find("counts") == std::string::npos) continue;
    std::vector<int64_t> out;
    for (int64_t row = 0; row < values.elements(); ++row) {
      const double uses = -16 * values.at(row);
      CHECK(uses == std::floor(uses));
      out.push_back(static_cast<int64_t>(uses));
    }
    return out;
  }
  FAIL("expected the variable of the counts in " << run);
  return {};
}

// Each row twice in two epochs. The mixture has rows 0 to 29 once an epoch, and 30 to 44 twice.
std::vector<int64_t> expected_uses(const std::string& source) {
  std::vector<int64_t> out(kRows, 2);
  if (source != "mixture") return out;
  std::fill(out.begin() + 30, out.begin() + 45, 4);
  std::fill(out.begin() + 45, out.end(), 0);
  return out;
}

// Trains in a process of its own, which ends by SIGKILL when it has done so many steps.
void train_until_killed(const SourceGroup& group, const Job& job, const std::string& folder,
                        int threads, size_t steps) {
  class Killed final : public Silent {
   public:
    explicit Killed(size_t steps) : steps_(steps) {}
    void stepped(int64_t step, const StepResult& result) override {
      Silent::stepped(step, result);
      if (losses.size() == steps_) ::kill(::getpid(), SIGKILL);
    }

   private:
    const size_t steps_;
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      Killed watch(steps);
      (void)train(group, job, folder, watch, threads);
    } catch (...) {  // an exception would run the other tests in this process, too
    }
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGKILL);
}

// The sources with the hash that each has on one worker and one thread.
template <typename Check>
void for_each_source(Check check) {
  for (const auto& group : all_groups()) {
    std::string first;
    for (const auto& [source, train] : group->sources) {
      INFO(source);
      const Job job = job_on(*group, source);
      // The job is printed and read again as the same job.
      CHECK(must(parse_job(print_job(job), group->small.path("job.yaml"))).data == job.data);
      const std::string run = source + "-1";
      const std::string hash = hash_of(*group, job, run, 1);
      if (first.empty() || !group->has_equal_rows) first = hash;
      CHECK(hash == first);
      CHECK(uses_of_rows(group->small.path(run)) == expected_uses(source));
      check(*group, source, hash);
    }
  }
}

TEST_CASE("every source trains to one hash on any number of workers and threads", "[cluster]") {
  for_each_source([](const SourceGroup& group, const std::string& source, const std::string& hash) {
    for (const auto& [workers, threads] : {std::pair(2, 3), std::pair(3, 2), std::pair(4, 4)}) {
      if (kSlowness > 1 && workers != 3) continue;
      INFO("workers " << workers << ", threads " << threads);
      const Job job = job_on(group, source, {cat("num_workers=", workers)});
      CHECK(hash_of(group, job, cat(source, "-", workers), threads) == hash);
    }
  });
}

// Without an argument of its own a run draws other rows than the last one.
uint64_t drawn_seed() {
  return static_cast<uint64_t>(environment_number(
      "LEAT_SOURCE_SEED", static_cast<int64_t>(std::random_device{}() % 10'000)));
}

// Prints and returns the hash of the order in which an epoch has the rows.
std::string print_ledger(const std::string& source, const Job& job, int64_t epoch) {
  const EpochLedger ledger =
      must(read_epoch_ledger(real_files(), dataset_files(job, job.data.train),
                             {job.data.shuffle, job.seed, job.data.sharding, job.shards}, epoch,
                             /*reads_rows=*/true));
  CHECK(ledger.rows == kRows);
  CHECK(ledger.missing == 0);
  CHECK(ledger.repeated == 0);
  std::cout << "every source: " << source << ": epoch " << epoch << ": " << ledger.rows << " rows, "
            << ledger.missing << " missing, " << ledger.repeated << " repeated, order "
            << ledger.order.substr(0, 12) << ", content " << ledger.content.substr(0, 12) << "\n";
  return ledger.order;
}

TEST_CASE("every source goes on at any row, and after SIGKILL, with each row once in an epoch",
          "[faults]") {
  const uint64_t seed = drawn_seed();
  std::cout << "every source: LEAT_SOURCE_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  std::map<int64_t, std::string> orders;  // by epoch
  for_each_source(
      [&](const SourceGroup& group, const std::string& source, const std::string& hash) {
        const int64_t stop = 1 + static_cast<int64_t>(random() % (kSteps - 1));
        Silent first, second;
        const std::vector<std::string> part = {"num_workers=2", cat("steps=", stop)};
        train(group, job_on(group, source, part), source + "-stop", first, 2);
        const TrainOutcome rest = train(group, job_on(group, source, {"num_workers=3"}),
                                        source + "-stop", second, 1, /*resume=*/true);
        CHECK(second.first == stop);
        CHECK(rest.weights_sha256 == hash);
        // A checkpoint waits for the one before it, so that by then there is one.
        const size_t killed = 5 + random() % (kSteps - 6);
        const Job job = job_on(group, source, {"num_workers=2", "checkpoint={every_steps: 2}"});
        train_until_killed(group, job, source + "-kill", 2, killed);
        Silent after;
        const TrainOutcome end = train(group, job, source + "-kill", after, 3, /*resume=*/true);
        CHECK(after.first > 0);
        CHECK(after.first < kSteps);
        CHECK(end.weights_sha256 == hash);
        std::cout << "every source: " << source << ": stopped after row " << stop * kBatch
                  << ", killed after row " << killed * kBatch << ", went on from row "
                  << after.first * kBatch << ", weights " << hash.substr(0, 12) << "\n";
        // The order follows from the seed and the number of rows, whatever has them.
        for (const int64_t epoch : {1, 2}) {
          const std::string order = print_ledger(source, job, epoch);
          CHECK(orders.emplace(epoch, order).first->second == order);
        }
        CHECK(orders[1] != orders[2]);
      });
}

TEST_CASE("a step in which an epoch ends goes on with the rows of the next pass") {
  const auto group = tables();
  const auto uses_after = [&](int epochs) {
    const std::string run = cat("epochs-", epochs);
    Silent watch;
    const Job job = job_on(*group, "npy", {"steps=null", cat("epochs=", epochs)});
    CHECK(train(*group, job, run, watch, 1).steps == (epochs == 1 ? 8 : 15));
    CHECK(watch.epochs == epochs);
    return uses_of_rows(group->small.path(run));
  };
  const std::vector<int64_t> once = uses_after(1);
  CHECK(std::count(once.begin(), once.end(), 1) == 56);
  CHECK(std::count(once.begin(), once.end(), 2) == 4);
  CHECK(uses_after(2) == std::vector<int64_t>(kRows, 2));
}

}  // namespace
}  // namespace leat

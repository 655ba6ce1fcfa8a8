#include "daemon/metrics/metrics_log.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <limits>
#include <thread>

#include "daemon/cli/events.h"
#include "daemon/runner/turn_log.h"
#include "devices/base/failpoint.h"
#include "devices/base/forwarding_files.h"
#include "ops/state/commits.h"
#include "tests/catch.h"
#include "tests/daemon/checkpoint/crash_files.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_steps(const std::string& path, int64_t keep, int64_t first, int64_t last) {
  auto log = MetricsLog::open(real_files(), path, keep);
  REQUIRE(log.status().message() == "");
  for (int64_t step = first; step <= last; ++step) {
    const StepMetric metrics[] = {{"loss", 1.0 / static_cast<double>(step)}, {"accuracy", 0.1f}};
    REQUIRE((*log)->append(step, metrics).ok());
  }
  REQUIRE((*log)->flush().ok());
}

TEST_CASE("a JSON line has its keys in order and escapes its strings") {
  JsonLine line;
  line.add("a", "x\"y\\z\n\x7f").add("b", 0.1).add("c", 0.1f).add("d", int64_t{-5});
  line.add("e", std::numeric_limits<uint64_t>::max()).add("f", true).add("g", std::nan(""));
  const std::optional<double> none, two = 2;
  line.add("h", HUGE_VAL).add("i", none).add("j", two);
  CHECK(line.text() ==
        R"({"a": "x\"y\\z\u000a\u007f", "b": 0.1, "c": 0.1, "d": -5, "e": 18446744073709551615, )"
        R"("f": true, "g": "NaN", "h": "Infinity", "i": null, "j": 2})"
        "\n");
  JsonLine inner;
  inner.add("b", -HUGE_VAL);
  line.clear();
  CHECK(line.add("a", inner).text() == "{\"a\": {\"b\": \"-Infinity\"}}\n");
  line.clear();
  CHECK(line.text() == "{}\n");
}

TEST_CASE("the metrics of a run are one object per step") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  write_steps(path, 0, 1, 3);
  CHECK(contents(path) ==
        "{\"step\": 1, \"loss\": 1, \"accuracy\": 0.1}\n"
        "{\"step\": 2, \"loss\": 0.5, \"accuracy\": 0.1}\n"
        "{\"step\": 3, \"loss\": 0.3333333333333333, \"accuracy\": 0.1}\n");
}

TEST_CASE("a resumed run's metrics are those of the uninterrupted one") {
  const TemporaryDirectory folder;
  write_steps(folder / "whole", 0, 1, 30);
  write_steps(folder / "resumed", 0, 1, 17);
  write_steps(folder / "resumed", 10, 11, 30);
  CHECK(contents(folder / "resumed") == contents(folder / "whole"));
}

TEST_CASE("a torn row is dropped when a log is opened again, and a line that is none") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  for (const char* torn :
       {"{\"step\": 3, \"lo", "garbage\n{\"step\": 2}\n", "{\"step\": \"3\"}\n", "[3]\n", "\n"}) {
    write_steps(path, 0, 1, 2);
    std::ofstream(path, std::ios::app) << torn;
    write_steps(path, 5, 3, 3);
    INFO(torn);
    CHECK(contents(path) ==
          "{\"step\": 1, \"loss\": 1, \"accuracy\": 0.1}\n"
          "{\"step\": 2, \"loss\": 0.5, \"accuracy\": 0.1}\n"
          "{\"step\": 3, \"loss\": 0.3333333333333333, \"accuracy\": 0.1}\n");
  }
  // The row of an epoch without a valid step, where no row of a step comes before it.
  std::ofstream(path, std::ios::trunc) << "{\"epoch\": 1, \"st}\n";
  write_steps(path, 0, 1, 1);
  CHECK(contents(path) == "{\"step\": 1, \"loss\": 1, \"accuracy\": 0.1}\n");
}

TEST_CASE("the metrics of a log are read back as they were appended") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  CHECK(read_metrics(real_files(), path, 0, true)->last_step == 0);
  {
    auto log = MetricsLog::open(real_files(), path, 0);
    REQUIRE(log.ok());
    for (int64_t step = 1; step <= 4; ++step) {
      const float loss = step == 3 ? std::numeric_limits<float>::quiet_NaN() : 0.1f * step;
      const StepMetric metrics[] = {{"loss", loss}, {"accuracy", 1.0f / step}};
      REQUIRE((*log)->append(step, metrics).ok());
    }
    REQUIRE((*log)->flush().ok());
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 5, \"lo";  // torn
  const auto logged = read_metrics(real_files(), path, 2, true);
  REQUIRE(logged.ok());
  CHECK(logged->last_step == 4);
  REQUIRE(logged->tail.size() == 2);
  CHECK(logged->tail[0].step == 3);
  CHECK(std::isnan(logged->tail[0].values[0]));
  CHECK(logged->tail[0].values[1] == 1.0f / 3);
  CHECK(logged->tail[1].values == std::vector<double>{0.1f * 4, 0.25});
}

TEST_CASE("the other metrics of an epoch are in its row by their names, and read back") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  EpochResult epoch{1, 1, 0.25, kNoNumber, 0.5, kNoNumber, 1.5, 64};
  epoch.more = {{"val_f1", 0.1}, {"val_top_5", computed(kNoNumber)}};
  {
    const auto log = MetricsLog::open(real_files(), path, 0);
    const StepMetric loss[] = {{"loss", 0.25f}};
    REQUIRE((*log)->append(1, loss).ok());
    REQUIRE((*log)->append(epoch).ok());
    REQUIRE((*log)->sync().ok());
  }
  const auto log = MetricsLog::open(real_files(), path, 1);
  REQUIRE((*log)->epochs().size() == 1);
  CHECK((*log)->epochs()[0].more == epoch.more);
  CHECK((*log)->epochs()[0].number("val_loss") == 0.5);
  CHECK_FALSE(is_known((*log)->epochs()[0].number("val_accuracy")));
  const auto all = read_epochs(real_files(), path, 1);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 1);
  CHECK(all->at(0).number("val_f1") == 0.1);
}

TEST_CASE("an epoch's row is read back, and rows of older logs without one") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  std::ofstream(path) << "{\"step\": 1, \"loss\": null}\n{\"step\": 2, \"loss\": 0.5}\n";
  EpochResult epoch{1, 2, 0.25, 0.75, std::numeric_limits<double>::infinity(), 0.5, 1.5, 64};
  {
    const auto log = MetricsLog::open(real_files(), path, 2);
    REQUIRE(log.ok());
    CHECK((*log)->epochs().empty());
    CHECK((*log)->loss().text().empty());
    REQUIRE((*log)->append(epoch).ok());
    const StepMetric metrics[] = {{"loss", 0.125f}};
    REQUIRE((*log)->append(3, metrics, 640).ok());
    REQUIRE((*log)->flush().ok());
  }
  CHECK(contents(path) ==
        "{\"step\": 1, \"loss\": null}\n{\"step\": 2, \"loss\": 0.5}\n"
        "{\"epoch\": 1, \"step\": 2, \"loss\": 0.25, \"accuracy\": 0.75, \"val_loss\": "
        "\"Infinity\", \"val_accuracy\": 0.5, \"timing\": {\"seconds\": 1.5, "
        "\"samples_per_second\": 64}}\n"
        "{\"step\": 3, \"loss\": 0.125, \"timing\": {\"samples_per_second\": 640}}\n");
  for (const int64_t last : {2, 3}) {
    const auto log = MetricsLog::open(real_files(), path, last);
    REQUIRE(log.ok());
    REQUIRE((*log)->epochs().size() == 1);
    const EpochResult& read = (*log)->epochs()[0];
    CHECK(read.epoch == 1);
    CHECK(read.step == 2);
    CHECK(std::vector{read.loss, read.accuracy, read.val_loss, read.val_accuracy, read.seconds,
                      read.samples_per_second} ==
          std::vector{epoch.loss, epoch.accuracy, epoch.val_loss, epoch.val_accuracy, epoch.seconds,
                      epoch.samples_per_second});
  }
  const auto logged = read_metrics(real_files(), path, 0, true);
  REQUIRE(logged.ok());
  CHECK(logged->last_step == 2);
  REQUIRE(logged->tail.size() == 2);
  CHECK(logged->tail[1].values == std::vector<double>{0.5});
}

TEST_CASE("a digest of a log says later what became of its rows") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsDigest digest;
  {
    const auto log = MetricsLog::open(real_files(), path, 0);
    REQUIRE(log.ok());
    (*log)->mark(20);
    for (int64_t step = 1; step <= 30; ++step) {
      const StepMetric metrics[] = {{"loss", 1.0 / static_cast<double>(step)}};
      REQUIRE((*log)->append(step, metrics).ok());
    }
    REQUIRE((*log)->flush().ok());
    CHECK((*log)->digest_at(30)->bytes > (*log)->digest_at(20)->bytes);
    CHECK_FALSE((*log)->digest_at(25));
    digest = (*log)->digest_at(20).value();
  }
  const std::string rows = contents(path);
  const auto loss_of = [&](const std::string& text, int64_t last_step) {
    std::ofstream(path, std::ios::trunc) << text;
    const auto log = MetricsLog::open(real_files(), path, last_step, digest);
    REQUIRE(log.ok());
    (*log)->expect_rows_until(last_step);
    return (*log)->loss().text();
  };
  for (const int64_t last_step : {20, 25, 30}) CHECK(loss_of(rows, last_step) == "");
  std::string text = rows;
  text[40] ^= 1;
  CHECK(loss_of(text, 25) == "some of the rows up to step 20 are not those that were written");
  CHECK(loss_of("", 25) == "25 rows are missing: of steps 1 to 25");
  CHECK(loss_of(rows.substr(0, rows.size() / 2), 20) == "4 rows are missing: of steps 17 to 20");
  // After a missing row was found, a changed row must be found, too.
  digest = {20, 10, 0, 1, 0};
  CHECK(loss_of(rows.substr(rows.find('\n') + 1), 30) ==
        "1 row is missing: of step 1; some of the rows up to step 20 are not those that were "
        "written");
}

// A master that dies loses the metrics that it has not written. Workers step without it while they
// have room for reports, and remember the rows of both.
TEST_CASE("workers remember what a master that dies has not written, and what they do without it") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  const auto log = MetricsLog::open(real_files(), path, 0);
  REQUIRE(log.status().message() == "");
  const StepMetric metrics[] = {{"loss", 1.0}};  // the shortest rows
  for (int64_t step = 1; step <= 4000; ++step) {
    REQUIRE((*log)->append(step, metrics).ok());
    if (step % 50 != 0) continue;
    const auto logged = read_metrics(real_files(), path, step, false);
    REQUIRE(logged.status().message() == "");
    REQUIRE(step - logged->last_step < 1024);
  }
  for (size_t values = 1; values <= Commits::kMostValues; ++values) {
    const size_t unwritten = 1024 / values;
    CHECK(Commits::rows_of(values) >=
          rows_in_ring(values * sizeof(double)) + kFetchDepth + unwritten);
  }
}

// A disk that syncs only when a test lets it.
struct SlowDisk final : ForwardingFiles {
  struct File final : ForwardingFile {
    File(std::unique_ptr<WritableFile> file, SlowDisk& disk)
        : ForwardingFile(std::move(file)), disk(disk) {}
    Status sync() override {
      disk.begun.count_down();
      disk.may_end.wait();
      return ForwardingFile::sync();
    }
    SlowDisk& disk;
  };
  SlowDisk() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    auto file = ForwardingFiles::create(path);
    if (!file.ok()) return file;
    return std::unique_ptr<WritableFile>(std::make_unique<File>(std::move(*file), *this));
  }
  std::latch begun{1}, may_end{1};
};

TEST_CASE("a log is not behind either while a slow disk syncs it") {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  SlowDisk disk;
  const auto log = MetricsLog::open(disk, path, 0);
  REQUIRE(log.status().message() == "");
  const StepMetric metrics[] = {{"loss", 1.0}};
  REQUIRE((*log)->append(1, metrics).ok());
  Status synced;
  std::jthread other([&] { synced = (*log)->sync(); });
  disk.begun.wait();
  CHECK((*log)->append(2, metrics).ok());
  CHECK((*log)->flush().ok());
  CHECK(read_metrics(real_files(), path, 0, false)->last_step == 2);
  disk.may_end.count_down();
  other.join();
  CHECK(synced.message() == "");
}

TEST_CASE("rows that a full disk has not taken are known all the same") {
  const TemporaryDirectory folder;
  const auto log = must(MetricsLog::open(real_files(), folder / "metrics.jsonl", 0));
  const StepMetric first[] = {{"loss", 1.0}}, second[] = {{"loss", 2.0}};
  must(log->append(1, first));
  {
    const ScopedFailpoint full("files/append", resource_exhausted("no space left"));
    must(log->flush());
    must(log->append(2, second));
    const LoggedMetrics unwritten = log->unwritten(1, false);
    REQUIRE(unwritten.tail.size() == 1);
    CHECK(unwritten.tail[0].step == 2);
    CHECK(unwritten.tail[0].values == std::vector<double>{2.0});
    CHECK(log->unwritten(0, false).tail.size() == 2);
  }
  must(log->flush());
  CHECK(log->unwritten(0, false).tail.empty());
  CHECK(must(read_metrics(real_files(), folder / "metrics.jsonl", 0, false)).tail.size() == 2);
}

TEST_CASE("a log in a folder that is not there is an error that names it") {
  const TemporaryDirectory folder;
  const auto log = MetricsLog::open(real_files(), folder / "none/metrics.jsonl", 0);
  CHECK_FALSE(log.ok());
  CHECK_THAT(log.status().message(), Catch::Contains("none/metrics.jsonl"));
}

TEST_CASE("the events of --json have their documented keys") {
  const RunIdentity identity{4, 11, "A CPU"};
  StartedEvent started;
  started.job = "j";
  started.run = "leat-runs/j-1";
  started.steps = 10;
  started.global_batch_size = 128;
  started.strategy = "mirrored";
  started.workers = 2;
  started.identity = identity;
  CHECK(json_of(started) ==
        R"({"event": "started", "api_version": "leat/v1", "job": "j", "run": "leat-runs/j-1", )"
        R"("steps": 10, "start_step": 0, "global_batch_size": 128, "strategy": "mirrored", )"
        R"("workers": 2, "threads": 1, "shards": 4, "seed": 11, "cpu": "A CPU", )"
        R"("precision": "float32"})"
        "\n");
  EpochEvent epoch;
  epoch.step = 5;
  epoch.seconds = 1.5;
  epoch.samples_per_second = 427;
  epoch.loss = 0.5;
  epoch.accuracy = 0.75;
  CHECK(json_of(epoch) ==
        R"({"event": "epoch", "epoch": 1, "step": 5, "seconds": 1.5, "samples_per_second": 427, )"
        R"("loss": 0.5, "accuracy": 0.75, "val_loss": null, "val_accuracy": null})"
        "\n");
  CHECK(json_of(CheckpointEvent{5, "c"}) ==
        "{\"event\": \"checkpoint\", \"step\": 5, \"path\": \"c\"}\n");
  CHECK(
      json_of(FinishedEvent{"r", "ab", 0.9, 0.25, 1000, 10, identity}) ==
      R"({"event": "finished", "run": "r", "weights_sha256": "ab", "val_accuracy": 0.9, )"
      R"("val_loss": 0.25, "samples_per_second": 1000, "steps": 10, "shards": 4, "seed": 11, )"
      R"("cpu": "A CPU", "precision": "float32", "depends_on_timing": false, "steps_skipped": 0, )"
      R"("metrics_missing_rows": 0, "metrics_changed_until": null})"
      "\n");
  CHECK(json_of(InterruptedEvent{"r", 5, "c"}) ==
        "{\"event\": \"interrupted\", \"run\": \"r\", \"step\": 5, \"checkpoint\": \"c\"}\n");
}

TEST_CASE("a sync that failed is not tried again, and nothing goes on without its rows") {
  const TemporaryDirectory dir;
  const auto log = MetricsLog::open(real_files(), dir / "metrics.jsonl", 0);
  REQUIRE(log.ok());
  {
    const ScopedFailpoint broken("files/sync", unavailable("input/output error"));
    CHECK((*log)->sync().code() == Code::unavailable);
  }
  CHECK((*log)->sync().code() == Code::unavailable);
  CHECK((*log)->flush().code() == Code::unavailable);
}

TEST_CASE("a log that is opened again is the same file, unless rows go or a sync has failed") {
  const TemporaryDirectory dir;
  const std::string path = dir / "metrics.jsonl", name = dir / "other";
  const auto is_the_same = [&] { return std::filesystem::equivalent(path, name); };
  write_steps(path, 0, 1, 30);
  std::filesystem::create_hard_link(path, name);
  const std::string rows = contents(path);
  for (const int64_t last : {30, 31}) {
    const auto log = MetricsLog::open(real_files(), path, last);
    REQUIRE(log.ok());
    CHECK((*log)->last_step() == 30);
    CHECK(is_the_same());
    const ScopedFailpoint broken("files/sync", unavailable("input/output error"));
    if (last == 31) CHECK((*log)->sync().code() == Code::unavailable);
  }
  const auto log = MetricsLog::open(real_files(), path, 30);
  REQUIRE(log.ok());
  CHECK((*log)->last_step() == 30);
  CHECK_FALSE(is_the_same());
  CHECK(contents(path) == rows);
  const auto shorter = MetricsLog::open(real_files(), path, 29);
  REQUIRE(shorter.ok());
  CHECK((*shorter)->last_step() == 29);
  CHECK(rows.starts_with(contents(path)));
}

TEST_CASE("the last metrics of a log are those of all of it") {
  const TemporaryDirectory dir;
  const std::string path = dir / "metrics.jsonl";
  for (const int64_t steps : {1, 100, 100'000}) {
    write_steps(path, 0, 1, steps);
    for (const int64_t after : {int64_t{0}, steps / 3, steps - 2000, steps - 1, steps}) {
      INFO(after << " of " << steps);
      const auto all = read_metrics(real_files(), path, after, false);
      const auto last = read_last_metrics(real_files(), path, after, false);
      REQUIRE((all.ok() && last.ok()));
      CHECK(last->last_step == steps);
      REQUIRE(last->tail.size() == all->tail.size());
      const auto same = [](const auto& a, const auto& b) {
        return a.step == b.step && a.values == b.values;
      };
      CHECK(std::equal(all->tail.begin(), all->tail.end(), last->tail.begin(), same));
    }
  }
  write_steps(path, 0, 1, 0);
  CHECK(read_last_metrics(real_files(), path, 0, false)->last_step == 0);
}

// A training that resumes twice: once from its last step, and once from an earlier one.
TEST_CASE("rows that were synced survive a loss of power, also when a log is opened again") {
  const std::string path = "run/metrics.jsonl";
  CrashFiles disk;
  REQUIRE(disk.make_directories("run").ok());
  std::vector<std::pair<size_t, int64_t>> acknowledged = {{0, 0}};  // after so many operations
  for (const auto& [from, to] : {std::pair(0, 100), std::pair(100, 200), std::pair(150, 250)}) {
    acknowledged.emplace_back(disk.operations(), from);
    auto log = MetricsLog::open(disk, path, from);
    REQUIRE(log.ok());
    for (int64_t step = from + 1; step <= to; ++step) {
      const StepMetric metrics[] = {{"loss", 1.0 / static_cast<double>(step)}};
      REQUIRE((*log)->append(step, metrics).ok());
      if (step % 10 == 0) REQUIRE((*log)->flush().ok());
    }
    REQUIRE((*log)->sync().ok());
    acknowledged.emplace_back(disk.operations(), to);
  }
  for (size_t operations = 0; operations <= disk.operations(); ++operations) {
    int64_t least = 0;
    for (const auto& [at, step] : acknowledged) {
      if (at <= operations) least = step;
    }
    for (uint64_t seed = 0; seed < 50; ++seed) {
      CrashFiles left = disk.after_crash(operations, seed);
      INFO("crash after " << operations << " operations, seed " << seed);
      const auto logged = read_metrics(left, path, 0, false);
      REQUIRE(logged.ok());
      REQUIRE(logged->last_step >= least);
      for (const LoggedMetrics::Row& row : logged->tail) {
        if (row.step <= least)
          REQUIRE(row.values == std::vector{1.0 / static_cast<double>(row.step)});
      }
    }
  }
}

TEST_CASE("rows are appended while others are synced, and none is lost or twice there") {
  const TemporaryDirectory dir;
  const std::string path = dir / "metrics.jsonl";
  auto log = MetricsLog::open(real_files(), path, 0);
  REQUIRE(log.ok());
  std::atomic<bool> over{false};
  Status synced;
  std::thread other([&] {
    while (!over && synced.ok()) synced = (*log)->sync();
  });
  for (int64_t step = 1; step <= 2000; ++step) {
    const StepMetric metrics[] = {{"loss", 1.0 / static_cast<double>(step)}};
    if (!(*log)->append(step, metrics).ok() || !(*log)->flush().ok()) break;
  }
  over = true;
  other.join();
  CHECK(synced.message() == "");
  CHECK((*log)->sync().ok());
  const auto logged = read_metrics(real_files(), path, 0, false);
  REQUIRE(logged.ok());
  CHECK(logged->last_step == 2000);
  CHECK(logged->tail.size() == 2000);
}

}  // namespace
}  // namespace leat

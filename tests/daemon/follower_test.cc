// Tests the lines that `leat` prints of a job that a user follows.
#include "daemon/cli/follower.h"

#include <sstream>

#include "tests/catch.h"

namespace leat {
namespace {

// 25 steps of 8 rows in three epochs of 70 rows: they end with steps 9, 18 and 25.
JobView followed(uint64_t step, uint32_t epoch, std::vector<EpochResult> ended) {
  JobView job;
  job.id = "cnn-7f3a";
  job.condition.state = JobState::running;
  job.condition.workers = {"w1"};
  ProgressReport& last = job.progress.last;
  last.step = step;
  last.steps = 25;
  last.epoch = epoch;
  last.epochs = 3;
  last.samples_per_step = last.rows_per_step = 8;
  last.rows_per_epoch = 70;
  last.loss = 1.0 / static_cast<double>(step + 1);  // of the last step that was reported
  job.progress.epochs = std::move(ended);
  if (!job.progress.epochs.empty()) last.ended = job.progress.epochs.back();
  return job;
}

std::string lines_of(const std::vector<JobView>& views) {
  std::ostringstream out;
  const ManualClock clock;
  Follower follower(out, clock, false, 80);
  for (const JobView& view : views) follower.show(view);
  return out.str();
}

TEST_CASE("an epoch has its line once, with what it came to, whichever reports came") {
  const EpochResult one{1, 9, 0.5, 0.25, 0.75, 0.125, 3, 24};
  EpochResult two{2, 18, 0.25, 0.5, 0.375, 0.25, 3, 24};
  two.more = {{"val_f1", 0.75}};
  const EpochResult three{3, 25, computed(kNoNumber), 0.75, kNoNumber, kNoNumber, 7, 8};
  const std::string expected =
      lines_of({followed(0, 0, {}), followed(3, 1, {}), followed(9, 1, {one}),
                followed(18, 2, {one, two}), followed(25, 3, {one, two, three})});
  CHECK_THAT(expected, Catch::StartsWith("RUNNING on w1\nEpoch 1/3 - 9/9 - 3s 333ms/step - 24 "));
  CHECK_THAT(expected, Catch::Contains("/s - loss: 0.5000 - accuracy: 0.2500 - val_loss: 0.7500 - "
                                       "val_accuracy: 0.1250\nEpoch 2/3 - 9/9 - "));
  CHECK_THAT(expected, Catch::Contains("val_accuracy: 0.2500 - val_f1: 0.7500\nEpoch 3/3 - 7/7"));
  CHECK_THAT(expected, Catch::Contains("\nEpoch 3/3 - 7/7 - 7s 1.0s/step - 8 "));
  CHECK_THAT(expected, Catch::EndsWith("/s - loss: NaN - accuracy: 0.7500\n"));
  // The job arrives in one report, in reports of every step, or with a step back in between.
  CHECK(lines_of({followed(0, 0, {}), followed(25, 3, {one, two, three})}) == expected);
  std::vector<JobView> views;
  for (uint64_t step = 0; step <= 25; ++step) {
    std::vector<EpochResult> ended;
    if (step > 9) ended.push_back(one);
    if (step > 18) ended.push_back(two);
    views.push_back(followed(step, step <= 9 ? 1 : step <= 18 ? 2 : 3, std::move(ended)));
  }
  views.push_back(followed(25, 3, {one, two, three}));
  CHECK(lines_of(views) == expected);
  CHECK(lines_of({followed(0, 0, {}), followed(20, 3, {one, two}), followed(7, 1, {one, two}),
                  followed(12, 2, {one, two}), followed(25, 3, {one, two, three})}) == expected);
}

TEST_CASE("a late follower sees the epochs that end from then on") {
  const EpochResult one{1, 9, 0.5, 0.25, 0.75, 0.125, 3, 24};
  const EpochResult two{2, 18, 0.25, 0.5, 0.375, 0.25, 3, 24};
  const std::string text = lines_of({followed(12, 2, {one}), followed(19, 3, {one, two})});
  CHECK_THAT(text, !Catch::Contains("Epoch 1/3") && Catch::Contains("Epoch 2/3 - 9/9 - 3s "));
}

TEST_CASE("losses in a job's metrics are said in a few words") {
  ProgressReport report;
  CHECK(lost_metrics(report).empty());
  report.metrics_missing = 1;
  CHECK(lost_metrics(report) == "1 row of metrics.jsonl missing");
  report.metrics_missing = 3;
  report.metrics_changed_until = 20;
  CHECK(lost_metrics(report) ==
        "3 rows of metrics.jsonl missing, rows of metrics.jsonl changed, up to step 20");
}

}  // namespace
}  // namespace leat

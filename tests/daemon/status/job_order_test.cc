#include "daemon/status/job_order.h"

#include "tests/catch.h"

namespace leat {
namespace {

TEST_CASE("jobs are shown the newest first, and the queue in its order") {
  std::vector<JobView> jobs;
  const auto add = [&](JobState state) {
    JobView& job = jobs.emplace_back();
    job.number = jobs.size();
    job.condition.state = state;
  };
  add(JobState::succeeded);   // 1
  add(JobState::running);     // 2
  add(JobState::failed);      // 3
  add(JobState::queued);      // 4
  add(JobState::recovering);  // 5
  add(JobState::queued);      // 6
  add(JobState::cancelled);   // 7
  add(JobState::paused);      // 8
  add(JobState::queued);      // 9
  jobs[3].position = 2;
  jobs[8].position = 1;
  std::vector<uint64_t> numbers;
  for (const JobView* job : in_shown_order(jobs)) numbers.push_back(job->number);
  CHECK(numbers == std::vector<uint64_t>{5, 2, 9, 4, 6, 8, 7, 3, 1});
  CHECK(in_shown_order({}).empty());
}

}  // namespace
}  // namespace leat

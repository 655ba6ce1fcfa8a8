#include "tests/daemon/job_scene.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/small_client.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr int kTasks = 3;
constexpr auto kPatience = 240s * kSlowness;
constexpr auto kPatienceAfterEnd = 10s * kSlowness;  // a job that has ended changes little

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

JobScene::JobScene(ProcessClusterOptions options, const std::string& graph)
    : small_(graph.empty() ? kTinyCnn : graph),
      cluster_((options.data_path = small_.path(), options)) {
  client_ = client_of(cluster_.master());
  REQUIRE(cluster_.await_ready(options.workers));
}

Job JobScene::job(uint64_t steps, std::vector<std::string> set) const {
  set.insert(set.begin(),
             {cat("num_workers=", kTasks), cat("steps=", steps), "checkpoint.every_steps=50"});
  return small_.job(set);
}

std::string JobScene::expected_metrics() const {
  return without_timing(file_text(small_.path("in-process/metrics.jsonl")));
}

std::string JobScene::metrics(const std::string& id) {
  return without_timing(
      file_text(cat(cluster_.folder() / "master", "/jobs/", id, "/metrics.jsonl")));
}

std::string JobScene::submit(Job job, std::vector<std::string> chaos) {
  JobRequest request = request_of(small_, std::move(job));
  request.chaos = std::move(chaos);
  return must(client_->submit(request)).id;
}

JobView JobScene::await(const std::string& id, const std::function<bool(const JobView&)>& is) {
  JobView view = must(client_->job(id));
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is(view)) {
    if (has_ended(view.condition.state))
      deadline = std::min(deadline, std::chrono::steady_clock::now() + kPatienceAfterEnd);
    auto next = client_->watch(id, view.version, 200ms);
    if (!next.ok() || std::chrono::steady_clock::now() > deadline) {
      FAIL(next.status().message()
           << "\n"
           << name_of(view.condition.state) << " " << view.condition.reason << "\n"
           << cluster_.logs());
    }
    view = *std::move(next);
  }
  return view;
}

JobView JobScene::await_step(const std::string& id, uint64_t step, uint64_t assembly) {
  return await(id, [&](const JobView& view) {
    return view.condition.state == JobState::running && view.condition.assembly == assembly &&
           view.progress.last.step >= step;
  });
}

JobView JobScene::await_end(const std::string& id) {
  return await(id, [](const JobView& view) { return has_ended(view.condition.state); });
}

void JobScene::cancel(const std::string& id) { must(client_->cancel(id).status()); }

std::map<std::string, pid_t> JobScene::runners(const JobView& view) {
  std::map<std::string, pid_t> all;
  for (const std::string& worker : view.condition.workers) {
    const auto children = children_of(cluster_.worker(worker).pid());
    if (children.size() == 1) all[worker] = children[0];
  }
  return all;
}

}  // namespace leat

// A master in this process, on ports of its own, with a state directory of its own.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "daemon/master/master.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/journal_fixture.h"
#include "tests/daemon/master/fake_worker.h"

namespace leat::testing {

inline constexpr char kTinyGraph[] = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,4] x) => (float[N,2] y) {
  y = leat.Dense <units = 2> (x)
}
)";

inline Submission tiny_job(const std::string& request_id, int workers = 1,
                           const std::string& more = "") {
  Submission submission;
  submission.request_id = request_id;
  submission.text =
      cat("version: 1\nname: tiny-job\nmodel: {graph: tiny.onnxtxt}\n",
          "data:\n  root: digits\n  train: {format: npy, features: x.npy, labels: y.npy}\n",
          "loss: cross_entropy\noptimizer: {name: sgd, learning_rate: 0.1}\n",
          "global_batch_size: 16\nsteps: 10\nseed: 1\nshards: 4\nstrategy: mirrored\n",
          "num_workers: ", workers, "\n", more);
  submission.files.push_back(attach("tiny.onnxtxt", kTinyGraph));
  return submission;
}

class Host {
 public:
  Host() {
    tuning.cluster.tick = 10ms;
    tuning.cluster.members.heartbeat = 25ms;
    start();
  }

  void start() {
    MasterConfig config;
    config.cluster = "test";
    config.listen = "127.0.0.1:0";
    config.state_dir = folder / "state";
    config.retention = retention;
    if (change) change(config);
    auto started = Master::start(config, tuning, {});
    REQUIRE_OK(started.status());
    master = std::move(*started);
  }
  void restart() {
    REQUIRE_OK(master->stop());
    master.reset();
    start();
  }

  Result<JobView> submit(Submission submission) {
    std::promise<Result<JobView>> answer;
    master->submit(std::move(submission), [&](Result<JobView> view) { answer.set_value(view); });
    return await(answer);
  }
  Result<JobView> resume(const std::string& job, Submission submission) {
    std::promise<Result<JobView>> answer;
    master->resume(job, std::move(submission), [&](auto view) { answer.set_value(view); });
    return await(answer);
  }
  Result<JobView> cancel(const std::string& id) {
    std::promise<Result<JobView>> answer;
    master->cancel(id, "somebody", [&](Result<JobView> view) { answer.set_value(view); });
    return await(answer);
  }
  Result<JobView> remove(const std::string& id) {
    std::promise<Result<JobView>> answer;
    master->remove(id, "somebody", [&](Result<JobView> view) { answer.set_value(view); });
    return await(answer);
  }
  Result<LogPage> logs(const std::string& id, uint64_t from, std::chrono::milliseconds wait) {
    std::promise<Result<LogPage>> answer;
    master->logs(id, from, std::chrono::steady_clock::now() + wait,
                 [&](Result<LogPage> page) { answer.set_value(page); });
    return await(answer);
  }
  std::string submitted(Submission submission) {
    const auto view = submit(std::move(submission));
    REQUIRE_OK(view.status());
    return view->id;
  }
  std::string state(const std::string& id) const {
    const auto view = master->status().job(id);
    return view.ok() ? std::string(name_of(view->condition.state)) : view.status().to_string();
  }
  std::string reason(const std::string& id) const { return master->status().job(id)->condition.reason; }
  bool becomes(const std::string& id, const std::string& expected) const {
    const bool became = eventually([&] { return state(id) == expected; });
    if (!became) UNSCOPED_INFO(state(id) << ": " << reason(id));
    return became;
  }
  std::string worker_state(const std::string& name) const {
    for (const NodeView& node : master->status().nodes()) {
      if (node.worker.info.worker.name == name) return std::string(name_of(node.worker.state));
    }
    return "none";
  }

  JournalFolder folder;
  MasterTuning tuning;
  Retention retention;
  std::function<void(MasterConfig&)> change;  // of the config, at the next start
  std::unique_ptr<Master> master;

 private:
  template <typename T>
  T await(std::promise<T>& answer) {
    auto future = answer.get_future();
    REQUIRE(future.wait_for(60s) == std::future_status::ready);
    return future.get();
  }
};

}  // namespace leat::testing

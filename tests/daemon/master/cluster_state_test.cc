// Tests the thread of the master's state, with a ClusterHands that does nothing by itself.
#include "daemon/master/cluster_state.h"

#include <future>

#include "devices/base/clock.h"
#include "tests/catch.h"
#include "tests/daemon/master/master_fixture.h"
#include "tests/eventually.h"

namespace leat {

using namespace testing;

namespace {

// Hands whose journal does not answer until the test says so.
struct SilentHands final : ClusterHands {
  void write(WriteJournal action) override { asked = action.write; }
  void start_runners(StartRunners) override {}
  void stop_runners(StopRunners) override {}
  void run_job(RunJob) override {}
  void yield_run(YieldRun) override {}
  void end_run(EndRun) override {}
  void remove_job(RemoveJob) override {}
  void worker_lost(const WorkerRef&, const std::string&) override {}
  void members_changed(const std::vector<WorkerView>&) override {}
  void job_changed(const JobView&) override {}

  std::atomic<uint64_t> asked{0};  // number of writes requested
};

struct Stopping {
  Stopping() {
    state.start({}, {}, 1);
    Submission job = tiny_job("r1");
    job.name = "tiny-job";
    job.num_workers = 1;
    state.submit(std::move(job),
                 [this](Result<JobView> view) { submitted.set_value(view.status()); });
    CHECK(eventually([&] { return hands.asked > 0; }));
  }
  Status cancel() {
    std::promise<Status> answer;
    state.cancel("none", "somebody",
                 [&](Result<JobView> view) { answer.set_value(view.status()); });
    return answer.get_future().get();
  }

  SilentHands hands;
  const RealClock clock;
  uint64_t last = 0;
  std::promise<Status> submitted;
  ClusterState state{{}, [this] { return ++last; }, clock, hands};
};

}  // namespace

TEST_CASE("a state that is to stop answers first what the journal is about to hold") {
  Stopping scene;
  auto settled = std::async(std::launch::async, [&] { scene.state.settle(60s); });
  CHECK(eventually([&] { return scene.cancel().code() == Code::cancelled; }));  // no more requests
  CHECK(settled.wait_for(0s) == std::future_status::timeout);
  scene.state.handle(JournalWritten{scene.hands.asked, Status()});
  settled.get();
  CHECK(scene.submitted.get_future().get().message() == "");
}

TEST_CASE("a state that is to stop waits for its journal only so long") {
  Stopping scene;
  scene.state.settle(1ms);
  scene.state.stop();
  CHECK(scene.submitted.get_future().get().code() == Code::cancelled);
}

}  // namespace leat

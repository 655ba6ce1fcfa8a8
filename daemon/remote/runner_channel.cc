// The table of a runner's runs and its loss: see wire_runner_channel.h.
#include "daemon/remote/last_steps.h"
#include "daemon/remote/remote_run_state.h"
#include "daemon/remote/run_looks.h"
#include "daemon/remote/wire_runner_channel.h"
#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"

namespace leat {
namespace {

constexpr size_t kEndedRuns = 4;  // of which the channel knows how far they were
// Replicas of a quorum may do so many turns, which is to say any number: see training_steps.cc.
constexpr uint64_t kNoLimit = uint64_t{1} << 50;

// Holds a run and the calls that still set it up; the end of the run cancels these.
struct RunEntry {
  std::shared_ptr<RemoteRunState> state;
  kj::Canceler setup;
};

// True if the run's steps are the job's, and it has begun.
bool has_trained(const RemoteRunState& run) {
  return run.title().trains && run.connected.value() > 0;
}

LastSteps steps_of(const RemoteRunState& run, const std::string& worker) {
  LastSteps steps;
  steps.worker = worker;
  steps.device = short_name(run.plan->partitions[run.part.partition].device);
  steps.number = run.part.run;
  if (run.allowed < kNoLimit) steps.allowed = run.first_step + run.allowed;
  steps.heard = run.reports.turns.last();
  for (HeardSteps& each : steps.heard) each.done += run.first_step;
  steps.plan = run.plan;
  return steps;
}

}  // namespace

// The part that belongs to the loop, which destroys it.
struct RunnerChannel::Inside final : LoopOwned {
  explicit Inside(wire::Runner::Client runner)
      : Inside(kj::mv(runner), kj::newPromiseAndFulfiller<void>()) {}
  ~Inside() noexcept(false) override {
    // Threads that wait for a run of this runner must not wait forever.
    for (auto& [id, run] : runs) run.state->fail(cancelled("the rpc thread has stopped"));
  }

  wire::Runner::Client runner;
  kj::Own<kj::PromiseFulfiller<void>> lose;
  kj::ForkedPromise<void> lost;
  std::map<RunPart, RunEntry> runs;
  std::vector<LastSteps> ended;  // at most kEndedRuns, the oldest first

 private:
  Inside(wire::Runner::Client runner, kj::PromiseFulfillerPair<void> pair)
      : runner(kj::mv(runner)), lose(kj::mv(pair.fulfiller)), lost(pair.promise.fork()) {}
};

RunnerChannel::RunnerChannel(RpcLoop& loop, RunnerFacts facts, wire::Runner::Client runner)
    : loop_(loop), facts_(std::move(facts)) {
  auto inside = kj::heap<Inside>(kj::mv(runner));
  inside_ = inside.get();
  // KJ's objects must be destroyed on the thread of their loop, so the loop owns them.
  inside_id_ = loop.context().own(kj::mv(inside));
}

RunnerChannel::~RunnerChannel() {
  // If the loop has stopped, it has already destroyed `inside_`.
  (void)loop_.post([&loop = loop_, id = inside_id_] { loop.context().release(id); });
}

Status RunnerChannel::status() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void RunnerChannel::lost(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = unavailable(cat("the runner on ", facts_.node, " was lost: ", cause.message()));
  }
  (void)loop_.post([self = shared_from_this()] {
    const Status cause = self->status();
    // The runs are copied, because their failure may change the table.
    std::vector<std::shared_ptr<RemoteRunState>> runs;
    for (auto& [id, run] : self->inside_->runs) runs.push_back(run.state);
    for (auto& run : runs) run->group->failed(cause, Failure::loss, run.get());
    // The runs hear of the loss first; this ends the calls that are in flight.
    self->inside_->lose->fulfill();
  });
}

void RunnerChannel::add(std::shared_ptr<RemoteRunState> run) {
  const RunPart part = run->part;
  inside_->runs[part].state = std::move(run);
}

void RunnerChannel::remove(const RunPart& run) {
  auto entry = inside_->runs.extract(run);  // out of the table first: cancelling runs callbacks
  if (entry.empty() || !has_trained(*entry.mapped().state)) return;
  std::vector<LastSteps>& ended = inside_->ended;
  if (ended.size() == kEndedRuns) ended.erase(ended.begin());
  ended.push_back(steps_of(*entry.mapped().state, facts_.node));
}

std::vector<LastSteps> RunnerChannel::last_steps() const {
  std::vector<LastSteps> all = inside_->ended;
  for (const auto& [part, run] : inside_->runs) {
    if (has_trained(*run.state)) all.push_back(steps_of(*run.state, facts_.node));
  }
  return all;
}

std::shared_ptr<RemoteRunState> RunnerChannel::find(const RunPart& run) const {
  const auto found = inside_->runs.find(run);
  return found == inside_->runs.end() ? nullptr : found->second.state;
}

std::vector<std::shared_ptr<RemoteRunState>> RunnerChannel::runs() const {
  std::vector<std::shared_ptr<RemoteRunState>> all;
  for (const auto& [part, run] : inside_->runs) all.push_back(run.state);
  return all;
}

kj::Own<void> RunnerChannel::note_call(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++calls_;
  pending_.emplace(number, std::pair(doing, std::chrono::steady_clock::now()));
  // The promise may be destroyed by a loop that ends, after the channel's other users are gone.
  return kj::heap(kj::defer([self = shared_from_this(), number] {
    const std::lock_guard lock(self->mutex_);
    self->pending_.erase(number);
  }));
}

std::vector<PendingCall> RunnerChannel::pending() const {
  const std::lock_guard lock(mutex_);
  std::vector<PendingCall> calls;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [number, call] : pending_) {
    calls.push_back(
        {call.first, std::chrono::duration_cast<std::chrono::milliseconds>(now - call.second)});
  }
  return calls;
}

void RunnerChannel::cancel_setup(const RunPart& run) {
  const auto found = inside_->runs.find(run);
  if (found != inside_->runs.end()) found->second.setup.cancel("the run has ended");
}

kj::Canceler& RunnerChannel::setup_of(const RunPart& run) { return inside_->runs.at(run).setup; }
wire::Runner::Client& RunnerChannel::runner() { return inside_->runner; }
kj::Promise<void> RunnerChannel::gone() { return inside_->lost.addBranch(); }

Status RunnerChannel::with_place(const Status& status, std::string_view doing) const {
  return status.while_doing(named(doing));
}

}  // namespace leat

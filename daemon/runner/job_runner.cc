#include "daemon/runner/job_runner.h"

#include <algorithm>

#include "daemon/base/background.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

// How long the threads of the data plane look for news before they park: longer than a null step of
// many workers takes. Patience sees to it that it costs little where steps take longer.
constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::seconds kSettleDeadline{30};
// Answers before its caller gives up, after 60 s.
constexpr std::chrono::seconds kInspectDeadline{55};
constexpr size_t kMostRuns = 4096;

int threads_of(const RunnerConfig& config) {
  return config.threads > 0 ? config.threads : cpu::usable_cores();
}

Arrivals::Options arrivals_of(const RunnerConfig& config, const Logger& log) {
  Arrivals::Options options;
  options.assembly = config.assembly;
  options.incarnation = config.incarnation;
  options.log = log;
  return options;
}

uint64_t limit_of(const RunnerConfig& config, DeviceHost& worker) {
  const uint64_t there = worker.device().memory_bytes();
  return config.memory_limit > 0 ? std::min(config.memory_limit, there) : there;
}

}  // namespace

JobRunner::JobRunner(RunnerConfig config, const Catalogue& catalogue,
                     std::unique_ptr<shm::Waiter> waiter, TurnLog::News news, Logger log)
    : config_(std::move(config)),
      log_(std::move(log)),
      reactor_(kSpin),
      waiter_(std::move(waiter)),
      arrivals_(arrivals_of(config_, log_)),
      worker_(static_cast<int>(config_.assembly.task), threads_of(config_)),
      memory_(limit_of(config_, worker_)),
      parts_{config_, catalogue, worker_,         {reactor_, *waiter_, arrivals_},
             memory_, binding_,  std::move(news), log_},
      assembly_(config_.assembly),
      job_strand_(control_.strand()) {}

Result<std::unique_ptr<JobRunner>> JobRunner::create(RunnerConfig config,
                                                     const Catalogue& catalogue, TurnLog::News news,
                                                     Logger log) {
  LEAT_ASSIGN_OR_RETURN(auto waiter, shm::Waiter::create(kSpin));
  std::unique_ptr<JobRunner> runner(new JobRunner(std::move(config), catalogue, std::move(waiter),
                                                  std::move(news), std::move(log)));
  if (runner->config_.may_share_memory) runner->listen();
  return runner;
}

// Where peers of this machine bring their memory. Without it there is TCP: a path may be too long.
void JobRunner::listen() {
  const std::string address = cat("unix:", config_.directory, "/peers");
  auto listener = Listener::open(reactor_, address, arrivals_, Listener::Options());
  if (!listener.ok())
    return log_.warning("shares no memory with its peers: ", listener.status().message());
  listener_ = std::move(*listener);
  unix_address_ = address;
}

JobRunner::~JobRunner() {
  stop(cancelled("the runner has ended"));
  control_.stop();
  background_.stop();
  for (const auto& run : runs()) run->release();
}

// --- Runs.

Result<std::shared_ptr<HostedRun>> JobRunner::expect(uint64_t run, uint32_t partition,
                                                     const Sha256Digest& digest) {
  std::lock_guard lock(mutex_);
  if (!stopped_.ok()) return stopped_;
  if (advancing_ > 0)
    return failed_precondition(cat("run ", run, ": expected none on the way to another assembly"));
  const auto found = runs_.find(run);
  if (found != runs_.end()) {
    if (found->second->expects(partition, digest)) return found->second;
    return failed_precondition(
        cat("run ", run, ": expected the plan that it has, received another"));
  }
  if (runs_.size() >= kMostRuns)
    return resource_exhausted(cat("run ", run, ": expected at most ", kMostRuns, " runs"));
  auto made =
      std::make_shared<HostedRun>(parts_, control_.strand(), assembly_, run, partition, digest);
  runs_.emplace(run, made);
  return made;
}

Result<std::shared_ptr<HostedRun>> JobRunner::find(uint64_t run) const {
  std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  if (found != runs_.end()) return found->second;
  return failed_precondition(cat("run ", run, ": expected one that was prepared"));
}

std::vector<std::shared_ptr<HostedRun>> JobRunner::runs() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<HostedRun>> out;
  for (const auto& [id, run] : runs_) out.push_back(run);
  return out;
}

void JobRunner::abort(uint64_t run, const Status& cause, Done done) {
  const auto found = find(run);
  if (!found.ok()) return done({});
  (*found)->cancel(cause);
  (*found)->strand().post([run = *found, done = std::move(done)] {
    run->end();
    done({});
  });
}

void JobRunner::release(uint64_t id, Done done) {
  const auto found = find(id);
  if (!found.ok()) return done({});
  (*found)->cancel(cancelled(cat("run ", id, " was released")));
  (*found)->strand().post([this, id, run = *found, done = std::move(done)] {
    run->release();
    {
      std::lock_guard lock(mutex_);
      if (runs_.erase(id) > 0) released_turns_ += run->turns();
      more_than_variables_ = more_than_variables_ || run->keeps_more_than_variables();
    }
    done({});
  });
}

// --- Assemblies.

RunnerAssembly JobRunner::assembly() const {
  std::lock_guard lock(mutex_);
  return assembly_;
}

std::string JobRunner::device_name() const {
  std::lock_guard lock(mutex_);
  return worker_.device_name();
}

void JobRunner::advance(const RunnerAssembly& to, Done done) {
  Status refused;
  {
    std::lock_guard lock(mutex_);
    refused = stopped_;
    if (to.number < std::max(assembly_.number, advancing_)) {
      refused = failed_precondition(cat("advance to assembly ", to.number, ": expected one after ",
                                        std::max(assembly_.number, advancing_)));
    }
    if (refused.ok()) advancing_ = to.number;
  }
  if (!refused.ok()) return done(refused);
  const auto left = runs();
  // Counts those that are not released yet, and this call.
  const auto waits = std::make_shared<std::atomic<size_t>>(left.size() + 1);
  const Done one_less = [this, waits, to, done = std::move(done)](const Status&) {
    if (waits->fetch_sub(1) > 1) return;
    job_strand_.post([this, to, done] {  // after what was asked of the variables before
      become(to);
      done({});
    });
  };
  for (const auto& run : left) {
    run->cancel(cancelled(cat("the job goes on in assembly ", to.number)));
    release(run->id(), one_less);
  }
  one_less({});
}

void JobRunner::become(const RunnerAssembly& assembly) {
  std::lock_guard lock(mutex_);
  if (std::exchange(more_than_variables_, false)) worker_.drop(config_.job);
  if (assembly.number < assembly_.number) return;  // overtaken
  assembly_ = assembly;
  worker_.become(static_cast<int>(assembly.task));
  if (advancing_ == assembly.number) advancing_ = 0;
  arrivals_.advance(assembly);
}

// --- The job's state.

Status JobRunner::settle() const {
  const Deadline deadline = std::chrono::steady_clock::now() + kSettleDeadline;
  for (const auto& run : runs()) LEAT_RETURN_IF_ERROR(run->settle(deadline));
  return {};
}

void JobRunner::read_variables(std::function<void(Result<Bytes>)> done) {
  job_strand_.post([this, done = std::move(done)] {
    if (const Status settled = settle(); !settled.ok()) return done(settled);
    SafeTensors file;
    file.tensors = leat::read_variables(worker_.resources(config_.job));
    done(format_safetensors(file));
  });
}

void JobRunner::write_variables(Bytes file, Restore what, std::optional<uint64_t> step, Done done) {
  const auto held = std::make_shared<const Bytes>(std::move(file));
  job_strand_.post([this, held, what, step, done = std::move(done)] {
    if (const Status settled = settle(); !settled.ok()) return done(settled);
    const auto read = parse_safetensors(*held, "variables");
    if (!read.ok()) return done(read.status());
    done(leat::write_variables(worker_.resources(config_.job), read->tensors, what, step));
  });
}

void JobRunner::held(std::function<void(Result<Held>)> done) {
  job_strand_.post([this, done = std::move(done)] {
    const auto left = runs();
    if (left.empty()) return done(worker_.resources(config_.job).commits().held());
    done(failed_precondition(cat("run ", left[0]->id(), ": expected it to be released")));
  });
}

void JobRunner::take_snapshot(int64_t step, std::vector<std::string> names, Done done) {
  job_strand_.post([this, step, names = std::move(names), done = std::move(done)] {
    if (const Status settled = settle(); !settled.ok()) return done(settled);
    done(snapshot_.take(worker_.resources(config_.job), step, names));
  });
}

Status JobRunner::take_snapshot_in_passing(uint64_t run, int64_t step,
                                           std::vector<std::string> names) {
  LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("runner/snapshot_in_passing"));
  LEAT_ASSIGN_OR_RETURN(const auto found, find(run));
  const auto take = [this, step, names = std::move(names)] {
    const Status taken = snapshot_.take(worker_.resources(config_.job), step, names);
    if (!taken.ok()) log_.warning("no snapshot after step ", step, ": ", taken.message());
  };
  return found->between_steps(static_cast<uint64_t>(step), take);
}

void JobRunner::read_snapshot(int64_t step, std::function<void(Result<Bytes>)> done) {
  background_.strand().post([this, step, done = std::move(done)] {
    work_in_background();
    const auto values = snapshot_.read(step);
    if (!values.ok()) return done(values.status());
    Bytes bytes;
    const Status formatted = format_part(**values, step, [&](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return Status();
    });
    if (!formatted.ok()) return done(formatted);
    done(std::move(bytes));
  });
}

void JobRunner::write_snapshot(int64_t step, PartPlace place,
                               std::function<void(Result<CheckpointPart>)> done) {
  background_.strand().post([this, step, place = std::move(place), done = std::move(done)] {
    work_in_background();
    const auto values = snapshot_.read(step);
    if (!values.ok()) return done(values.status());
    done(write_part_at(real_files(), place, **values, step));
  });
}

void JobRunner::inspect_dataset(DatasetFiles files, int64_t classes,
                                std::function<void(Result<DatasetReport>)> done) {
  // Of its own: what it reads may be slow, and steps nothing.
  control_.strand().post([this, files = std::move(files), classes, done = std::move(done)] {
    auto root = find_dataset(config_, files.root);
    if (!root.ok()) return done(root.status());
    DatasetFiles there = files;
    there.root = *root;
    const Deadline deadline = std::chrono::steady_clock::now() + kInspectDeadline;
    done(report_dataset(real_files(), there, classes, parts_.reading(deadline, assembly().number)));
  });
}

JobRunner::Pulse JobRunner::pulse() const {
  Pulse pulse;
  pulse.waits = true;
  std::lock_guard lock(mutex_);
  pulse.turns = released_turns_;
  for (const auto& [id, run] : runs_) {
    pulse.turns += run->turns();
    pulse.tiles += run->tiles_done();
    if (!run->stepping()) continue;
    pulse.stepping = true;
    pulse.waits = pulse.waits && run->waits_for_peer();
  }
  pulse.waits = pulse.waits && pulse.stepping;
  return pulse;
}

void JobRunner::stop(const Status& cause) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_.ok()) stopped_ = cause;
  }
  for (const auto& run : runs()) abort(run->id(), cause, [](const Status&) {});
}

}  // namespace leat

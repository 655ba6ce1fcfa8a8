#include "tests/daemon/faults/fault_bench.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "daemon/confine/runner_users.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/small_client.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr uint32_t kTasks = 3;
constexpr auto kLook = 20ms;
// The longest time of a job with all its faults, and of any other wait. Tests under any realistic
// load finish much earlier.
constexpr auto kLongest = 120s * kSlowness;
// Promised times, which are checked only with LEAT_TIMES: the length of a cancel, and the delay of
// a detection beyond its heartbeats.
constexpr auto kCancelled = 2s * kSlowness;
constexpr auto kSlack = 900ms * kSlowness;

// The promised time until the job's state shows the fault.
std::chrono::milliseconds allowed(const Fault& fault) {
  switch (fault.deed) {
    case Deed::stop_runner:
    case Deed::stop_worker:
      return 3000ms + kSlack;
    default:
      return 100ms + kSlack;
  }
}

int64_t since(std::chrono::steady_clock::time_point begin) {
  using std::chrono::milliseconds;
  const auto time = std::chrono::steady_clock::now() - begin;
  return std::chrono::duration_cast<milliseconds>(time).count();
}

constexpr uint64_t kSteps = 240;
// The steps of a job whose worker is stopped. Its runners continue, and must not finish before the
// master notices.
constexpr uint64_t kManySteps = 1200;

uint64_t steps_for(const Fault& fault) {
  return fault.deed == Deed::stop_worker ? kManySteps : kSteps;
}

Job small_job(const SmallJob& small, uint32_t workers, uint64_t steps) {
  return small.job({cat("num_workers=", workers), cat("steps=", steps),
                    cat("checkpoint.every_steps=", steps / 12)});
}

bool says_so(const JobView& job) {
  return job.condition.restarts > 0 || job.condition.state == JobState::recovering ||
         has_ended(job.condition.state);
}

}  // namespace

std::string FaultReport::line() const {
  std::string text =
      cat("fault seed=", fault.seed, " transport=", transport, " deed=", name_of(fault.deed),
          " phase=", name_of(fault.phase), " victim=", victim, in_time ? "" : " too-late",
          " detected_ms=", detected_ms, " named=", named ? "yes" : "no", " ended_ms=", ended_ms,
          " end=", end, " equal=", equal ? "yes" : "no", " reason=\"", reason, "\"");
  for (const std::string& miss : misses) text += "\n  MISS: " + miss;
  return text;
}

FaultBench::FaultBench(const std::string& transport, int workers)
    : transport_(transport),
      small_(kTinyCnn),
      cluster_({.workers = workers,
                .transports = transport == "tcp" ? "[tcp]" : "[shm, tcp]",
                .worker_http = "127.0.0.1:0",
                .data_path = small_.path()}) {
  client_ = client_of(cluster_.master());
  for (int i = 0; i < 2; ++i) {
    const std::string problem = run_undisturbed();
    INFO(problem << cluster_.logs());
    REQUIRE(problem.empty());
  }
  note_baseline();
  resident_ = 0;
  for (const pid_t daemon : daemons()) resident_ += resident_bytes(daemon);
}

// Jobs ------------------------------------------------------------------------------------------

std::string FaultBench::submit(uint64_t steps) { return submit(small_job(small_, kTasks, steps)); }

const std::string& FaultBench::expected(uint64_t steps) {
  std::string& hash = expected_[steps];
  if (hash.empty()) hash = small_.hash(small_job(small_, 1, steps), cat("in-process-", steps));
  return hash;
}

std::string FaultBench::submit(Job job) {
  return must(client_->submit(request_of(small_, std::move(job)))).id;
}

Result<JobView> FaultBench::look(const std::string& id, uint64_t seen,
                                 std::chrono::milliseconds wait) {
  return client_->watch(id, seen, wait);
}

// False if the job ended, or showed another failure, before the phase.
bool FaultBench::await_phase(const Fault& fault, JobView& job) {
  const auto deadline = Steady::now() + kLongest;
  const std::string id = job.id;
  const auto reached = [&] {
    const JobState state = job.condition.state;
    const bool runs = state == JobState::running;
    const uint64_t step = job.progress.last.step;
    switch (fault.phase) {
      case Phase::queued:
        return true;
      case Phase::starting:
        return state >= JobState::starting;
      case Phase::preparing:
        return runs;
      case Phase::first_step:
        return runs && step >= 1;
      case Phase::middle:
        return runs && step >= fault.step;
      case Phase::checkpoint:
        return runs && step >= steps_for(fault) / 12 * (1 + fault.step / 20);
      case Phase::evaluation:
        return runs && !std::isnan(job.progress.last.val_loss);
      case Phase::ending:
        return runs && step + 1 >= steps_for(fault);
    }
    return true;
  };
  while (!reached()) {
    if (Steady::now() > deadline || has_ended(job.condition.state)) return false;
    job = must(look(id, job.version, 1000ms));
  }
  std::this_thread::sleep_for(std::chrono::microseconds(fault.delay_us));
  return true;
}

// Deeds -----------------------------------------------------------------------------------------

void FaultBench::strike_runner(const Fault& fault, int worker) {
  const pid_t parent = cluster_.worker(worker).pid();
  std::vector<pid_t> runners;
  (void)eventually([&] { return !(runners = children_of(parent)).empty(); }, 3s * kSlowness, kLook);
  const int number = fault.deed == Deed::kill_runner    ? SIGKILL
                     : fault.deed == Deed::crash_runner ? SIGSEGV
                                                        : SIGSTOP;
  for (const pid_t runner : runners) ::kill(runner, number);
}

// Closes the connections that others have dialled to this worker. Their peers see a reset.
void FaultBench::close_sockets(int worker) {
  const std::string address = cluster_.worker(worker).ready().data;
  const std::string port = address.substr(address.rfind(':') + 1);
  (void)run_program("/usr/bin/ss", cluster_.folder().path(),
                    {"-K", "-t", "state", "established", cat("dport = :", port)}, {});
}

bool FaultBench::can_close_sockets() { return ::geteuid() == 0 && fs::exists("/usr/bin/ss"); }

// False if there was no process or connection to act on.
bool FaultBench::strike(const Fault& fault, const JobView& job, FaultReport& report) {
  const auto& workers = job.condition.workers;
  if (workers.empty()) {
    report.victim = cat("w", fault.victim % static_cast<uint32_t>(cluster_.workers()));
  } else if (fault.deed == Deed::close_sockets) {
    report.victim = workers.back();  // the other runners dial it
  } else {
    report.victim = workers[fault.victim % workers.size()];
  }
  const int worker = ProcessCluster::number_of(report.victim);
  switch (fault.deed) {
    case Deed::kill_worker:
      cluster_.worker(worker).signal(SIGKILL);
      return true;
    case Deed::stop_worker:
      cluster_.worker(worker).signal(SIGSTOP);
      return true;
    case Deed::close_sockets:
      close_sockets(worker);
      return true;
    default:
      strike_runner(fault, worker);
      return true;
  }
}

void FaultBench::repair(const FaultReport& report) {
  const int worker = ProcessCluster::number_of(report.victim);
  if (report.fault.deed == Deed::kill_worker) cluster_.start_worker(worker);
  if (report.fault.deed == Deed::stop_worker) cluster_.worker(worker).signal(SIGCONT);
}

// Expected effects --------------------------------------------------------------------------------

void FaultBench::await_detection(const std::string& id, Steady::time_point struck,
                                 FaultReport& report) {
  const auto limit = allowed(report.fault);
  const auto deadline = struck + kLongest;
  JobView job = must(client_->job(id));
  while (!says_so(job) && Steady::now() < deadline) job = must(look(id, job.version, 500ms));
  report.detected_ms = since(struck);
  report.reason = job.condition.reason;
  report.end = name_of(job.condition.state);
  if (job.condition.state == JobState::succeeded) {
    report.in_time = false;  // the job did not need the victim any more
    return;
  }
  report.named = report.reason.find(report.victim) != std::string::npos;
  if (!says_so(job)) {
    report.misses.push_back(cat("nothing was noticed in ", report.detected_ms, " ms"));
  } else if (times_are_checked() && report.detected_ms > limit.count()) {
    report.misses.push_back(
        cat("noticed after ", report.detected_ms, " ms, allowed ", limit.count()));
  }
  if (!report.named) report.misses.push_back("the culprit is not named");
}

void FaultBench::cancel(const std::string& id, FaultReport& report) {
  const auto asked = Steady::now();
  const auto answered = client_->cancel(id);
  JobView job = must(client_->job(id));
  while (!has_ended(job.condition.state) && Steady::now() < asked + kLongest) {
    job = must(look(id, job.version, 500ms));
  }
  const int64_t took = since(asked);
  report.end = name_of(job.condition.state);
  const bool late = times_are_checked() && took > std::chrono::milliseconds(kCancelled).count();
  if (late || !has_ended(job.condition.state)) {
    report.misses.push_back(cat("cancelled after ", took, " ms: ", answered.status().to_string()));
  }
}

void FaultBench::await_end(const std::string& id, Steady::time_point struck, FaultReport& report) {
  JobView job = must(client_->job(id));
  while (!has_ended(job.condition.state) && Steady::now() < struck + kLongest) {
    job = must(look(id, job.version, 1000ms));
  }
  report.ended_ms = since(struck);
  report.end = name_of(job.condition.state);
  const std::string& hash = expected(steps_for(report.fault));
  report.equal = job.condition.result.weights_sha256 == hash;
  if (job.condition.state != JobState::succeeded) {
    report.misses.push_back(cat("ended ", report.end, ": ", job.condition.reason));
  } else if (!report.equal) {
    report.misses.push_back(
        cat("weights ", job.condition.result.weights_sha256, ", expected ", hash));
  }
}

FaultReport FaultBench::run(const Fault& fault) {
  FaultReport report;
  report.fault = fault;
  report.transport = transport_;
  JobView job;
  job.id = submit(steps_for(fault));
  job = must(client_->job(job.id));
  report.in_time = await_phase(fault, job);
  const auto struck = Steady::now();
  const bool there = job.condition.state != JobState::queued;
  (void)strike(fault, job, report);
  if (there && report.in_time) await_detection(job.id, struck, report);
  const bool stays = fault.deed == Deed::stop_worker || fault.deed == Deed::kill_worker;
  if (fault.cancel && !stays && !has_ended(must(client_->job(job.id)).condition.state)) {
    cancel(job.id, report);
    report.ended_ms = since(struck);
  } else {
    await_end(job.id, struck, report);
  }
  repair(report);
  if (!cluster_.await_ready(cluster_.workers())) report.misses.push_back("a worker is not back");
  check_remains(report);
  return report;
}

std::string FaultBench::run_undisturbed() {
  FaultReport report;
  await_end(submit(kSteps), Steady::now(), report);
  check_remains(report);
  return report.misses.empty() ? "" : report.line();
}

// The master -------------------------------------------------------------------------------------

// Returns the steps in a window of 1.5 s, at whose beginning the master is stopped for a while.
uint64_t FaultBench::steps_within(const std::string& id, std::chrono::milliseconds stopped) {
  constexpr auto kWindow = 1500ms;
  const auto step = [&] { return must(client_->job(id)).progress.last.step; };
  const uint64_t before = step();
  const auto begun = Steady::now();
  if (stopped > 0ms) {
    cluster_.master().signal(SIGSTOP);
    std::this_thread::sleep_for(stopped);
    cluster_.master().signal(SIGCONT);
  }
  std::this_thread::sleep_until(begun + kWindow);
  return step() - before;
}

// Its epochs are too long to end, because at an epoch's end the master has work to do.
std::string FaultBench::submit_endless(int64_t batch) {
  constexpr int64_t kRecords = 24 * 20000;
  must(write_npy(real_files(), small_.path("many-x.npy"),
                 Tensor(DType::u8, Shape{kRecords, 1, 8, 8})));
  must(write_npy(real_files(), small_.path("many-y.npy"), Tensor(DType::u8, Shape{kRecords})));
  Job job = small_.job({"num_workers=2", "steps=1000000", "checkpoint.every_steps=1000000",
                        cat("global_batch_size=", batch)});
  job.data.train.files = {"features=many-x.npy", "labels=many-y.npy"};
  job.data.validation.reset();
  const std::string id = submit(std::move(job));
  (void)eventually([&] { return must(client_->job(id)).progress.last.step > 0; }, kLongest, kLook);
  return id;
}

uint64_t FaultBench::steps_of_runners() {
  uint64_t steps = 0;
  for (int i = 0; i < cluster_.workers(); ++i) {
    const HttpReply reply = HttpClient(cluster_.worker(i).ready().http).get("/metrics");
    const std::string name = "\nleat_worker_steps_total ";
    const size_t at = reply.body.find(name);
    REQUIRE(at != std::string::npos);
    steps += std::strtoull(reply.body.c_str() + at + name.size(), nullptr, 10);
  }
  return steps;
}

bool FaultBench::steps_on_without_master() {
  constexpr uint64_t kFar = 100;  // far more steps than can be in flight
  const std::string id = submit_endless(24);
  cluster_.master().signal(SIGSTOP);
  const uint64_t before = steps_of_runners();
  const bool goes_on =
      eventually([&] { return steps_of_runners() >= before + kFar; }, kLongest, kLook);
  cluster_.master().signal(SIGCONT);
  FaultReport report;
  cancel(id, report);
  check_remains(report);
  for (const std::string& miss : report.misses) FAIL_CHECK(miss);
  return goes_on;
}

std::vector<double> FaultBench::rates_across_stops(int pairs) {
  const std::string id = submit_endless(24);
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    const auto plain = static_cast<double>(steps_within(id, 0ms));
    const auto across = static_cast<double>(steps_within(id, 500ms));
    ratios.push_back(across / std::max(1.0, plain));
  }
  FaultReport report;
  cancel(id, report);
  check_remains(report);
  for (const std::string& miss : report.misses) FAIL_CHECK(miss);
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

FaultBench::Rates FaultBench::rates_across_kills(int kills, std::chrono::milliseconds between) {
  const std::string id = submit_endless(240);
  const std::vector<pid_t> runners = cluster_.runners();
  const auto step = [&] {
    uint64_t step = 0;  // the new master learns it when the job resumes
    const auto known = [&] { return (step = must(client_->job(id)).progress.last.step) > 0; };
    CHECK(eventually(known, kLongest, 5ms));
    return step;
  };
  double undisturbed = 0, disturbed = 0;
  for (int i = 0; i < kills; ++i) {
    for (const bool kill : {false, true}) {
      const uint64_t before = step();
      const auto begun = Steady::now();
      if (kill) cluster_.restart_master(SIGKILL);
      std::this_thread::sleep_until(begun + between);
      const uint64_t now = step();
      CHECK(now >= before);
      const uint64_t done = now - std::min(before, now);
      const double seconds = std::chrono::duration<double>(Steady::now() - begun).count();
      (kill ? disturbed : undisturbed) += static_cast<double>(done) / seconds;
    }
    CHECK(cluster_.runners() == runners);
  }
  // On a slow machine an assembly may be lost whose recovery is not over yet.
  const auto lost_assemblies = [&] { return must(client_->job(id)).history.last; };
  const auto went_on = [&] {
    const auto lost = lost_assemblies();
    return lost.empty() || lost.back().source != RecoverySource::unknown;
  };
  CHECK(eventually(went_on, kLongest, kLook));
  for (const LostAssembly& lost : lost_assemblies()) {
    INFO("assembly " << lost.assembly << " was lost: " << lost.cause);
    CHECK(lost.source == RecoverySource::memory);
  }
  FaultReport report;
  cancel(id, report);
  check_remains(report);
  for (const std::string& miss : report.misses) FAIL_CHECK(miss);
  return {disturbed / kills, undisturbed / kills};
}

// Leftovers ---------------------------------------------------------------------------------------

std::vector<pid_t> FaultBench::daemons() {
  std::vector<pid_t> all{cluster_.master().pid()};
  for (int i = 0; i < cluster_.workers(); ++i) all.push_back(cluster_.worker(i).pid());
  return all;
}

void FaultBench::note_baseline() {
  descriptors_ = 0;
  for (const pid_t daemon : daemons()) descriptors_ += open_descriptors(daemon);
}

void FaultBench::check_remains(FaultReport& report) {
  if (!eventually([&] { return cluster_.runners().empty(); }, kLongest, kLook))
    report.misses.push_back(cat(cluster_.runners().size(), " runners are left"));
  const auto folders_empty = [&] {
    for (int i = 0; i < cluster_.workers(); ++i) {
      const std::string state = cluster_.folder() / cat("w", i);
      for (const std::string& folder : {state + "/runners", rooms_path("/run/leat", state)}) {
        std::error_code none;
        if (!fs::is_empty(folder, none) && !none) return false;
      }
    }
    return true;
  };
  if (!eventually(folders_empty, kLongest, kLook))
    report.misses.push_back("folders of runners are left");
  if (descriptors_ == 0) return;
  size_t descriptors = 0;
  const auto closed = [&] {
    descriptors = 0;
    for (const pid_t daemon : daemons()) descriptors += open_descriptors(daemon);
    return descriptors <= descriptors_;
  };
  if (eventually(closed, kLongest, kLook)) return;
  report.misses.push_back(
      cat("the daemons have ", descriptors, " descriptors, had ", descriptors_));
  for (const pid_t daemon : daemons())
    report.misses.push_back(cat(daemon, ":\n", describe_descriptors(daemon)));
  descriptors_ = descriptors;
}

int64_t FaultBench::growth() const {
  auto& self = const_cast<FaultBench&>(*this);
  size_t now = 0;
  for (const pid_t daemon : self.daemons()) now += resident_bytes(daemon);
  return static_cast<int64_t>(now) - static_cast<int64_t>(resident_);
}

}  // namespace leat

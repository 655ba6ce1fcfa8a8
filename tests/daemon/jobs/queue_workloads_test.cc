// Random workloads in the queue of the table of jobs, in virtual time: jobs of different sizes,
// priorities, users and limits, elastic ones and ones that make way. Every job has to end, none may
// start after the time that the queue has promised to it, and the workers should be busy.
// LEAT_WORKLOADS and LEAT_SMALL_WORKLOADS set the numbers of trials.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "daemon/jobs/job_queue.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"
#include "tests/environment_number.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kStep = 300;  // seconds between two ticks, if nothing else happens

struct WorkJob {
  double arrives = 0;  // seconds
  uint32_t workers = 1;
  uint32_t least = 0;  // of an elastic job
  double seconds = 0;  // that it computes on all of its workers
  QueueTerms terms;
  double done = 0;  // of `seconds`
  std::string id;
  double started = -1, ended = -1;
  std::optional<double> promised;  // it starts by then, while it is the head
};

// Returns the promise of the queue: "it starts by 1970-01-01 05:13 UTC".
std::optional<double> promise_in(const std::string& reason) {
  constexpr std::string_view kMark = "it starts by ";
  const size_t at = reason.find(kMark);
  if (at == std::string::npos) return std::nullopt;
  std::tm date{};
  const char* text = reason.c_str() + at + kMark.size();
  if (::strptime(text, "%Y-%m-%d %H:%M UTC", &date) == nullptr) FAIL(reason);
  return static_cast<double>(::timegm(&date)) + 60;  // the text has whole minutes
}

class Workload {
 public:
  // `cores`: of each worker, for jobs that share it; 0: jobs have whole workers.
  Workload(std::vector<WorkJob> jobs, uint32_t workers, uint32_t cores = 0)
      : jobs_(std::move(jobs)), workers_(workers), cores_(cores) {
    for (uint32_t i = 0; i < workers; ++i) {
      WorkerJoined joined{{cat("w", 100 + i), 1}};
      joined.cores = cores;
      joined.memory = uint64_t{8} << 30;
      driver_.send(joined);
    }
    began_ = wall();
  }

  // Returns the first violation, or "".
  std::string run() {
    for (int steps = 0; steps < 100'000; ++steps) {
      arrive();
      act();
      note();
      check_shares();
      if (!broken_.empty()) return broken_;
      if (std::all_of(jobs_.begin(), jobs_.end(), [](const WorkJob& j) { return j.ended >= 0; }))
        return "";
      pass(next_event());
    }
    std::string all = "a job starves:";
    for (const WorkJob& each : jobs_) {
      if (each.ended >= 0 || each.id.empty()) continue;
      const JobView view = this->view(each);
      all += cat("\n", each.id, " of ", each.workers, " workers (", each.least,
                 " at least), cores ", each.terms.cpu, ", memory ", each.terms.memory >> 30,
                 ", priority ", each.terms.priority, each.terms.preemptible ? ", preemptible" : "",
                 " is ", name_of(view.condition.state), " on ", join(view.condition.workers, " "),
                 ": ", view.condition.reason);
    }
    return all;
  }
  // Of the workers' time until the last job ended.
  double utilisation() const {
    double work = 0, end = 0;
    for (const WorkJob& each : jobs_) {
      work += each.seconds * each.workers * share_of(each);
      end = std::max(end, each.ended);
    }
    return work / (end * workers_);
  }
  size_t preempted() const { return preempted_; }
  size_t shrunk() const { return shrunk_; }
  size_t promised() const { return promised_; }
  // How often a job was seen on a worker beside another one.
  size_t shared() const { return shared_; }

 private:
  int64_t wall() const { return moment_of(driver_.clock).wall_ms; }
  double now() const { return static_cast<double>(wall() - began_) / 1000; }
  JobView view(const WorkJob& job) const { return *driver_.table->find(job.id); }
  WorkJob& at(const std::string& id) {
    return *std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& j) { return j.id == id; });
  }
  // Of each of its workers.
  double share_of(const WorkJob& job) const {
    return job.terms.cpu == 0 ? 1 : static_cast<double>(job.terms.cpu) / cores_;
  }
  // The jobs on a worker have no more than all of it.
  void check_shares() {
    std::map<std::string, double> used;
    for (const WorkJob& each : jobs_) {
      if (each.id.empty() || each.ended >= 0) continue;
      const JobView view = this->view(each);
      if (!has_workers(view.condition.state)) continue;
      for (const std::string& worker : view.condition.workers) {
        shared_ += used[worker] > 0;
        used[worker] += share_of(each);
        if (used[worker] > 1 + 1e-9) broken_ = cat(worker, " is shared by more than fit it");
      }
    }
  }
  // Seconds of work in a second.
  double rate(const WorkJob& job) const {
    if (job.id.empty() || job.ended >= 0) return 0;
    const JobView view = this->view(job);
    if (view.condition.state != JobState::running) return 0;
    return static_cast<double>(view.condition.workers.size()) / job.workers;
  }
  double next_event() const {
    double next = kStep;
    for (const WorkJob& each : jobs_) {
      if (each.id.empty()) next = std::min(next, each.arrives - now());
      if (const double r = rate(each); r > 0) next = std::min(next, (each.seconds - each.done) / r);
    }
    return std::max(next, 0.001);
  }
  void pass(double time) {
    std::vector<std::string> finished;
    for (WorkJob& each : jobs_) {
      each.done += rate(each) * time;
      if (rate(each) > 0 && each.done >= each.seconds - 0.01) finished.push_back(each.id);
    }
    driver_.tick(milliseconds(static_cast<int64_t>(std::ceil(time * 1000))));
    for (const std::string& id : finished) {
      if (view(at(id)).condition.state != JobState::running) continue;
      driver_.send(JobFinished{id, view(at(id)).condition.assembly, "abc"});
    }
  }
  void arrive() {
    for (WorkJob& each : jobs_) {
      if (each.id.empty() && each.arrives <= now() + 0.002)
        each.id = driver_.submit("job", each.workers, each.terms, each.least);
    }
  }
  // Does at once what the table orders.
  void act() {
    for (std::string all = driver_.done(); !all.empty(); all = driver_.done()) {
      std::istringstream lines(all);
      for (std::string line; std::getline(lines, line);) act(line);
    }
  }
  void act(const std::string& line) {
    std::istringstream words(line);
    std::string verb, id, worker;
    uint64_t assembly = 0;
    words >> verb;
    if (verb == "save") words >> worker >> verb;  // "save and yield"
    words >> id >> assembly;
    if (verb == "start") {
      driver_.start_all(id);
      goes_first(at(id));
    }
    if (verb == "run") {
      driver_.send(ProgressMade{id, assembly, {.step = 2, .steps = 1'000'000}});
      if (at(id).started < 0) at(id).started = now();
    }
    if (verb == "yield") {
      const bool makes_way = view(at(id)).condition.reason.starts_with("makes way");
      (makes_way ? preempted_ : shrunk_) += 1;
      driver_.send(RunYielded{id, assembly, 2, true});
    }
    if (verb != "stop") return;
    while (words >> worker) driver_.send(RunnerExited{id, assembly, {worker, 1}, {"ended", false}});
  }
  // A job that goes before others by the order of the queue voids what they were promised.
  void goes_first(const WorkJob& started) {
    for (WorkJob& each : jobs_) {
      const QueueTerms &mine = each.terms, &other = started.terms;
      const bool by_order = other.priority > mine.priority ||
                            (other.priority == mine.priority && other.user != mine.user);
      if (by_order) each.promised.reset();
    }
  }
  void note() {
    for (WorkJob& each : jobs_) {
      if (each.id.empty() || each.ended >= 0) continue;
      const JobView view = this->view(each);
      const JobState state = view.condition.state;
      if (has_ended(state)) {
        each.ended = now();
        if (state != JobState::succeeded)
          broken_ = cat(each.id, " is ", name_of(state), ": ", view.condition.reason);
      }
      if (state != JobState::queued) {
        // It has started, perhaps on the promised time.
        if (each.promised && now() > *each.promised)
          broken_ = cat(each.id, " starts at ", now(), ", and was promised ", *each.promised);
        each.promised.reset();
      } else if (view.position != 1) {
        each.promised.reset();  // another one goes before it, by the order of the queue
      } else if (const auto promise = promise_in(view.condition.reason)) {
        const double by = *promise - static_cast<double>(began_) / 1000;
        if (!each.promised) ++promised_;
        each.promised = std::min(each.promised.value_or(by), by);
      }
      if (each.promised && now() > *each.promised && state == JobState::queued)
        broken_ = cat(each.id, " waits at ", now(), ", and was promised ", *each.promised);
    }
  }

  TableDriver driver_;
  std::vector<WorkJob> jobs_;
  const uint32_t workers_, cores_;
  int64_t began_ = 0;
  std::string broken_;
  size_t preempted_ = 0, shrunk_ = 0, promised_ = 0, shared_ = 0;
};

// Mixed jobs, of which so many arrive that most have to wait.
std::vector<WorkJob> mixed_jobs(std::mt19937_64& random, uint32_t workers, size_t count,
                                bool many_users) {
  const auto pick = [&](uint64_t below) { return random() % below; };
  std::vector<WorkJob> jobs(count);
  for (WorkJob& each : jobs) {
    each.arrives = static_cast<double>(pick(4 * 3600));
    each.workers = static_cast<uint32_t>(1 + (pick(3) == 0 ? pick(workers) : pick(3)));
    each.seconds = static_cast<double>(600 + pick(7200));
    if (pick(4) == 0 && each.workers > 1) each.least = (each.workers + 1) / 2;
    each.terms.priority = pick(3) == 0 ? static_cast<int64_t>(pick(11)) - 5 : 0;
    each.terms.preemptible = pick(3) == 0;
    // With one user nothing but a higher priority goes before a job that came earlier.
    if (many_users) each.terms.user = std::string(1, static_cast<char>('a' + pick(3)));
    // An elastic job may take twice as long on its least.
    if (pick(3) != 0)
      each.terms.max_run_time = seconds(static_cast<int64_t>(each.seconds * 2.2) + pick(1200));
  }
  return jobs;
}

TEST_CASE("in random workloads every job runs, and starts by the time that it was promised") {
  double used = 0;
  size_t preempted = 0, shrunk = 0, promised = 0;
  const uint64_t workloads = environment_number("LEAT_WORKLOADS", 1'000 / kSlowness);
  for (uint64_t seed = 1; seed <= workloads; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto workers = static_cast<uint32_t>(3 + random() % 8);
    Workload workload(mixed_jobs(random, workers, 8 + random() % 12, seed % 2 == 0), workers);
    const std::string broken = workload.run();
    if (!broken.empty()) FAIL(broken);
    used += workload.utilisation();
    preempted += workload.preempted();
    shrunk += workload.shrunk();
    promised += workload.promised();
  }
  std::printf(
      "%d workloads: utilisation %.1f %%, %zu promises kept, %zu jobs made way, %zu fences "
      "of elastic jobs\n",
      static_cast<int>(workloads), 100 * used / static_cast<double>(workloads), promised, preempted,
      shrunk);
  CHECK(promised > workloads / 2);
  CHECK(preempted > workloads / 4);
  if (workloads >= 1000) CHECK(shrunk > workloads);  // fewer have fewer elastic jobs
}

TEST_CASE("in random workloads jobs that share workers run, and never take more than there is") {
  constexpr uint32_t kCores = 4;
  double used = 0;
  size_t shared = 0, promised = 0, preempted = 0;
  const uint64_t workloads = environment_number("LEAT_WORKLOADS", 500 / kSlowness);
  for (uint64_t seed = 1; seed <= workloads; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto workers = static_cast<uint32_t>(3 + random() % 4);
    std::vector<WorkJob> jobs = mixed_jobs(random, workers, 8 + random() % 12, seed % 2 == 0);
    for (WorkJob& each : jobs) {
      if (random() % 4 == 0) continue;  // wants whole workers
      each.terms.cpu = static_cast<int64_t>(1 + random() % (kCores - 1));
      if (random() % 2 == 0) each.terms.memory = uint64_t{1 + random() % 4} << 30;
    }
    Workload workload(std::move(jobs), workers, kCores);
    const std::string broken = workload.run();
    if (!broken.empty()) FAIL(broken);
    used += workload.utilisation();
    shared += workload.shared();
    promised += workload.promised();
    preempted += workload.preempted();
  }
  std::printf(
      "%d workloads that share workers: utilisation %.1f %%, %zu promises kept, %zu jobs "
      "made way, %zu times two jobs on a worker\n",
      static_cast<int>(workloads), 100 * used / static_cast<double>(workloads), promised, preempted,
      shared);
  CHECK(shared > 10 * workloads);
  CHECK(promised > 0);
}

// The end of the last job if they start in this order, each as early as it can.
double end_of(const std::vector<WorkJob>& jobs, const std::vector<size_t>& order,
              uint32_t workers) {
  std::vector<double> free(workers, 0);
  double end = 0;
  for (const size_t i : order) {
    std::sort(free.begin(), free.end());
    const double start = free[jobs[i].workers - 1];
    for (uint32_t w = 0; w < jobs[i].workers; ++w) free[w] = start + jobs[i].seconds;
    end = std::max(end, start + jobs[i].seconds);
  }
  return end;
}

// The earliest end of the last job among all ways that the order of the queue allows: the first
// waiting job starts as soon as it can, and others may start before it if it starts no later for
// that. All jobs have arrived.
class OrderlySearch {
 public:
  OrderlySearch(const std::vector<WorkJob>& jobs, uint32_t workers)
      : jobs_(jobs), workers_(workers) {}

  double best_end() {
    std::vector<size_t> waiting(jobs_.size());
    std::iota(waiting.begin(), waiting.end(), 0);
    go_on(0, {}, waiting);
    return best_;
  }

 private:
  struct Running {
    double end;
    uint32_t workers;
  };

  uint32_t free(const std::vector<Running>& running) const {
    uint32_t used = 0;
    for (const Running& each : running) used += each.workers;
    return workers_ - used;
  }
  // When so many workers are free. `running` by their ends.
  double start_of(uint32_t wanted, double now, const std::vector<Running>& running) const {
    uint32_t there = free(running);
    for (const Running& each : running) {
      if (there >= wanted) break;
      there += each.workers;
      now = each.end;
    }
    return now;
  }
  std::vector<Running> with(std::vector<Running> running, double now, size_t job) const {
    running.push_back({now + jobs_[job].seconds, jobs_[job].workers});
    std::sort(running.begin(), running.end(),
              [](const Running& a, const Running& b) { return a.end < b.end; });
    return running;
  }

  void go_on(double now, std::vector<Running> running, std::vector<size_t> waiting) {
    while (!waiting.empty() && jobs_[waiting[0]].workers <= free(running)) {
      running = with(std::move(running), now, waiting[0]);
      waiting.erase(waiting.begin());
    }
    if (waiting.empty()) {
      best_ = std::min(best_, running.back().end);
      return;
    }
    const uint32_t wanted = jobs_[waiting[0]].workers;
    choose(now, start_of(wanted, now, running), running, waiting, 1);
  }
  // Tries to start each set of the waiting jobs from `at` on, and goes on when a job ends.
  void choose(double now, double head_starts, const std::vector<Running>& running,
              const std::vector<size_t>& waiting, size_t at) {
    if (at == waiting.size()) {
      const double next = running.front().end;
      std::vector<Running> rest;
      for (const Running& each : running) {
        if (each.end > next) rest.push_back(each);
      }
      go_on(next, std::move(rest), waiting);
      return;
    }
    choose(now, head_starts, running, waiting, at + 1);
    const size_t job = waiting[at];
    if (jobs_[job].workers > free(running)) return;
    const auto more = with(running, now, job);
    if (start_of(jobs_[waiting[0]].workers, now, more) > head_starts) return;
    std::vector<size_t> others = waiting;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    choose(now, head_starts, more, others, at);
  }

  const std::vector<WorkJob>& jobs_;
  const uint32_t workers_;
  double best_ = std::numeric_limits<double>::max();
};

// A small workload, and how well its workers are used beside the best that a search finds.
struct SmallWorkload {
  double of_any = 0;      // of all orders of the jobs
  double of_orderly = 0;  // of those that let no job delay the first one that waits
};

SmallWorkload try_small_workload(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto workers = static_cast<uint32_t>(2 + random() % 3);
  std::vector<WorkJob> jobs(6);
  double work = 0;
  for (WorkJob& each : jobs) {
    each.workers = static_cast<uint32_t>(1 + random() % workers);
    each.seconds = static_cast<double>(3600 + random() % 36000);
    each.terms.max_run_time = seconds(static_cast<int64_t>(each.seconds) + 1);
    work += each.seconds * each.workers;
  }
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0);
  double best = end_of(jobs, order, workers);
  while (std::next_permutation(order.begin(), order.end()))
    best = std::min(best, end_of(jobs, order, workers));
  Workload workload(jobs, workers);
  const std::string broken = workload.run();
  if (!broken.empty()) FAIL(broken);
  const auto beside = [&](double end) { return workload.utilisation() / (work / (end * workers)); };
  return {beside(best), beside(OrderlySearch(jobs, workers).best_end())};
}

TEST_CASE("small workloads use the workers nearly as well as the best order of their jobs") {
  SmallWorkload sum, worst{1, 1};
  const uint64_t workloads = environment_number("LEAT_SMALL_WORKLOADS", 200 / kSlowness);
  for (uint64_t seed = 1; seed <= workloads; ++seed) {
    INFO("seed " << seed);
    const SmallWorkload each = try_small_workload(seed);
    sum.of_any += each.of_any;
    sum.of_orderly += each.of_orderly;
    worst.of_any = std::min(worst.of_any, each.of_any);
    worst.of_orderly = std::min(worst.of_orderly, each.of_orderly);
  }
  const auto percent = [&](double part) { return 100 * part / static_cast<double>(workloads); };
  std::printf(
      "%d small workloads: %.1f %% of the best utilisation, %.1f %% at the worst; of the best that "
      "delays no first job %.1f %%, %.1f %% at the worst\n",
      static_cast<int>(workloads), percent(sum.of_any), 100 * worst.of_any, percent(sum.of_orderly),
      100 * worst.of_orderly);
  CHECK(percent(sum.of_any) > 90);
  CHECK(percent(sum.of_orderly) > 95);
}

}  // namespace
}  // namespace leat

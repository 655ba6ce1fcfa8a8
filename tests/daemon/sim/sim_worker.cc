#include "tests/daemon/sim/sim_worker.h"

#include <algorithm>

#include "tests/daemon/sim/cluster.h"
#include "tests/daemon/sim/sim_master.h"

namespace leat::sim {
namespace {

constexpr Ms kBeatEvery = 250, kBeat = 1000, kKeepAlive = 500;
constexpr Ms kPulse = 2500, kQuiet = 500;  // silence that kills, and that is reported
constexpr Ms kConnect = 5000, kRedial = 200;
constexpr Ms kAdopt = 60'000;   // how long runners are kept without a master
constexpr Ms kRefused = 5'000;  // how long a refused runner keeps asking
constexpr Ms kShortestPause = 100, kLongestPause = 2000;

}  // namespace

// Runners -----------------------------------------------------------------------------------------

SimRunner::SimRunner(Cluster& cluster, SimWorker& of, std::string of_job, uint64_t of_assembly,
                     uint64_t of_task)
    : worker(of),
      job(std::move(of_job)),
      tiny(cluster.request_of(job).tiny),
      assembly(of_assembly),
      task(of_task),
      incarnation(cluster.fresh()),
      cluster_(cluster) {
  process = {cat("runner of ", job, " on ", of.name), 1, true, 0};
}

void SimRunner::write(const Weights& from, uint64_t at) {
  weights = from;
  step = at;
  whole = true;
}

// Tells the peers that the run is ending, not that it has ended.
void SimRunner::release() {
  for (auto& [peer, end] : links_) {
    end->send([other = setup_.peers[peer], run = setup_.run] { other->aborted_ = run; });
    end->close();
  }
  links_.clear();
  parts_.clear();
  setup_ = {};
  limit_ = 0;
  connecting_ = nullptr;
}

void SimRunner::advance(uint64_t to, uint64_t as) {
  release();
  assembly = to;
  task = as;
  std::erase_if(arrivals_, [&](const Arrival& each) { return each.assembly < to; });
}

// Of two runners, the one with the higher task dials.
void SimRunner::connect(Setup setup, Reply reply) {
  release();
  setup_ = std::move(setup);
  step = setup_.step;
  connecting_ = std::move(reply);
  if (setup_.peers.size() == 1) return std::exchange(connecting_, nullptr)(Status());
  const uint64_t run = setup_.run;
  for (uint64_t peer = 0; peer < task; ++peer) dial(peer, run);
  for (const Arrival& each : std::exchange(arrivals_, {})) take(each);
  cluster_.world.after(process, kConnect, [this, run] {
    if (setup_.run != run || !connecting_) return;
    const Reply reply = std::exchange(connecting_, nullptr);
    uint64_t peer = 0;
    while (peer == task || links_.contains(peer)) ++peer;
    link_failed(peer, LinkFault::lost, "it does not connect");
    reply(unavailable("a peer does not connect"));
  });
}

void SimRunner::dial(uint64_t peer, uint64_t run) {
  if (setup_.run != run || !connecting_) return;
  SimRunner* other = nullptr;  // the runner at that worker's data port, if there is one
  for (const auto& each : cluster_.workers)
    for (const auto& runner : each->runners)
      if (runner.get() == setup_.peers[peer]) other = runner.get();
  auto [mine, theirs] = other == nullptr
                            ? std::pair<EndPtr, EndPtr>()
                            : cluster_.network.connect(process, worker.machine, other->process,
                                                       other->worker.machine);
  if (mine == nullptr) {
    return cluster_.world.after(process, kRedial, [this, peer, run] { dial(peer, run); });
  }
  mine->send([other, arrival = Arrival{theirs, assembly, task, setup_.incarnations[peer]}] {
    other->arrived(arrival);
  });
  linked(peer, mine);
}

void SimRunner::arrived(Arrival arrival) {
  if (arrival.incarnation != incarnation || arrival.assembly < assembly)
    return arrival.end->close();
  if (connecting_) return take(arrival);
  arrivals_.push_back(std::move(arrival));
}

void SimRunner::take(const Arrival& arrival) {
  if (arrival.assembly > assembly) return arrivals_.push_back(arrival);
  const bool fits = arrival.from > task && arrival.from < setup_.peers.size();
  if (!fits || arrival.assembly != assembly) return arrival.end->close();
  linked(arrival.from, arrival.end);
}

void SimRunner::linked(uint64_t peer, EndPtr end) {
  end->on_closed = [this, peer, run = setup_.run, of = end.get()] {
    if (setup_.run != run) return;
    if (aborted_ == run) return failed(cat("task ", peer, " has ended the run"));
    link_failed(peer, of->timed_out() ? LinkFault::lost : LinkFault::closed, "it was closed");
  };
  links_[peer] = std::move(end);
  if (connected() && connecting_) std::exchange(connecting_, nullptr)(Status());
}

void SimRunner::extend(uint64_t limit) {
  if (setup_.run == 0) return;
  const bool stood = step >= limit_;
  limit_ = std::max(limit_, limit);
  if (stood && step < limit_) begin_step();
}

// The step that has begun is still allowed.
uint64_t SimRunner::hold() {
  limit_ = std::min(limit_, step + 1);
  return std::max(limit_, step);
}

void SimRunner::fence(uint64_t limit) {
  const bool stood = step >= limit_;
  limit_ = limit;
  if (stood && step < limit_) begin_step();
  // A runner that stood there before the fence has reported nothing, so it reports now.
  if (step == limit_ && master != nullptr) {
    master->send([&cluster = cluster_, job = job, assembly = assembly, task = task, step = step] {
      cluster.master->reported(job, assembly, task, step);
    });
  }
}

void SimRunner::begin_step() {
  if (step >= limit_ || setup_.run == 0) return;
  World& world = cluster_.world;
  world.after(process, world.between(15, 45), [this, run = setup_.run, at = step] {
    if (setup_.run != run || step != at) return;
    const uint64_t ranks = setup_.peers.size(), shards = tiny.shards;
    const Weights part =
        tiny.gradient(weights, at, task * shards / ranks, (task + 1) * shards / ranks);
    parts_[at][task] = part;
    for (auto& [peer, end] : links_) {
      Part sent{task, at, part, std::exchange(corrupts_, false)};
      if (sent.damaged) sent.weights.chain ^= 1;
      end->send([other = setup_.peers[peer], assembly = assembly, sent] {
        other->received(assembly, sent);
      });
    }
    try_apply();
  });
}

void SimRunner::received(uint64_t of_assembly, const Part& part) {
  if (of_assembly != assembly) return;
  if (part.damaged && cluster_.mutation != Mutation::checksum_unchecked)
    return link_failed(part.from, LinkFault::damaged, "what came is damaged");
  parts_[part.step][part.from] = part.weights;
  try_apply();
}

void SimRunner::lose_link() {
  if (links_.empty()) return;
  const auto [peer, end] = *links_.begin();
  end->close();
  link_failed(peer, LinkFault::closed, "it was closed");
}

bool SimRunner::waits() const {
  const auto found = parts_.find(step);
  return steps() && !applying_ && found != parts_.end() && found->second.contains(task) &&
         found->second.size() < setup_.peers.size();
}

// Applies one variable after the other, once the parts of all peers are here.
void SimRunner::try_apply() {
  const auto found = parts_.find(step);
  if (applying_ || found == parts_.end() || found->second.size() < setup_.peers.size()) return;
  if (!found->second.contains(task)) return;
  Weights sum{0, 0};
  for (const auto& [from, part] : found->second) {
    sum.chain += part.chain;
    sum.samples += part.samples;
  }
  applying_ = true;
  whole = false;
  const Weights next = TinyJob::apply(weights, sum);
  weights = TinyJob::apply_first(weights, sum);
  World& world = cluster_.world;
  world.after(process, world.between(0, 2), [this, next, run = setup_.run] {
    applying_ = false;
    if (setup_.run != run) return;  // torn: the run ended between the two writes
    weights = next;
    whole = true;
    parts_.erase(step++);
    ++turns;
    cluster_.check_weights(cluster_.request_of(job), step, weights, process.name);
    if (master != nullptr && (task == 0 || step >= limit_)) {
      master->send([&cluster = cluster_, job = job, assembly = assembly, task = task, step = step] {
        cluster.master->reported(job, assembly, task, step);
      });
    }
    begin_step();
    try_apply();
  });
}

void SimRunner::failed(const std::string& how) {
  release();
  if (master == nullptr) return;
  master->send(
      [&cluster = cluster_, job = job, assembly = assembly, how = cat(process.name, ": ", how)] {
        cluster.master->run_failed(job, assembly, how);
      });
}

// Sent before the run's own failure.
void SimRunner::link_failed(uint64_t peer, LinkFault fault, const std::string& how) {
  const LinkFailed event{
      job,   assembly, {worker.name, worker.incarnation}, setup_.peers[peer]->worker.name,
      fault, how};
  if (master != nullptr)
    master->send([&cluster = cluster_, event] { cluster.master->link_failed(event); });
  failed(cat("link to task ", peer, ": ", how));
}

// Workers -----------------------------------------------------------------------------------------

SimWorker::SimWorker(Cluster& cluster, int at)
    : machine(at), name(cat("w", at)), cluster_(cluster) {
  process.name = name;
}

void SimWorker::boot() {
  if (process.alive) return;
  process = {name, process.life + 1, true, 0};
  pause_ = kShortestPause;
  incarnation = 0;
  alone_since_ = cluster_.world.now();
  cluster_.world.trace(name, " starts");
  join();
  watch_runners();
  keep_alive();
}

// The runners die with the worker.
void SimWorker::kill() {
  if (!process.alive) return;
  cluster_.world.trace(name, " is killed");
  while (!runners.empty()) end_runner(*runners.back(), "", false);
  process.alive = false;
  member_ = false;
  news_.clear();
  cluster_.network.died(process);
  control_.reset();
  heart_.reset();
}

SimRunner* SimWorker::runner() const { return runners.empty() ? nullptr : runners.back().get(); }

void SimWorker::join() {
  World& world = cluster_.world;
  SimMaster& master = *cluster_.master;
  auto [mine, theirs] =
      cluster_.network.connect(process, machine, master.process, Cluster::kMaster);
  if (mine == nullptr) {
    leave(false);
    return world.after(process, std::exchange(pause_, std::min(kLongestPause, pause_ * 2)),
                       [this] { join(); });
  }
  std::vector<HeldRunner> held;
  for (const auto& runner : runners) {
    if (incarnation == 0) continue;
    held.push_back({runner->job, runner->assembly, static_cast<uint32_t>(runner->task)});
  }
  if (incarnation == 0) incarnation = cluster_.fresh();
  control_ = mine;
  control_->on_closed = [this] { lost("its connection to the master has ended", false); };
  mine->send([&master, theirs = theirs, worker = this, ref = WorkerRef{name, incarnation}, held] {
    master.worker_connects(worker, ref, held, theirs);
  });
}

void SimWorker::registered(const Status& status) {
  if (!status.ok()) return lost(status.message(), true);
  member_ = true;
  ++memberships_;
  pause_ = kShortestPause;
  sequence_ = 0;
  for (Task& each : std::exchange(news_, {})) control_->send(std::move(each));
  beat();
}

void SimWorker::tell_master(Task task) {
  if (member_) {
    control_->send(std::move(task));
  } else if (incarnation != 0) {
    news_.push_back(std::move(task));
  }
}

// The master answers only a heartbeat that it refuses. A missing answer means nothing.
void SimWorker::beat() {
  if (!member_) return;
  World& world = cluster_.world;
  SimMaster& master = *cluster_.master;
  if (heart_ == nullptr || !heart_->is_open()) {
    auto [mine, theirs] =
        cluster_.network.connect(process, machine, master.process, Cluster::kMaster);
    heart_ = mine;
    if (mine != nullptr) mine->on_closed = [this] { heart_.reset(); };
    hearts_ = theirs;
  }
  if (heart_ != nullptr) {
    Heartbeat heartbeat{{name, incarnation}, ++sequence_, 0, false};
    for (const auto& runner : runners) {
      heartbeat.progress += runner->turns;
      const auto silent = silent_since_.find(runner->incarnation);
      heartbeat.quiet |= silent != silent_since_.end() && world.now() - silent->second > kQuiet;
      heartbeat.waits |= runner->waits();
      heartbeat.stepping |= runner->steps();
    }
    heart_->send([&master, heartbeat, answers = hearts_, this] {
      const Status heard = master.heard(heartbeat);
      if (heard.ok()) return;
      answers->send([this, of = heartbeat.worker.incarnation, heard] {
        if (member_ && incarnation == of) lost(heard.message(), true);
      });
    });
  }
  world.after(process, kBeatEvery, [this, of = memberships_] {
    if (memberships_ == of) beat();
  });
}

void SimWorker::keep_alive() {
  cluster_.world.after(process, kKeepAlive, [this] {
    if (control_ != nullptr) control_->send([] {});
    for (const auto& runner : runners)
      if (runner->master != nullptr) runner->master->send([] {});
    keep_alive();
  });
}

void SimWorker::lost(const std::string& why, bool counted_out) {
  cluster_.world.trace(name, " leaves: ", why);
  if (member_) alone_since_ = cluster_.world.now();
  member_ = false;
  if (control_ != nullptr) control_->close();
  if (heart_ != nullptr) heart_->close();
  control_.reset();
  heart_.reset();
  leave(counted_out);
  cluster_.world.after(process, std::exchange(pause_, std::min(kLongestPause, pause_ * 2)),
                       [this] { join(); });
}

// Without a master the runners are kept for a while. If the master has counted this incarnation
// out, it regards the runners as ended, so they are ended here.
void SimWorker::leave(bool counted_out) {
  const bool holds =
      !counted_out && !runners.empty() && cluster_.world.now() - alone_since_ < kAdopt;
  if (holds) return;
  while (!runners.empty() && cluster_.mutation != Mutation::runners_outlive_lease)
    end_runner(*runners.back(), "", false);
  incarnation = 0;
  news_.clear();
}

// Kills runners that give no pulse because they are stopped.
void SimWorker::watch_runners() {
  cluster_.world.after(process, 100, [this] {
    const Ms now = cluster_.world.now();
    for (size_t i = 0; i < runners.size(); ++i) {
      Process& each = runners[i]->process;
      if (each.stopped_until <= now) {
        silent_since_.erase(runners[i]->incarnation);
        continue;
      }
      if (silent_since_[runners[i]->incarnation] == 0) silent_since_[runners[i]->incarnation] = now;
      if (now - silent_since_[runners[i]->incarnation] < kPulse) continue;
      end_runner(*runners[i], "gave no pulse for 2.5 s and was killed", true);
      break;
    }
    watch_runners();
  });
}

void SimWorker::end_runner(SimRunner& runner, const std::string& how, bool tell) {
  cluster_.world.trace(runner.process.name, " ends: ", how);
  runner.process.alive = false;
  cluster_.network.died(runner.process);
  silent_since_.erase(runner.incarnation);
  const auto found = std::find_if(runners.begin(), runners.end(),
                                  [&](const auto& each) { return each.get() == &runner; });
  if (tell) {
    tell_master([&cluster = cluster_, job = runner.job, assembly = runner.assembly,
                 ref = WorkerRef{name, incarnation},
                 how] { cluster.master->runner_exited(ref, job, assembly, how); });
  }
  graves_.push_back(std::move(*found));  // messages on their way to it find it dead
  runners.erase(found);
}

void SimWorker::kill_runner(const std::string& how) {
  if (process.alive && !runners.empty()) end_runner(*runners.back(), how, true);
}

void SimWorker::start(const std::string& job, uint64_t assembly, uint64_t task) {
  for (const auto& each : runners)
    if (each->job == job && each->assembly == assembly) return;
  if (!runners.empty())
    cluster_.world.broken(name, " is to have runners of two assemblies: ", runners.back()->job, " ",
                          runners.back()->assembly, ", ", job, " ", assembly);
  runners.push_back(std::make_unique<SimRunner>(cluster_, *this, job, assembly, task));
  SimRunner& runner = *runners.back();
  World& world = cluster_.world;
  world.after(runner.process, world.between(5, 60), [this, &runner] { seat(runner); });
}

// Registers a runner: when it starts, and again with a master that comes back.
void SimWorker::seat(SimRunner& runner) {
  SimMaster& master = *cluster_.master;
  auto [mine, theirs] =
      cluster_.network.connect(runner.process, machine, master.process, Cluster::kMaster);
  if (mine == nullptr) return unseated(runner);
  runner.master = mine;
  mine->on_closed = [this, &runner] { unseated(runner); };
  mine->send([&master, &runner, theirs = theirs] { master.runner_connects(runner, theirs); });
}

void SimWorker::unseated(SimRunner& runner) {
  if (!runner.was_seated) return end_runner(runner, "exited with status 1", true);
  const Ms now = cluster_.world.now();
  if (runner.alone_since < 0) runner.alone_since = now;
  if (std::exchange(runner.refused, false) && runner.refused_since < 0) runner.refused_since = now;
  const bool refused = runner.refused_since >= 0 && now - runner.refused_since >= kRefused;
  if (refused || now - runner.alone_since >= kAdopt)
    return end_runner(runner, "lost the master", true);
  cluster_.world.after(runner.process, kRedial, [this, &runner] { seat(runner); });
}

void SimWorker::stop(const std::string& job, uint64_t assembly, Ms grace, Task gone) {
  const auto found = std::find_if(runners.begin(), runners.end(), [&](const auto& each) {
    return each->job == job && each->assembly <= assembly;
  });
  if (found == runners.end()) return gone();
  World& world = cluster_.world;
  const uint64_t meant = (*found)->incarnation;
  if (cluster_.mutation == Mutation::gone_too_soon) std::exchange(gone, [] {})();
  world.after(process, world.between(0, grace), [this, meant, gone = std::move(gone)] {
    const auto left = std::find_if(runners.begin(), runners.end(),
                                   [&](const auto& each) { return each->incarnation == meant; });
    if (left != runners.end()) end_runner(**left, "has ended", false);
    gone();
  });
}

Status SimWorker::advance(const std::string& job, uint64_t assembly) {
  for (const auto& each : runners) {
    if (each->job == job && each->assembly <= assembly && each->process.alive) return {};
  }
  return failed_precondition(cat("there is no runner of ", job));
}

}  // namespace leat::sim

#include "tests/daemon/sim/simulation.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat::sim {
namespace {

constexpr Ms kFaultsEnd = 12'000;     // after this everything works again
constexpr Ms kBound = 120'000;        // the longest time until all jobs have ended after that
constexpr uint32_t kRestarts = 1000;  // of a job; high, so that no job fails by their number

// A client that submits a job, and repeats the request until it is answered.
class Client {
 public:
  Client(Cluster& cluster, size_t request) : cluster_(cluster), number_(request) {
    process_ = {cat("client ", request), 1, true, 0};
    Request& of = cluster.requests[request];
    submission_ = make_submission(of.id, cat("tiny", request), of.workers);
    submission_.max_restarts = kRestarts;
    submission_.min_workers = of.least;
    submission_.terms = of.terms;
    World& world = cluster.world;
    world.after(process_, world.between(0, 3000), [this] { submit(); });
    // Some clients repeat the request, as if the answer had been lost.
    if (world.chance(30)) world.after(process_, world.between(500, 9000), [this] { submit(); });
    if (world.chance(10)) world.after(process_, world.between(500, 9000), [this] { cancel(); });
    if (world.chance(25)) world.after(process_, world.between(500, 9000), [this] { pause(false); });
  }

  bool is_done() const { return waiting_ == 0; }

 private:
  using Call = std::function<void(SimMaster&, SimMaster::Done)>;

  void submit() {
    ++waiting_;
    call([this](SimMaster& master, SimMaster::Done done) { master.submit(submission_, done); },
         [this](const Result<JobView>& view) {
           if (!view.ok()) return false;
           std::string& job = cluster_.requests[number_].job;
           if (!job.empty() && job != view->id)
             cluster_.world.broken("one request is two jobs: ", job, ", ", view->id);
           job = view->id;
           cluster_.world.trace(process_.name, " has ", job);
           return true;
         });
  }

  void cancel() {
    Request& request = cluster_.requests[number_];
    if (request.job.empty()) return;
    request.cancelled = true;
    ++waiting_;
    call([id = request.job](SimMaster& master, SimMaster::Done done) { master.cancel(id, done); },
         [](const Result<JobView>& view) { return view.ok(); });
  }

  // Pauses the job, and resumes it after a while. A job that has ended is left alone.
  void pause(bool undo) {
    const std::string job = cluster_.requests[number_].job;
    if (job.empty()) return;
    ++waiting_;
    call([job, undo](SimMaster& master, SimMaster::Done done) { master.pause(job, undo, done); },
         [this, undo](const Result<JobView>& view) {
           if (!view.ok()) return view.status().code() == Code::failed_precondition;
           World& world = cluster_.world;
           world.trace(process_.name, undo ? " has resumed " : " has paused ", view->id);
           if (undo) return true;
           ++waiting_;  // until the job goes on
           world.after(process_, world.between(200, 5000), [this] {
             --waiting_;
             pause(true);
           });
           return true;
         });
  }

  // Repeats the call until `take` accepts the answer.
  void call(Call what, std::function<bool(const Result<JobView>&)> take) {
    World& world = cluster_.world;
    const auto again = [this, what, take, &world] {
      world.after(process_, world.between(100, 500), [this, what, take] { call(what, take); });
    };
    SimMaster& master = *cluster_.master;
    auto [mine, theirs] =
        cluster_.network.connect(process_, Cluster::kMaster, master.process, Cluster::kMaster);
    if (mine == nullptr) return again();
    const auto open = std::make_shared<bool>(true);
    const auto ends_call = [open, mine = mine] {
      if (!std::exchange(*open, false)) return false;
      mine->close();
      return true;
    };
    mine->on_closed = [open, again] {
      if (std::exchange(*open, false)) again();
    };
    mine->send([&master, what, ends_call, take, again, this, theirs = theirs] {
      what(master, [ends_call, take, again, this, theirs](const Result<JobView>& result) {
        theirs->send([ends_call, take, again, this, result] {
          if (!ends_call()) return;
          if (take(result)) {
            --waiting_;
          } else {
            again();
          }
        });
      });
    });
    world.after(process_, 10'000, [open, mine = mine, again] {
      if (!std::exchange(*open, false)) return;
      mine->close();
      again();
    });
  }

  Cluster& cluster_;
  const size_t number_;
  Process process_;
  Submission submission_;
  size_t waiting_ = 0;
};

// The faults of the cluster.
class Faults {
 public:
  explicit Faults(Cluster& cluster) : cluster_(cluster), world_(cluster.world) {
    for (uint64_t left = 1 + world_.pick(6); left > 0; --left)
      world_.after(world_.between(300, kFaultsEnd), [this] { strike(); });
  }

  // Ends all faults.
  void heal() {
    world_.trace("all faults end");
    const int machines = static_cast<int>(cluster_.workers.size()) + 1;
    for (int a = 0; a < machines; ++a)
      for (int b = 0; b < machines; ++b) cluster_.network.heal(a, b);
    SimMaster& master = *cluster_.master;
    master.health = {};
    if (master.journal_is_broken()) master.kill(false);  // an operator restarts it
    wake(master.process);
    master.boot();
    for (const auto& worker : cluster_.workers) {
      wake(worker->process);
      for (const auto& runner : worker->runners) wake(runner->process);
      worker->boot();
      master.drain(worker->name, false);
    }
  }

 private:
  SimWorker& some_worker() { return *cluster_.workers[world_.pick(cluster_.workers.size())]; }
  void wake(Process& process) { process.stopped_until = world_.now(); }
  void stop(Process& process, Ms time) {
    world_.trace(process.name, " is stopped for ", time, " ms");
    process.stopped_until = std::max(process.stopped_until, world_.now() + time);
  }

  void strike() {
    SimMaster& master = *cluster_.master;
    SimWorker& worker = some_worker();
    switch (world_.pick(21)) {
      case 0:
      case 1:
        worker.kill();
        return world_.after(world_.between(50, 4000), [&worker] { worker.boot(); });
      case 2:
      case 3:
      case 4:
        return worker.kill_runner("was killed by signal 9");
      case 5:
        if (worker.process.alive) stop(worker.process, world_.between(100, 6000));
        return;
      case 6:
        if (worker.runner() != nullptr) stop(worker.runner()->process, world_.between(100, 6000));
        return;
      case 7:
        if (master.process.alive) stop(master.process, world_.between(100, 6000));
        return;
      case 8:
      case 9:
      case 10:
        master.kill(world_.chance(60));
        return world_.after(world_.between(20, 3000), [&master] { master.boot(); });
      case 11:
      case 12:
        return cut(worker);
      case 13:
        return trouble_disk();
      case 14:
        if (!cluster_.requests.empty()) {
          const Request& request = cluster_.requests[world_.pick(cluster_.requests.size())];
          if (!request.job.empty() && master.process.alive) (void)master.flip_bit(request.job);
        }
        return;
      case 15:
        if (worker.runner() != nullptr) worker.runner()->corrupt();
        return;
      case 16:
        if (worker.runner() != nullptr) worker.runner()->lose_link();
        return;
      default:
        master.drain(worker.name, true);
        world_.clock().jump_wall(std::chrono::milliseconds(world_.between(-100'000, 100'000)));
        return world_.after(world_.between(500, 5000),
                            [&master, &worker] { master.drain(worker.name, false); });
    }
  }

  // Cuts the machine off from one other machine or from all, in one direction or in both.
  void cut(const SimWorker& worker) {
    const int machines = static_cast<int>(cluster_.workers.size()) + 1;
    const int other = static_cast<int>(world_.pick(static_cast<uint64_t>(machines)));
    const bool all = world_.chance(30);
    const uint64_t ways = 1 + world_.pick(3);
    const Ms time = world_.between(100, 6000);
    for (int to = 0; to < machines; ++to) {
      if (to == worker.machine || (!all && to != other)) continue;
      for (const auto& [a, b] : {std::pair(worker.machine, to), std::pair(to, worker.machine)}) {
        if ((a == worker.machine ? ways & 1 : ways & 2) == 0) continue;
        world_.trace("cut from ", a, " to ", b, " for ", time, " ms");
        cluster_.network.cut(a, b);
        world_.after(time, [this, a = a, b = b] { cluster_.network.heal(a, b); });
      }
    }
  }

  void trouble_disk() {
    DiskHealth& health = cluster_.master->health;
    const uint64_t kind = world_.pick(3);
    world_.trace("the disk is ", kind == 0 ? "full" : kind == 1 ? "failing" : "slow");
    (kind == 0 ? health.full : health.failing) = kind < 2;
    if (kind == 2) health.slow = world_.between(100, 1500), health.failing = false;
    world_.after(world_.between(200, 3000), [&health] { health = {}; });
  }

  Cluster& cluster_;
  World& world_;
};

void make_requests(Cluster& cluster) {
  World& world = cluster.world;
  for (uint64_t left = 1 + world.pick(3); left > 0; --left) {
    Request request;
    request.id = cat("request-", left);
    request.tiny.seed = world.pick(UINT64_MAX);
    request.tiny.steps = 10 + world.pick(30);
    request.tiny.every = 3 + world.pick(8);
    request.twin = request.tiny.twin();
    request.workers = 1 + static_cast<uint32_t>(world.pick(cluster.workers.size()));
    if (world.chance(50)) request.least = 1 + static_cast<uint32_t>(world.pick(request.workers));
    if (world.chance(40)) request.terms.priority = static_cast<int64_t>(world.pick(3)) - 1;
    request.terms.preemptible = world.chance(50);
    cluster.requests.push_back(std::move(request));
  }
}

// Checks what must hold once everything is over.
void check_end(Cluster& cluster, Outcome& outcome) {
  std::map<std::string, size_t> jobs;  // by name
  for (const StoredJob& job : cluster.master->journal().replay()) {
    ++jobs[job.name];
    if (job.condition.state == JobState::succeeded) ++outcome.succeeded;
  }
  for (size_t i = 0; i < cluster.requests.size(); ++i) {
    const Request& request = cluster.requests[i];
    const size_t count = jobs[cat("tiny", i)];
    if (count != 1) cluster.world.broken(request.id, " is ", count, " jobs in the journal");
    if (cluster.master->journal().find(request.job) == nullptr)
      cluster.world.broken(request.job, " was acknowledged, and is lost");
  }
}

}  // namespace

Cluster::Cluster(uint64_t seed, Mutation of, bool traces)
    : world(seed, traces), mutation(of), has_real_journal(of == Mutation::none && seed % 32 == 0) {
  const int machines = 2 + static_cast<int>(world.pick(3));
  master = std::make_unique<SimMaster>(*this);
  for (int i = 1; i <= machines; ++i) workers.push_back(std::make_unique<SimWorker>(*this, i));
  if (world.chance(20)) network.slowest = 60;
}

Cluster::~Cluster() = default;

Request& Cluster::request_of(const std::string& job) {
  return requests[std::stoul(job.substr(std::string_view("tiny").size()))];
}

void Cluster::check_weights(const Request& request, uint64_t step, const Weights& weights,
                            const std::string& process) {
  if (step >= request.twin.size() || !(weights == request.twin[step]))
    world.broken(process, ": the weights after step ", step, " are not those of the twin");
  const uint64_t used = step * request.tiny.batch;
  if (used % request.tiny.rows == 0 &&
      weights.samples != request.tiny.all_samples(used / request.tiny.rows))
    world.broken(process, ": after step ", step, " not every sample was used once an epoch");
}

Outcome simulate(uint64_t seed, Mutation mutation, bool traces) {
  Cluster cluster(seed, mutation, traces);
  World& world = cluster.world;
  make_requests(cluster);
  cluster.master->boot();
  for (const auto& worker : cluster.workers) worker->boot();
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < cluster.requests.size(); ++i)
    clients.push_back(std::make_unique<Client>(cluster, i));
  Faults faults(cluster);
  while (world.now() < kFaultsEnd && world.what_broke().empty() && world.step()) continue;
  // Tasks that undo single faults may still come. They find the fault undone.
  faults.heal();
  Ms checked = 0;
  std::string left = "nothing has happened";
  while (!left.empty() && world.what_broke().empty() && world.step()) {
    if (world.now() - checked < 100) continue;
    checked = world.now();
    left = cluster.master->leftovers();
    for (const auto& client : clients)
      if (!client->is_done()) left = "a client waits for an answer";
    if (world.now() > kFaultsEnd + kBound)
      world.broken("no end after ", kBound, " ms without faults: ", left);
  }
  Outcome outcome;
  if (world.what_broke().empty()) check_end(cluster, outcome);
  const SimMaster& master = *cluster.master;
  outcome.broken = world.what_broke();
  outcome.trace = world.lines();
  outcome.events = world.steps();
  outcome.time = world.now();
  outcome.checkpoints = master.checkpoints;
  outcome.resumed = master.resumed;
  outcome.refused = master.refused;
  outcome.kept = master.kept;
  outcome.from_memory = master.from_memory;
  outcome.taken_up = master.taken_up;
  outcome.yields = master.yields;
  outcome.saved_yields = master.saved_yields;
  outcome.resized = master.resized;
  outcome.paused = master.paused;
  outcome.made_way = master.made_way;
  return outcome;
}

}  // namespace leat::sim

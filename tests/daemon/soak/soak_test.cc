// Measures a cluster with many idle peers and some hostile ones. The test is small by default; with
// LEAT_SOAK=full, as deploy/soak sets it, it has the promised size and prints a table.
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "daemon/cli/pack_job.h"
#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/small_client.h"
#include "tests/daemon/soak/attacker.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr size_t kMiB = 1u << 20;
constexpr const char* kGraph = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 8, kernel = 3, activation = "relu"> (image)
  f = Flatten (c1)
  logits = leat.Dense <units = 4> (f)
}
)";

struct Size {
  bool full = false;
  int workers = 4;
  int clients = 50;
  std::chrono::seconds quiet{2};   // without an attack
  std::chrono::seconds attack{3};  // in all
  milliseconds slice{1000};        // of an attack, and of quiet between two
};

Size size_of_run() {
  const char* soak = std::getenv("LEAT_SOAK");
  if (soak == nullptr || std::string_view(soak) != "full") return {};
  Size size{true, 64, 1'000, 60s, 300s, 2000ms};
  if (const char* seconds = std::getenv("LEAT_SOAK_SECONDS")) {
    size.attack = std::chrono::seconds(std::atoi(seconds));
    size.quiet = std::min(size.quiet, size.attack);
  }
  return size;
}

// Prints a row of the table with the measured and the expected value. Only in full size.
void row(const Size& size, const std::string& what, const std::string& measured,
         const std::string& expected) {
  if (!size.full) return;
  std::printf("%-52s %18s   %s\n", what.c_str(), measured.c_str(), expected.c_str());
  std::fflush(stdout);
}

std::string mib(size_t bytes) { return cat((bytes + kMiB / 2) / kMiB, " MiB"); }
size_t grown(size_t before, size_t now) { return now > before ? now - before : 0; }

// The pace in a window of time, per second.
struct Pace {
  double steps = 0;
  double daemons = 0, runners = 0;  // processor seconds
};

// Compares the windows under attack with the quiet ones before and after each.
struct Comparison {
  std::vector<double> quiet, attacked, shares;  // of steps
  double daemons_quiet = 0, daemons_attacked = 0, runners_quiet = 0, runners_attacked = 0;

  void add(const Pace& before, const Pace& under, const Pace& after) {
    quiet.push_back((before.steps + after.steps) / 2);
    attacked.push_back(under.steps);
    shares.push_back(under.steps / std::max(1e-9, quiet.back()));
    daemons_quiet += (before.daemons + after.daemons) / 2;
    runners_quiet += (before.runners + after.runners) / 2;
    daemons_attacked += under.daemons;
    runners_attacked += under.runners;
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// The cores that this process and its children may use.
std::vector<int> own_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

// Keeps this thread and its later children off one core, which is for the attackers. With few cores
// it spares none.
class SparedCore {
 public:
  SparedCore() : cores_(own_cores()) {
    if (cores_.size() < 3) return;
    core_ = cores_.back();
    use({cores_.begin(), cores_.end() - 1});
  }
  ~SparedCore() {
    if (core_ >= 0) use(cores_);
  }
  SparedCore(const SparedCore&) = delete;
  SparedCore& operator=(const SparedCore&) = delete;
  int core() const { return core_; }

 private:
  static void use(const std::vector<int>& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
    (void)::sched_setaffinity(0, sizeof set, &set);
  }

  const std::vector<int> cores_;
  int core_ = -1;
};

class Scene {
 public:
  explicit Scene(int workers)
      : small_(kGraph), cluster_({.workers = workers, .data_path = small_.path()}) {
    client_ = client_of(cluster_.master());
  }

  ProcessCluster& cluster() { return cluster_; }
  ClusterClient& client() { return *client_; }

  std::string submit(const std::vector<std::string>& set) { return submit_job(small_.job(set)); }
  std::string submit_job(Job job) {
    job.data.root = "data";
    const std::string path = small_.path("job.yaml");
    std::ofstream(path) << print_job(job);
    JobOptions options;
    options.file = path;
    const PackedJob packed = must(pack_job(must(read_whole_job(options)), options, real_files()));
    return must(client_->submit(packed.request)).id;
  }
  JobView await(const std::string& id, JobState state, milliseconds patience) {
    const auto deadline = Steady::now() + patience;
    JobView view = must(client_->job(id));
    while (view.condition.state != state && !has_ended(view.condition.state)) {
      REQUIRE(Steady::now() < deadline);
      view = must(client_->watch(id, view.version, 1s));
    }
    INFO(view.condition.reason << cluster_.logs());
    REQUIRE(view.condition.state == state);
    return view;
  }
  void await_steps(const std::string& id, uint64_t steps) {
    const auto deadline = Steady::now() + 20s;
    for (JobView view = must(client_->job(id)); view.progress.last.step < steps;) {
      REQUIRE(Steady::now() < deadline);
      view = must(client_->watch(id, view.version, 1s));
    }
  }
  std::string submit_long() {
    return submit_job(small_.with_endless_epoch(
        small_.job({"num_workers=2", "steps=1000000000", "checkpoint.every_steps=1000000000"})));
  }
  // Measures a window of this length.
  Pace count(const std::string& id, milliseconds time) {
    const Facts before = facts(id);
    std::this_thread::sleep_for(time);
    const Facts after = facts(id);
    const double seconds = std::chrono::duration<double>(after.at - before.at).count();
    return {static_cast<double>(after.step - before.step) / seconds,
            (after.daemons - before.daemons) / seconds, (after.runners - before.runners) / seconds};
  }
  std::vector<pid_t> processes() {
    std::vector<pid_t> all = {cluster_.master().pid()};
    for (int i = 0; i < cluster_.workers(); ++i) all.push_back(cluster_.worker(i).pid());
    const auto runners = cluster_.runners();
    all.insert(all.end(), runners.begin(), runners.end());
    return all;
  }

 private:
  struct Facts {
    Steady::time_point at;
    uint64_t step = 0;
    double daemons = 0, runners = 0;  // processor seconds so far
  };
  Facts facts(const std::string& id) {
    Facts facts;
    facts.step = must(client_->job(id)).progress.last.step;
    facts.at = Steady::now();
    for (const pid_t runner : cluster_.runners()) facts.runners += processor_seconds(runner);
    facts.daemons = processor_seconds(cluster_.master().pid());
    for (int i = 0; i < cluster_.workers(); ++i)
      facts.daemons += processor_seconds(cluster_.worker(i).pid());
    return facts;
  }

  static void must(const Status& status) { REQUIRE(status.to_string() == "ok"); }
  template <typename T>
  static T must(Result<T> result) {
    REQUIRE(result.status().to_string() == "ok");
    return std::move(result).value();
  }

  SmallJob small_;
  ProcessCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
};

// Connections of clients that do nothing.
class Idlers {
 public:
  Idlers(const std::string& address, int count) : loop_(std::move(RpcLoop::start().value())) {
    RpcClientOptions options;
    options.address = address;
    options.identity.role = RpcRole::client;
    options.identity.cluster = "leat";
    for (int i = 0; i < count; ++i) {
      auto client = RpcClient::connect(*loop_, options);
      INFO("client " << i << ": " << client.status().to_string());
      REQUIRE(client.ok());
      clients_.push_back(std::move(*client));
    }
  }

 private:
  std::unique_ptr<RpcLoop> loop_;
  std::vector<std::unique_ptr<RpcClient>> clients_;
};

TEST_CASE("many workers and idle clients cost the master nothing, and jobs start at once",
          "[soak]") {
  const Size size = size_of_run();
  Scene scene(size.workers);
  const pid_t master = scene.cluster().master().pid();
  const size_t before = resident_bytes(master);
  const Idlers idlers(scene.cluster().master().ready().listen, size.clients);
  const size_t connected = resident_bytes(master);
  std::this_thread::sleep_for(size.quiet);
  const size_t after = resident_bytes(master);
  const auto asked = Steady::now();
  const std::string id = scene.submit({"num_workers=4", "steps=20"});
  scene.await(id, JobState::running, 60s);
  const auto started = std::chrono::duration_cast<milliseconds>(Steady::now() - asked);
  scene.await(id, JobState::succeeded, 60s * kSlowness);

  row(size, cat("RSS of the master, ", size.workers, " workers"), mib(before), "");
  row(size, cat("and ", size.clients, " idle clients"), mib(connected), "");
  row(size, cat("grown in ", size.quiet.count(), " s"), cat(grown(connected, after) / 1024, " KiB"),
      "< 2 MiB");
  row(size, "from submit to RUNNING", cat(started.count(), " ms"), "< 1000 ms");
  CHECK(grown(connected, after) < 2 * kMiB * kSlowness);
  if (size.full) CHECK(started < 1s * kSlowness);
}

TEST_CASE("peers that do harm neither end a daemon nor stop a job", "[soak]") {
  const Size size = size_of_run();
  const SparedCore spared;
  Scene scene(2);
  const std::string id = scene.submit_long();
  scene.await(id, JobState::running, 60s);
  scene.await_steps(id, 10);
  Attacker::Target target;
  target.rpc = scene.cluster().master().ready().listen;
  target.cluster = "leat";
  const std::vector<pid_t> processes = scene.processes();
  std::vector<size_t> before;
  for (const pid_t process : processes) {
    for (std::string& port : ports_of(process)) target.ports.push_back(std::move(port));
    before.push_back(resident_bytes(process));
  }
  REQUIRE(target.ports.size() >= 5);  // the master's three, and a data port for each worker
  Attacker one(target, 1, 25, spared.core()), two(target, 2, 25, spared.core());
  Comparison compared;
  // Windows alternate, because a machine's speed changes over time.
  Pace before_it = scene.count(id, size.slice);
  for (milliseconds attacked{0}; attacked < size.attack; attacked += size.slice) {
    one.go_on();
    two.go_on();
    const Pace under = scene.count(id, size.slice);
    one.rest();
    two.rest();
    const Pace after_it = scene.count(id, size.slice);
    compared.add(before_it, under, after_it);
    before_it = after_it;
  }
  const uint64_t attacks = one.attacks() + two.attacks();
  const uint64_t fended_off = one.fended_off() + two.fended_off();
  const double share = median(compared.shares);
  size_t most = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    INFO(scene.cluster().logs());
    REQUIRE(resident_bytes(processes[i]) > 0);  // the process is still the same
    most = std::max(most, grown(before[i], resident_bytes(processes[i])));
  }
  const auto view = scene.client().job(id);
  REQUIRE(view.ok());
  CHECK(view->condition.state == JobState::running);
  CHECK(view->condition.assembly == 1);

  row(size, cat("attacks in ", size.attack.count(), " s on ", target.ports.size(), " ports"),
      std::to_string(attacks), "");
  row(size, "of them fended off at once", std::to_string(fended_off), "");
  row(size, "most that a daemon's RSS grew by", mib(most), "< 256 MiB");
  const auto windows = static_cast<double>(compared.shares.size());
  row(size, "seconds of processors a second, daemons, undisturbed",
      shortest(compared.daemons_quiet / windows), "");
  row(size, "and under attack", shortest(compared.daemons_attacked / windows), "");
  row(size, "of the job's runners, undisturbed", shortest(compared.runners_quiet / windows), "");
  row(size, "and under attack", shortest(compared.runners_attacked / windows), "");
  row(size, cat("steps/s of a job, undisturbed (median of ", compared.shares.size(), ")"),
      shortest(median(compared.quiet)), "");
  row(size, "and under attack (median; share: median of pairs)",
      cat(shortest(median(compared.attacked)), " (", static_cast<int>(100 * share), " %)"),
      ">= 90 %");
  CHECK(attacks > 10);
  CHECK(median(compared.quiet) > 0);
  CHECK(most < 256 * kMiB * kSlowness);
  CHECK(median(compared.attacked) > 0);
  if (size.full) CHECK(share > 0.9);
}

}  // namespace
}  // namespace leat

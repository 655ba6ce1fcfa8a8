// Aborts trainings at random moments, and checks the variables that each worker has then, and that
// another training resumes from them as if nothing had happened. [cluster] runs under
// ThreadSanitizer.
//
// LEAT_WHOLE_STEPS=N sets the number of trials, and LEAT_WHOLE_STEPS_SEED the first seed.
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "daemon/hosts/host_group.h"
#include "daemon/hosts/local_host.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "tests/async_device.h"
#include "tests/catch.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/skipping_job.h"
#include "tests/daemon/training_testing.h"
#include "tests/environment_number.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr int64_t kSteps = 30;

constexpr const char* kNormalized = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_bn (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, use_bias = 0> (image)
  b1 = leat.BatchNorm (c1)
  a1 = Relu (b1)
  f = Flatten (a1)
  h = leat.Dense <units = 16, activation = "relu"> (f)
  logits = leat.Dense <units = 4> (h)
}
)";

bool has_checkpoint(const std::string& folder) {
  if (!std::filesystem::exists(folder)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("step-")) return true;
  return false;
}

void pause_briefly() {
  for (int i = 0; i < 20; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// True if the numbers are equal, or both NaN.
bool are_like(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Splitmix64.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15) {}
  uint64_t below(uint64_t n) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % n;
  }

 private:
  uint64_t state_;
};

// The partitions of the training that is stepping now. Threads: any.
class Stepping {
 public:
  void add(PartitionRun* run) {
    std::lock_guard lock(mutex_);
    runs_.push_back(run);
  }
  void remove(PartitionRun* run) {
    std::lock_guard lock(mutex_);
    std::erase(runs_, run);
  }
  // Whether there are this many partitions, and one of them has done this many turns.
  bool at(size_t partitions, uint64_t turns) {
    std::lock_guard lock(mutex_);
    return runs_.size() == partitions && runs_[0]->finished().value() >= turns;
  }
  // Fails the n-th partition, if there is one.
  void fail(size_t n) {
    std::lock_guard lock(mutex_);
    if (n < runs_.size()) runs_[n]->abort(unavailable("its machine is gone"));
  }

 private:
  std::mutex mutex_;
  std::vector<PartitionRun*> runs_;  // by partition
};

// A worker's run that is registered with `stepping` while it steps.
class KnownRun final : public PartitionRun {
 public:
  KnownRun(std::unique_ptr<PartitionRun> run, Stepping& stepping)
      : run_(std::move(run)), stepping_(stepping) {}
  ~KnownRun() override { stepping_.remove(run_.get()); }
  Endpoint endpoint() const override { return run_->endpoint(); }
  void connect(std::span<const Endpoint> peers, const RunOptions& options) override {
    run_->connect(peers, options);
    if (options.name == "train") stepping_.add(run_.get());
  }
  Status connected() override { return run_->connected(); }
  Status feed(uint32_t i, const Tensor& value) override { return run_->feed(i, value); }
  void extend(uint64_t limit) override { run_->extend(limit); }
  Result<uint64_t> hold() override { return run_->hold(); }
  void fence(uint64_t limit) override { run_->fence(limit); }
  void renumber(uint64_t step) override { run_->renumber(step); }
  Timeline& finished() override { return run_->finished(); }
  const void* fetched(uint32_t i, uint64_t step) override { return run_->fetched(i, step); }
  void abort(const Status& cause) override { run_->abort(cause); }
  void stop() override { run_->stop(); }
  std::string waits_for() override { return run_->waits_for(); }
  std::string profile() override { return run_->profile(); }

 private:
  const std::unique_ptr<PartitionRun> run_;
  Stepping& stepping_;
};

class KnownWorker final : public HostHandle {
 public:
  KnownWorker(DeviceHost& worker, Stepping& stepping) : link_(worker), stepping_(stepping) {}
  std::vector<PlanDevice> devices() const override { return link_.devices(); }
  void set_data_root(const std::string& job, const std::string& root) override {
    link_.set_data_root(job, root);
  }
  Result<DatasetReport> inspect(const DatasetFiles& files, const ClassCheck& check) override {
    return link_.inspect(files, check);
  }
  Result<std::unique_ptr<PartitionRun>> prepare(std::shared_ptr<const Plan> plan,
                                                uint32_t partition, const std::string& job,
                                                uint64_t run) override {
    LEAT_ASSIGN_OR_RETURN(auto made, link_.prepare(std::move(plan), partition, job, run));
    return std::unique_ptr<PartitionRun>(new KnownRun(std::move(made), stepping_));
  }
  Result<std::map<std::string, Tensor>> read_variables(const std::string& job) override {
    return link_.read_variables(job);
  }
  Status write_variables(const std::string& job, const std::map<std::string, Tensor>& values,
                         Restore what, std::optional<uint64_t> step) override {
    return link_.write_variables(job, values, what, step);
  }
  Result<Held> held(const std::string& job) override { return link_.held(job); }
  Status take_snapshot(const std::string& job, int64_t step,
                       const std::vector<std::string>& names) override {
    return link_.take_snapshot(job, step, names);
  }
  Status read_snapshot(int64_t step, const TakeBytes& take, const std::stop_token& stop) override {
    return link_.read_snapshot(step, take, stop);
  }
  Result<CheckpointPart> write_snapshot(int64_t step, const PartPlace& place,
                                        const std::stop_token& stop) override {
    return link_.write_snapshot(step, place, stop);
  }

 private:
  LocalHost link_;
  Stepping& stepping_;
};

// Returns a group of hosts that it does not own. The hosts outlive the group.
std::unique_ptr<HostGroup> borrow(const std::vector<HostHandle*>& hosts) {
  std::vector<std::shared_ptr<HostHandle>> borrowed;
  for (HostHandle* host : hosts) borrowed.emplace_back(std::shared_ptr<void>(), host);
  return std::make_unique<HostGroup>(std::move(borrowed));
}

struct Watch final : TrainObserver {
  void started(int64_t, int64_t) override {}
  void resumed(int64_t step, TrainSource from) override {
    first = step;
    source = from;
  }
  void epoch_begun(int64_t, int64_t, int64_t, int64_t) override {}
  void stepped(int64_t, const StepResult&) override {}
  void epoch_ended(const EpochResult& result) override {
    epochs[result.epoch] = {result.loss, result.accuracy, result.val_loss, result.val_accuracy};
  }
  void checkpointed(int64_t, const std::string&) override {}
  void warned(const std::string& message) override {
    if (message.find(" was skipped: ") == std::string::npos) FAIL(message);
  }

  int64_t first = -1;
  TrainSource source = TrainSource::start;
  std::map<int64_t, std::vector<double>> epochs;
};

// An undisturbed training: its variables after each step, and its result.
struct Twin {
  std::map<int64_t, Variables> after;
  std::string hash, metrics;
  std::map<int64_t, std::vector<double>> epochs;
  std::vector<std::vector<double>> rows;
};

// Runs beside a training, until `over`, and disturbs it.
using Fault = std::function<void(Stepping&, const std::atomic<bool>& over)>;

class WholeSteps {
 public:
  // `mirrored`: one worker's variables are enough to resume from. `black` is a picture to make
  // black, so that the loss of some steps is NaN.
  WholeSteps(std::vector<std::string> set, bool mirrored, std::optional<int64_t> black = {})
      : small_(black ? kDivided : kNormalized), set_(std::move(set)), mirrored_(mirrored) {
    if (black) blacken(small_, *black);
    std::vector<std::string> each = set_;
    each.push_back("checkpoint={every_steps: 1, keep: 100}");
    DeviceHost worker(0, 1);
    Watch watch;
    const auto outcome = must(train(small_.job(each), "twin", {&worker}, nullptr, watch));
    REQUIRE((outcome.skipped_steps > 0) == black.has_value());
    twin_.hash = outcome.weights_sha256;
    twin_.metrics = text("twin");
    twin_.epochs = watch.epochs;
    for (const auto& row :
         must(read_metrics(real_files(), small_.path("twin/metrics.jsonl"), 0, true)).tail)
      twin_.rows.push_back({row.values[0], row.values[1]});  // the values that the plan fetches
    for (int64_t step = 1; step <= kSteps; ++step)
      twin_.after[step] = must(read_safetensors_of(step));
  }

  // Trains with the faults of this seed until the training ends with success.
  void disturb(uint64_t seed);
  // Trains until a worker fails, damages every checkpoint, and resumes.
  void damage_checkpoints();
  int from_memory() const { return from_memory_; }
  // Each worker has an accelerator beside its CPU in disturb().
  void use_accelerators() { accelerated_ = true; }

 private:
  std::unique_ptr<DeviceHost> make_worker(size_t task, int threads, uint64_t seed) const;
  Result<Variables> read_safetensors_of(int64_t step);
  std::string text(const std::string& folder) const {
    const Bytes bytes =
        must(read_file(real_files(), small_.path(folder + "/metrics.jsonl"), 1 << 20));
    return without_timing({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  Result<TrainOutcome> train(const Job& job, const std::string& folder,
                             const std::vector<DeviceHost*>& workers, const Fault& fault,
                             Watch& watch);
  int64_t check_held(const std::vector<DeviceHost*>& workers);

  SmallJob small_;
  const std::vector<std::string> set_;
  const bool mirrored_;
  Twin twin_;
  int from_memory_ = 0;
  bool accelerated_ = false;
};

std::unique_ptr<DeviceHost> WholeSteps::make_worker(size_t task, int threads, uint64_t seed) const {
  std::vector<std::unique_ptr<Device>> accelerators;
  if (accelerated_) {
    testing::AsyncDeviceOptions options;
    options.most_turns_given_way = 50;
    options.seed = seed;
    accelerators.push_back(std::make_unique<testing::AsyncDevice>(options));
  }
  return std::make_unique<DeviceHost>(static_cast<int>(task), threads, std::move(accelerators));
}

Result<Variables> WholeSteps::read_safetensors_of(int64_t step) {
  LEAT_ASSIGN_OR_RETURN(
      Checkpoint checkpoint,
      read_checkpoint(real_files(), small_.path("twin/checkpoints/" + checkpoint_name(step))));
  return std::move(checkpoint.variables);
}

Result<TrainOutcome> WholeSteps::train(const Job& job, const std::string& folder,
                                       const std::vector<DeviceHost*>& workers, const Fault& fault,
                                       Watch& watch) {
  Stepping stepping;
  std::vector<std::unique_ptr<KnownWorker>> links;
  std::vector<HostHandle*> borrowed;
  for (DeviceHost* worker : workers) {
    links.push_back(std::make_unique<KnownWorker>(*worker, stepping));
    borrowed.push_back(links.back().get());
  }
  TrainOptions options;
  options.folder = small_.path(folder);
  options.resume = has_checkpoint(options.folder + "/checkpoints");
  options.survivors = true;
  options.skip_checkpoints = folder != "twin";
  static const Catalogue catalogue = testing::async_catalogue();
  const auto trainer =
      must(Trainer::create(catalogue, real_files(), job, options, borrow(borrowed)));
  std::atomic<bool> over{false};
  std::thread other;
  if (fault) other = std::thread([&] { fault(stepping, over); });
  auto outcome = trainer->run(watch, [] { return false; });
  over = true;
  if (other.joinable()) other.join();
  return outcome;
}

// Checks that the variables of each worker are the twin's. Returns the newest step among them; -1
// if no worker has any.
int64_t WholeSteps::check_held(const std::vector<DeviceHost*>& workers) {
  int64_t newest = -1, oldest = kSteps;
  for (DeviceHost* worker : workers) {
    const JobTables tables = worker->all_resources("small");
    const Held held = held_by(tables);
    const Variables variables = must(read_variables(tables));
    if (variables.empty() || !held.whole) continue;  // the client of a server has none
    const auto step = static_cast<int64_t>(held.step);
    newest = std::max(newest, step);
    oldest = std::min(oldest, step);
    REQUIRE(step <= kSteps);
    for (const Held::Row& row : held.rows) {
      for (size_t i = 0; i < 2; ++i) REQUIRE(are_like(row.values.at(i), twin_.rows[row.step][i]));
    }
    if (step == 0) continue;
    for (const auto& [name, value] : variables) {
      INFO(worker->device_name() << ", step " << step << ", " << name);
      REQUIRE(value.identical(twin_.after[step].at(name)));
    }
  }
  if (newest >= 0) REQUIRE(newest - oldest <= 1);
  return newest;
}

void WholeSteps::disturb(uint64_t seed) {
  INFO("seed " << seed);
  Dice dice(seed);
  const size_t count = 1 + dice.below(4);
  const int threads = 1 + static_cast<int>(dice.below(2));
  std::vector<std::string> set = set_;
  set.push_back(cat("num_workers=", count));
  constexpr int kEvery[] = {1, 7, 20, 1000, 1000};
  const int every = kEvery[dice.below(5)];
  const bool with_checkpoints = every < 1000;
  set.push_back(cat("checkpoint={every_steps: ", every, ", keep: 2}"));
  std::vector<std::unique_ptr<DeviceHost>> workers(count);
  std::vector<DeviceHost*> borrowed(count);
  const std::string folder = cat("run-", seed);
  int64_t least = -1;
  for (int attempt = 0;; ++attempt) {
    REQUIRE(attempt < 50);
    for (size_t w = 0; w < count; ++w) {
      if (!workers[w]) workers[w] = make_worker(w, threads, seed * 100 + w);
      borrowed[w] = workers[w].get();
    }
    // A worker with an accelerator has a partition of the training on each of its devices.
    const size_t parts = accelerated_ ? 2 : 1;
    const size_t victim = dice.below(count), part = victim * parts + dice.below(parts);
    const uint64_t turns = dice.below(12), pause = dice.below(2000);
    const auto fault = [&](Stepping& stepping, const std::atomic<bool>& over) {
      while (!over && !stepping.at(count * parts, turns)) std::this_thread::yield();
      for (uint64_t spins = 0; !over && spins < pause; ++spins) pause_briefly();
      stepping.fail(part);
    };
    Watch watch;
    const bool disturbed = attempt < 4;
    const auto outcome =
        train(small_.job(set), folder, borrowed, disturbed ? Fault(fault) : nullptr, watch);
    if (watch.source == TrainSource::memory) ++from_memory_;
    if (mirrored_) REQUIRE(watch.first >= least);
    if (outcome.ok()) {
      CHECK(outcome->weights_sha256 == twin_.hash);
      CHECK(text(folder) == twin_.metrics);
      for (const auto& [epoch, sums] : watch.epochs) CHECK(sums == twin_.epochs.at(epoch));
      return;
    }
    REQUIRE(outcome.status().code() == Code::unavailable);
    const int64_t newest = check_held(borrowed);
    // One worker is lost with all its variables.
    if (count > 1) workers[victim].reset();
    least = -1;
    for (auto& worker : workers) {
      if (!worker) continue;
      const Held held = held_by(worker->all_resources("small"));
      if (held.whole && held.step > 0) least = std::max(least, static_cast<int64_t>(held.step));
    }
    REQUIRE(least <= newest);
    // The master may lose metrics, too. The variables in memory are useless if no worker has those
    // metrics.
    const std::string metrics = small_.path(folder + "/metrics.jsonl");
    if (!with_checkpoints && dice.below(3) == 0 && std::filesystem::exists(metrics)) {
      std::filesystem::resize_file(metrics, dice.below(std::filesystem::file_size(metrics) + 1));
      least = -1;
    }
  }
}

void WholeSteps::damage_checkpoints() {
  std::vector<std::string> set = set_;
  set.push_back("num_workers=2");
  set.push_back("checkpoint={every_steps: 3, keep: 2}");
  std::unique_ptr<DeviceHost> workers[] = {std::make_unique<DeviceHost>(0, 1),
                                           std::make_unique<DeviceHost>(1, 1)};
  Watch watch;
  const auto failed = train(
      small_.job(set), "damaged", {workers[0].get(), workers[1].get()},
      [](Stepping& stepping, const std::atomic<bool>& over) {
        while (!over && !stepping.at(2, 8)) std::this_thread::yield();
        stepping.fail(1);
      },
      watch);
  REQUIRE(failed.status().code() == Code::unavailable);
  const int64_t newest = check_held({workers[0].get()});
  // Copies in one checkpoint, because those of the failed run may not be on disk yet.
  const std::string folder = small_.path("damaged/checkpoints");
  const auto copy =
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy(small_.path("twin/checkpoints/" + checkpoint_name(3)),
                        cat(folder, "/", checkpoint_name(3)), copy);
  for (const std::string& path : must(list_checkpoints(real_files(), folder))) {
    for (const auto& file : std::filesystem::directory_iterator(path)) {
      if (file.path().extension() == ".safetensors") std::filesystem::resize_file(file, 100);
    }
  }
  workers[1] = std::make_unique<DeviceHost>(1, 1);
  const auto done =
      train(small_.job(set), "damaged", {workers[0].get(), workers[1].get()}, nullptr, watch);
  REQUIRE(done.status().message() == "");
  CHECK(watch.source == TrainSource::memory);
  CHECK(watch.first == newest);
  CHECK(done->weights_sha256 == twin_.hash);
  CHECK(text("damaged") == twin_.metrics);
}

// Runs the trials, each with its own seed, and returns how many attempts resumed from memory.
int disturb(WholeSteps& steps, uint64_t fallback) {
  const uint64_t trials = environment_number("LEAT_WHOLE_STEPS", fallback);
  const uint64_t first = environment_number("LEAT_WHOLE_STEPS_SEED", 1);
  for (uint64_t seed = first; seed < first + trials; ++seed) steps.disturb(seed);
  return steps.from_memory();
}

}  // namespace

TEST_CASE("survivors of a mirrored training with momentum go on from a whole step", "[cluster]") {
  WholeSteps steps({"optimizer={name: sgd, learning_rate: 0.05, momentum: 0.9}"}, true);
  CHECK(disturb(steps, 6) > 3);
}

TEST_CASE("survivors with accelerators go on from a whole step", "[cluster]") {
  WholeSteps steps({"optimizer={name: sgd, learning_rate: 0.05, momentum: 0.9}"}, true);
  steps.use_accelerators();
  // Each piece of work opens and closes the memory of such a device, which takes long here.
  const bool slow = kSlowness > 1;
  CHECK(disturb(steps, slow ? 2 : 6) > (slow ? 0 : 3));
}

TEST_CASE("survivors of a training that skips steps go on from a whole step", "[cluster]") {
  WholeSteps steps({"optimizer={name: adam, learning_rate: 0.01}", "on_nan=skip"}, true, 77);
  CHECK(disturb(steps, 4) > 1);
}

TEST_CASE("survivors go on from memory though no checkpoint can be read", "[cluster]") {
  WholeSteps steps({"optimizer={name: sgd, learning_rate: 0.05, momentum: 0.9}"}, true);
  steps.damage_checkpoints();
}

TEST_CASE("survivors of a mirrored training with Adam go on from a whole step", "[cluster]") {
  WholeSteps steps({"optimizer={name: adam, learning_rate: 0.001}"}, true);
  CHECK(disturb(steps, 6) > 3);
}

TEST_CASE("servers that hold the same step are gone on from", "[cluster]") {
  WholeSteps steps({"strategy={name: parameter_server, num_ps: 1}"}, false);
  disturb(steps, 6);
}

}  // namespace leat

// A training ends at a fence, and another one resumes there on other workers. The result must be
// that of one training.
#include <atomic>
#include <chrono>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/sealed_files.h"
#include "daemon/hosts/local_host.h"
#include "daemon/training/trainer.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

// One assembly of a job, on device hosts that outlive it.
std::unique_ptr<HostGroup> assemble(const std::vector<DeviceHost*>& workers) {
  std::vector<std::shared_ptr<HostHandle>> hosts;
  for (size_t task = 0; task < workers.size(); ++task) {
    workers[task]->become(static_cast<int>(task));
    hosts.push_back(std::make_shared<LocalHost>(*workers[task]));
  }
  return std::make_unique<HostGroup>(std::move(hosts));
}

// Also records each epoch's evaluation, and the last step of earlier assemblies.
struct Validations final : public Silent {
  void recalled(int64_t, int64_t, const StepResult& result) override { last = result.loss; }
  void epoch_ended(const EpochResult& result) override {
    REQUIRE(is_known(result.val_loss));
    validated.push_back({result.epoch, result.loss, result.val_loss});
  }
  struct Validated {
    int64_t epoch;
    double loss, validation_loss;
    bool operator==(const Validated&) const = default;
  };
  std::vector<Validated> validated;
  std::optional<double> last;
};

class Job4 {
 public:
  explicit Job4(std::vector<std::string> set) : small_(kTinyCnn) {
    set.insert(set.begin(), {"shards=4", "steps=60", "checkpoint.every_steps=1000"});
    job_ = small_.job(set);
    Validations watch;
    twin_ = small_.train(job_, "twin", watch);
    losses_ = watch.losses;
    validated_ = watch.validated;
    for (int i = 0; i < 4; ++i) workers_.push_back(std::make_unique<DeviceHost>(i, 1));
  }

  // Trains on these workers until `after` steps were consumed, and then asks it to yield; 0: trains
  // to the end. `after_warning`: asks only after a warning.
  TrainOutcome train(const std::vector<size_t>& on, size_t after, TrainYield yields,
                     bool after_warning = false) {
    std::vector<DeviceHost*> workers;
    for (const size_t i : on) workers.push_back(workers_[i].get());
    TrainOptions options;
    options.folder = small_.path("run");
    options.workers = static_cast<int>(on.size());
    options.threads = 1;
    options.survivors = epochs_++ > 0;
    options.resume = saved_;
    options.save_again = std::chrono::milliseconds(1);
    options.skip_checkpoints = false;
    Validations watch;
    asked_ = false;
    how = yields;
    options.yields = [&] {
      steps_ = watch.losses.size();
      asked_ = after > 0 && steps_ >= after && (!after_warning || !watch.warnings.empty());
      return asked_ ? how.load() : TrainYield::no;
    };
    const auto trainer = must(small_.trainer(job_, options, assemble(std::move(workers))));
    const TrainOutcome outcome = must(trainer->run(watch, [] { return false; }));
    CHECK(watch.first == static_cast<int64_t>(seen_.size()));  // no step is done twice
    CHECK(watch.last == (seen_.empty() ? std::nullopt : std::optional(seen_.back())));
    seen_.insert(seen_.end(), watch.losses.begin(), watch.losses.end());
    evaluated_.insert(evaluated_.end(), watch.validated.begin(), watch.validated.end());
    CHECK(static_cast<size_t>(outcome.steps) == seen_.size());
    CHECK(outcome.yielded == (after > 0));
    saved_ = saved_ || !outcome.checkpoint.empty();
    return outcome;
  }
  // Goes on in the memory of these workers, beside a checkpoint of the undisturbed job that is
  // encrypted with a key that is not here.
  Result<TrainOutcome> go_on_without_key(const std::vector<size_t>& on, int64_t step) {
    const std::vector<std::string> key = {std::string(32, 'k')}, none;
    SealedFiles sealed(real_files(), must(make_checkpoint_keys(key)));
    const std::string twin = cat(small_.path("twin/checkpoints/"), checkpoint_name(step));
    must(write_checkpoint(sealed, small_.path("run/checkpoints"),
                          must(read_checkpoint(real_files(), twin))));
    SealedFiles without(real_files(), must(make_checkpoint_keys(none)));
    static const Catalogue catalogue = standard_catalogue();
    std::vector<DeviceHost*> workers;
    for (const size_t i : on) workers.push_back(workers_[i].get());
    TrainOptions options;
    options.folder = small_.path("run");
    options.workers = static_cast<int>(on.size());
    options.threads = 1;
    options.survivors = options.resume = true;
    LEAT_ASSIGN_OR_RETURN(const auto trainer, Trainer::create(catalogue, without, job_, options,
                                                              assemble(std::move(workers))));
    Silent watch;
    return trainer->run(watch, [] { return false; });
  }
  std::atomic<TrainYield> how = TrainYield::no;  // the answer when it asks whether to yield
  void lose(size_t worker) { workers_[worker] = std::make_unique<DeviceHost>(0, 1); }
  void check_end(const TrainOutcome& end) const {
    CHECK(seen_ == losses_);
    CHECK(end.weights_sha256 == twin_.weights_sha256);
    REQUIRE((end.validation && twin_.validation));
    CHECK(end.validation->loss == twin_.validation->loss);
  }
  // Checks the evaluations of all epochs against those of an undisturbed job.
  void check_evaluations() const { CHECK(evaluated_ == validated_); }
  size_t evaluations() const { return evaluated_.size(); }
  bool saved() const { return saved_; }
  // Of the training that resumed: the steps that were consumed, and whether it was asked to yield.
  size_t steps() const { return steps_; }
  bool asked() const { return asked_; }

 private:
  SmallJob small_;
  Job job_;
  TrainOutcome twin_;
  std::vector<double> losses_, seen_;
  std::vector<Validations::Validated> validated_, evaluated_;
  std::vector<std::unique_ptr<DeviceHost>> workers_;
  int epochs_ = 0;
  bool saved_ = false;
  std::atomic<size_t> steps_ = 0;
  std::atomic<bool> asked_ = false;
};

TEST_CASE("a training goes on from a fence on fewer workers and on more, from memory",
          "[cluster]") {
  Job4 job({"num_workers=[1, 4]"});
  const auto kept = [&](const std::vector<size_t>& on, size_t after) {
    (void)job.train(on, after, TrainYield::kept);
  };
  kept({0, 1, 2, 3}, 5);
  kept({3, 1}, 7);
  kept({3, 1, 0}, 1);
  job.lose(1);
  kept({3}, 4);
  kept({3, 2, 1, 0}, 9);
  kept({0, 2}, 3);
  CHECK_FALSE(job.saved());
  job.check_end(job.train({2, 0, 1, 3}, 0, TrainYield::no));
}

TEST_CASE("a training with audits goes on from a fence in the memory of its workers", "[cluster]") {
  const char* share = GENERATE("audit=1", "audit=0.5");
  Job4 job({"num_workers=[1, 4]", share});
  (void)job.train({0, 1, 2, 3}, 5, TrainYield::kept);
  (void)job.train({3, 1}, 7, TrainYield::kept);
  (void)job.train({3}, 4, TrainYield::kept);
  (void)job.train({3, 2, 0}, 9, TrainYield::kept);
  CHECK_FALSE(job.saved());
  job.check_end(job.train({2, 0, 1, 3}, 0, TrainYield::no));
}

TEST_CASE("a training saved at a fence goes on from there without its old workers", "[cluster]") {
  Job4 job({"num_workers=[1, 4]"});
  (void)job.train({0, 1}, 8, TrainYield::saved);
  CHECK(job.saved());
  job.lose(0);
  job.lose(1);
  (void)job.train({0, 1, 2}, 5, TrainYield::saved);
  job.lose(0);
  job.check_end(job.train({0}, 0, TrainYield::no));
}

TEST_CASE("survivors give no step up for a checkpoint whose key is not here", "[cluster]") {
  Job4 job({"num_workers=[1, 4]", "checkpoint.every_steps=50"});
  (void)job.train({0, 1}, 5, TrainYield::kept);
  REQUIRE_FALSE(job.saved());
  const Status status = job.go_on_without_key({0, 1}, 50).status();
  CHECK(status.code() == Code::invalid_argument);
  CHECK_THAT(status.message(), Catch::Contains("is encrypted: expected its key"));
}

TEST_CASE("a training that is to be saved at a fence waits there for room", "[cluster]") {
  Job4 job({"num_workers=2"});
  std::atomic<int> tried = 0;
  {
    const ScopedFailpoint full("files/append", [&](uint64_t) {
      return job.asked() && ++tried <= 2 ? resource_exhausted("no space left") : Status();
    });
    CHECK(job.train({0, 1}, 8, TrainYield::saved).saved);
  }
  CHECK(tried > 2);
  job.check_end(job.train({2, 3}, 0, TrainYield::no));
}

TEST_CASE("a training that is asked to save after its last step has not saved", "[cluster]") {
  Job4 job({"num_workers=2"});
  const ScopedFailpoint late("files/sync", [&](uint64_t) {
    if (job.asked()) job.how = TrainYield::saved;
    return Status();
  });
  const TrainOutcome outcome = job.train({0, 1}, 8, TrainYield::kept);
  CHECK(job.how == TrainYield::saved);
  CHECK(outcome.checkpoint.empty());
  CHECK_FALSE(outcome.saved);
  job.check_end(job.train({0, 1}, 0, TrainYield::no));
}

TEST_CASE("a training does not come to a fence while there is no room to save it", "[cluster]") {
  const std::string strategy = GENERATE("mirrored", "{name: parameter_server, mode: sync}");
  Job4 job({"num_workers=2", "strategy=" + strategy, "checkpoint.every_steps=8"});
  {
    const ScopedFailpoint full("files/create", [&](uint64_t) {
      return job.steps() > 4 && job.steps() < 30 ? resource_exhausted("no space left") : Status();
    });
    const TrainOutcome outcome = job.train({0, 1}, 12, TrainYield::saved, true);
    CHECK(outcome.saved);
    CHECK(outcome.steps >= 30);
  }
  job.check_end(job.train({2, 3}, 0, TrainYield::no));
}

TEST_CASE("variables in parts on the workers are saved at a fence", "[cluster]") {
  Job4 job({"num_workers=3", "strategy={name: parameter_server, mode: sync, num_ps: 2}"});
  (void)job.train({0, 1, 2}, 8, TrainYield::kept);
  CHECK(job.saved());
  job.lose(1);
  job.check_end(job.train({0, 1, 2}, 0, TrainYield::no));
}

// The first epochs of the data end with steps 9, 17 and 25.
TEST_CASE("an evaluation that is left for a fence is done by the workers that go on", "[cluster]") {
  Job4 job({"num_workers=[1, 4]"});
  const TrainYield how = GENERATE(TrainYield::kept, TrainYield::saved);
  (void)job.train({0, 1}, 17, how);
  CHECK(job.evaluations() == 1);
  (void)job.train({0, 1, 2}, 8, how);
  CHECK(job.evaluations() == 2);  // the third was begun
  job.lose(1);
  job.check_end(job.train({0, 2}, 0, TrainYield::no));
  job.check_evaluations();
}

TEST_CASE("past its last step a training does not yield", "[cluster]") {
  Job4 job({"num_workers=2"});
  (void)job.train({0, 1}, 57, TrainYield::kept);
  job.check_end(job.train({0, 1}, 0, TrainYield::no));
}

}  // namespace
}  // namespace leat

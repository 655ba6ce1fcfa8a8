// Tests snapshots of variables, and how workers share the parts of a checkpoint.
#include "daemon/training/checkpoint_task.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "daemon/hosts/local_host.h"
#include "daemon/hosts/variable_snapshot.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using Names = std::vector<std::string>;

struct Table {
  explicit Table(int64_t elements) {
    for (const char* name : {"a", "b"})
      must(resources.variable(name, DType::f32, Shape{elements}, true));
  }
  void fill(float value) {
    for (Variable* variable : resources.variables()) {
      auto* data = static_cast<float*>(variable->data());
      std::fill(data, data + variable->shape().elements(), value);
    }
  }
  DeviceHost worker{0, 1};
  JobResources& resources = worker.resources("job");
};

// A worker that takes snapshots and then does not answer until it is released.
class MuteWorker final : public HostHandle {
 public:
  std::vector<PlanDevice> devices() const override { return {{"silent"}}; }
  void set_data_root(const std::string&, const std::string&) override {}
  Result<DatasetReport> inspect(const DatasetFiles&, const ClassCheck&) override { return kNot; }
  Result<std::unique_ptr<PartitionRun>> prepare(std::shared_ptr<const Plan>, uint32_t,
                                                const std::string&, uint64_t) override {
    return kNot;
  }
  Result<std::map<std::string, Tensor>> read_variables(const std::string&) override { return kNot; }
  Status write_variables(const std::string&, const std::map<std::string, Tensor>&, Restore,
                         std::optional<uint64_t>) override {
    return kNot;
  }
  Result<Held> held(const std::string&) override { return kNot; }
  Status take_snapshot(const std::string&, int64_t, const std::vector<std::string>&) override {
    return taken;
  }
  Status read_snapshot(int64_t, const TakeBytes&, const std::stop_token&) override { return kNot; }
  Result<CheckpointPart> write_snapshot(int64_t, const PartPlace& place,
                                        const std::stop_token& stop) override {
    folder.set_value(place.folder);
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, std::chrono::seconds(30), [] { return false; });
    return stop.stop_requested() ? cancelled("not wanted") : deadline_exceeded("nobody stopped");
  }

  const Status kNot = unimplemented("not here");
  Status taken;
  std::promise<std::string> folder;
};

CheckpointOrder order_of(HostHandle& worker, const std::string& folder) {
  CheckpointOrder order;
  order.files = &real_files();
  order.folder = folder;
  order.job = "job";
  order.shares = {{&worker, {"a"}}};
  order.manifest.step = 10;
  order.first = [] { return Status(); };
  return order;
}

bool all_are(const Tensor& tensor, float value) {
  const auto elements = tensor.span<float>();
  return std::all_of(elements.begin(), elements.end(), [&](float e) { return e == value; });
}

}  // namespace

TEST_CASE("a snapshot stays as it is while its variables change") {
  const int64_t elements = GENERATE(int64_t{1}, int64_t{5'000'003});  // one thread; several
  Table table(elements);
  VariableSnapshot snapshot;
  CHECK(snapshot.read(0).status().code() == Code::failed_precondition);
  table.fill(1);
  must(snapshot.take({&table.resources}, 10, {"a", "b"}));
  table.fill(2);
  CHECK(snapshot.read(9).status().code() == Code::failed_precondition);
  const void* memory = nullptr;
  {
    const auto values = must(snapshot.read(10));
    REQUIRE(values->size() == 2);
    for (const auto& [name, value] : *values) CHECK(all_are(value, 1));
    memory = values->at("a").raw();
    // Takes another snapshot while this one is read.
    must(snapshot.take({&table.resources}, 20, {"a"}));
    CHECK(all_are(values->at("a"), 1));
  }
  table.fill(3);
  const void* second = must(snapshot.read(20))->at("a").raw();
  CHECK(second != memory);
  must(snapshot.take({&table.resources}, 30, {"a"}));
  const auto last = must(snapshot.read(30));
  CHECK(last->size() == 1);
  CHECK(last->at("a").raw() == second);  // its memory is used again
  CHECK(all_are(last->at("a"), 3));
  // A reader keeps what it reads.
  snapshot.drop();
  CHECK(all_are(last->at("a"), 3));
  CHECK(snapshot.read(30).status().code() == Code::failed_precondition);
  must(snapshot.take({&table.resources}, 40, {"a"}));
  CHECK(all_are(must(snapshot.read(40))->at("a"), 3));
  CHECK(snapshot.take({&table.resources}, 50, {"c"}).code() == Code::failed_precondition);
}

TEST_CASE("a lent snapshot is the memory of the variables, which the next copy does not write") {
  Table table(100);
  VariableSnapshot snapshot;
  const void* const own = table.resources.find_variable("a")->data();
  table.fill(1);
  must(snapshot.lend({&table.resources}, 10, {"a", "b"}));
  CHECK(must(snapshot.read(10))->at("a").raw() == own);
  CHECK(snapshot.lend({&table.resources}, 11, {"c"}).code() == Code::failed_precondition);
  must(snapshot.take({&table.resources}, 20, {"a"}));
  CHECK(must(snapshot.read(20))->at("a").raw() != own);
  table.fill(2);
  CHECK(all_are(must(snapshot.read(20))->at("a"), 1));
  // The same through the interface of a host, whose values may be lent as well.
  LocalHost host(table.worker);
  must(host.lend_snapshot("job", 30, {"a"}));
  CHECK(must(host.lend_variables("job")).at("a").raw() == own);
  CHECK(must(host.read_variables("job")).at("a").raw() != own);
}

TEST_CASE("the shares of a checkpoint are of about equal bytes, each with its holder") {
  DeviceHost first(0, 1), second(1, 1), third(2, 1);
  LocalHost a(first), b(second), c(third);
  const std::vector<HostHandle*> workers{&a, &b, &c};
  const std::map<std::string, uint64_t> bytes{{"big", 100}, {"one", 60}, {"two", 50}, {"own", 5}};
  std::map<std::string, std::set<std::string>> holds;
  holds[a.task()] = {"big", "one", "two"};
  holds[b.task()] = {"big", "one", "two", "own"};
  const auto shares = share_out(workers, holds, bytes);
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].worker == &a);
  CHECK(shares[0].names == Names{"big"});
  CHECK(shares[1].worker == &b);
  CHECK(shares[1].names == Names{"one", "own", "two"});

  const auto none = share_out(workers, {}, {});  // a job without variables has checkpoints, too
  REQUIRE(none.size() == 1);
  CHECK(none[0].worker == &a);
  CHECK(none[0].names.empty());
}

TEST_CASE("a checkpoint is given up without waiting for its workers, and leaves nothing") {
  const TemporaryDirectory dir;
  MuteWorker worker;
  auto task = must(CheckpointTask::begin(order_of(worker, dir.path())));
  const std::string folder = worker.folder.get_future().get();
  CHECK(must(real_files().exists(folder)));
  CHECK_FALSE(task->done());
  task.reset();
  CHECK(must(real_files().list(dir.path())).empty());
}

TEST_CASE("without a snapshot there is no checkpoint") {
  const TemporaryDirectory dir;
  MuteWorker worker;
  worker.taken = unavailable("it is gone");
  CHECK(CheckpointTask::begin(order_of(worker, dir.path())).status().code() == Code::unavailable);
  CHECK(must(real_files().list(dir.path())).empty());
}

}  // namespace leat

// Snapshots of variables, and who has which share of a checkpoint.
#include "daemon/checkpoint_task.h"

#include <algorithm>

#include "daemon/local_worker.h"
#include "daemon/variable_snapshot.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"

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
  Worker worker{0, 1};
  JobResources& resources = worker.resources("job");
};

bool all_are(const Tensor& tensor, float value) {
  const auto elements = tensor.span<float>();
  return std::all_of(elements.begin(), elements.end(), [&](float e) { return e == value; });
}

}  // namespace

TEST_CASE("a snapshot stays as it is while its variables change") {
  const int64_t elements = GENERATE(int64_t{1}, int64_t{5'000'003});  // by one thread, by several
  Table table(elements);
  VariableSnapshot snapshot;
  CHECK(snapshot.read(0).status().code() == Code::failed_precondition);
  table.fill(1);
  must(snapshot.take(table.resources, 10, {"a", "b"}));
  table.fill(2);
  CHECK(snapshot.read(9).status().code() == Code::failed_precondition);
  const void* memory = nullptr;
  {
    const auto values = must(snapshot.read(10));
    REQUIRE(values->size() == 2);
    for (const auto& [name, value] : *values) CHECK(all_are(value, 1));
    memory = values->at("a").raw();
    // Another one is taken while this one is read.
    must(snapshot.take(table.resources, 20, {"a"}));
    CHECK(all_are(values->at("a"), 1));
  }
  table.fill(3);
  const void* second = must(snapshot.read(20))->at("a").raw();
  CHECK(second != memory);
  must(snapshot.take(table.resources, 30, {"a"}));
  const auto last = must(snapshot.read(30));
  CHECK(last->size() == 1);
  CHECK(last->at("a").raw() == second);  // its memory is used again
  CHECK(all_are(last->at("a"), 3));
  CHECK(snapshot.take(table.resources, 40, {"c"}).code() == Code::failed_precondition);
}

TEST_CASE("the shares of a checkpoint are of about equal bytes, each with who holds it") {
  Worker first(0, 1), second(1, 1), third(2, 1);
  LocalWorker a(first), b(second), c(third);
  const std::vector<WorkerLink*> workers{&a, &b, &c};
  const std::map<std::string, uint64_t> bytes{{"big", 100}, {"one", 60}, {"two", 50}, {"own", 5}};
  std::map<std::string, std::set<std::string>> holds;
  holds[a.device_name()] = {"big", "one", "two"};
  holds[b.device_name()] = {"big", "one", "two", "own"};
  const auto shares = share_out(workers, holds, bytes);
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].worker == &a);
  CHECK(shares[0].names == Names{"big"});
  CHECK(shares[1].worker == &b);
  CHECK(shares[1].names == Names{"one", "own", "two"});

  const auto none = share_out(workers, {}, {});  // a job without variables has a checkpoint, too
  REQUIRE(none.size() == 1);
  CHECK(none[0].worker == &a);
  CHECK(none[0].names.empty());
}

}  // namespace leat

// What a submit says of the data set that a job asks for.
#include "daemon/master/submitted_job.h"
#include "tests/catch.h"
#include "tests/daemon/master/fake_worker.h"
#include "tests/daemon/master/master_fixture.h"

namespace leat {

using namespace testing;

namespace {

NodeView node(const std::string& name, std::vector<std::string> datasets,
              WorkerState state = WorkerState::ready) {
  NodeView node;
  node.worker.info.worker = {name, 1};
  node.worker.info.datasets = std::move(datasets);
  node.worker.state = state;
  return node;
}

TEST_CASE("a data set that no worker has is refused with the names that they have") {
  const std::vector<NodeView> nodes = {node("w0", {"mnist", "cifar"}), node("w1", {"mnist"}),
                                       node("w2", {"digits"}, WorkerState::lost)};
  CHECK(check_data_root("cifar", nodes).ok());
  CHECK(check_data_root("/data/of/the/workers", nodes).ok());
  const Status status = check_data_root("mnits", nodes);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() ==
        "job.yaml: data.root: expected a data set of the workers (cifar, mnist) or a path on them, "
        "received 'mnits' (did you mean 'mnist'?)");
  CHECK_THAT(check_data_root("digits", nodes).message(), Catch::Contains("(cifar, mnist)"));
  CHECK_THAT(check_data_root("x", std::vector{node("w0", {})}).message(),
             Catch::Contains("(they have none)"));
  // Those that have it may still come.
  CHECK(check_data_root("mnits", {}).ok());
  CHECK(check_data_root("mnits", std::vector{nodes[2]}).ok());
}

TEST_CASE("a submit names a data set of the workers that are there, or comes before them",
          "[cluster]") {
  Host host;
  const Submission other = [] {
    Submission job = tiny_job("r1");
    job.overrides = {"data.root=digit"};
    return job;
  }();
  const std::string early = host.submitted(other);
  FakeWorker worker(host.master->address(), "w1");
  CHECK(host.submitted(other) == early);  // the same submit once more
  Submission late = other;
  late.request_id = "r2";
  const Status refused = host.submit(std::move(late)).status();
  CHECK(refused.code() == Code::invalid_argument);
  CHECK_THAT(refused.message(), Catch::Contains("did you mean 'digits'?"));
  CHECK(host.submit(tiny_job("r3")).ok());
}

}  // namespace
}  // namespace leat

// Tests the checks of a submit on the data set that a job names.
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

Status checked(const std::string& root, const std::vector<NodeView>& nodes) {
  return check_data_root(real_files(), root, nodes);
}

TEST_CASE("a data set that no worker has is refused with the names that they have") {
  const std::vector<NodeView> nodes = {node("w0", {"mnist", "cifar", "/data/cifar"}),
                                       node("w1", {"mnist"}),
                                       node("w2", {"digits"}, WorkerState::lost)};
  CHECK(checked("cifar", nodes).ok());
  CHECK(checked("/data/cifar", nodes).ok());
  const Status status = checked("mnits", nodes);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() ==
        "job.yaml: data.root: expected a data set of the workers (cifar, mnist), received 'mnits' "
        "(did you mean 'mnist'?); write one of these: --set data.root=NAME, or start workers with "
        "--set datasets.NAME=PATH");
  CHECK_THAT(checked("digits", nodes).message(), Catch::Contains("(cifar, mnist)"));
  // Without this check, a path that no worker has would be found by a runner, when the job fails.
  CHECK_THAT(checked("/data/mnist", nodes).message(),
             Catch::Contains("(cifar, mnist), received '/data/mnist'"));
  CHECK(checked("x", {node("w0", {})}).message() ==
        "job.yaml: data.root: expected a data set of the workers (they have none), received 'x'; "
        "start workers with --set datasets.NAME=PATH");
  // A worker that has it may still join.
  CHECK(checked("mnits", {}).ok());
  CHECK(checked("/data/mnist", {}).ok());
  CHECK(checked("mnits", {nodes[2]}).ok());
}

TEST_CASE("a path of this machine serves where a worker of it reads any") {
  const std::vector<NodeView> nodes = {node("w0", {"mnist", "/data/mnist", "/"})};
  TemporaryDirectory folder;
  CHECK(checked(folder.path(), nodes).ok());
  CHECK(checked("/data/mnist", nodes).ok());
  CHECK(checked("digits", nodes).code() == Code::invalid_argument);
  CHECK(checked(folder / "none", nodes).message() ==
        cat("job.yaml: data.root: expected a folder of this machine, there is no '",
            folder / "none", "'"));
}

Submission path_job(const std::string& request_id, const std::string& path) {
  Submission job = tiny_job(request_id);
  job.overrides = {cat("data.root=", path)};
  return job;
}

TEST_CASE("a job that waits for data is not given to a worker without it, nor fails for it",
          "[cluster]") {
  Host host;
  const std::string id = host.submitted(path_job("r1", "/data/of/w2/"));
  CHECK(host.reason(id) == "waits for 1 worker with data set '/data/of/w2', 0 there");
  FakeWorker without(host.master->address(), "w1");
  REQUIRE(eventually([&] { return host.worker_state("w1") == "READY"; }));
  CHECK(host.becomes(id, "QUEUED"));
  CHECK(host.reason(id) ==
        "waits for 1 worker with data set '/data/of/w2', 0 there; 'w1' lacks it");
  CHECK(host.submit(path_job("r2", "/data/of/nobody")).status().code() == Code::invalid_argument);
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
  CHECK(host.submitted(other) == early);  // the same submit again
  Submission late = other;
  late.request_id = "r2";
  const Status refused = host.submit(std::move(late)).status();
  CHECK(refused.code() == Code::invalid_argument);
  CHECK_THAT(refused.message(), Catch::Contains("did you mean 'digits'?"));
  CHECK(host.submit(tiny_job("r3")).ok());
}

}  // namespace
}  // namespace leat

// Induces stalls in jobs on real daemons: `leat why` has to name the culprit within 3 s.
#include <signal.h>

#include "daemon/client/session_client.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/session_testing.h"
#include "tests/daemon/why_scene.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// A process that is stopped until the end of the block.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) { ::kill(pid_, SIGSTOP); }
  ~Stopped() { ::kill(pid_, SIGCONT); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  const pid_t pid_;
};

// `promise`: on a machine that does nothing else, the time from the first question to this answer,
// within which the stall comes about: a worker is lost after 2.5 s.
void check_answer(const WhyAnswer& answer, const std::string& kind, const std::string& subject,
                  std::chrono::milliseconds promise = 3s) {
  INFO(answer.text);
  CHECK(answer.kind == kind);
  CHECK(answer.subject == subject);
  check_promised(answer.took, 3s);
  check_promised(answer.after_first, promise);
}

std::string worker_of(WhyScene& scene, const std::string& id, size_t task) {
  return must(scene.scene().client().job(id)).condition.workers.at(task);
}

TEST_CASE("why names the worker whose runner is stopped, over each transport", "[minutes]") {
  const std::string transports = GENERATE("[tcp]", "[shm, tcp]");
  ProcessClusterOptions options;
  options.workers = 3;
  options.transports = transports;
  WhyScene scene(options);
  const std::string id = scene.start(3, 20);
  const std::string worker = worker_of(scene, id, GENERATE(0, 1, 2));
  const Stopped stopped(scene.runner(id, worker));
  const WhyAnswer answer = scene.await_why(id, "runner");
  check_answer(answer, "runner", worker);
  CHECK(answer.sentence.find("stopped") != std::string::npos);
}

TEST_CASE("why names a worker that is stopped, with its runner or alone", "[minutes]") {
  WhyScene scene(3);
  const std::string id = scene.start(3, 20);
  const std::string worker = worker_of(scene, id, 1);
  const Stopped stopped(scene.cluster().worker(worker).pid());
  const bool with_runner = GENERATE(true, false);
  std::optional<Stopped> runner;
  if (with_runner) runner.emplace(scene.runner(id, worker));
  check_answer(scene.await_why(id, "worker"), "worker", worker);
}

TEST_CASE("why answers for a master that is stopped or dead") {
  WhyScene scene(1);
  const std::string id = scene.start(1, 5);
  SECTION("stopped") {
    const Stopped stopped(scene.cluster().master().pid());
    const WhyAnswer answer = scene.why(id);
    check_answer(answer, "master", "master");
    CHECK(answer.sentence.find("does not answer") != std::string::npos);
  }
  SECTION("dead") {
    scene.cluster().master().signal(SIGKILL);
    (void)scene.cluster().master().wait();
    const WhyAnswer answer = scene.why(id);
    check_answer(answer, "master", "master");
    CHECK(answer.sentence.find("does not run") != std::string::npos);
  }
}

TEST_CASE("why tells what a queued job waits for") {
  WhyScene scene(2);
  SECTION("more workers than there are") {
    const std::string id = scene.start(3, 0);
    check_answer(scene.await_why(id, "devices"), "devices", "workers");
  }
  SECTION("workers that another job has") {
    const std::string first = scene.start(2, 5);
    const std::string id = scene.start(1, 0);
    check_answer(scene.await_why(id, "queue"), "queue", first);
  }
  SECTION("workers that are drained") {
    must(scene.scene().client().drain("w1").status());
    const std::string id = scene.start(2, 0);
    check_answer(scene.await_why(id, "drained"), "drained", "w1");
  }
  SECTION("a worker that is lost") {
    scene.cluster().worker(1).signal(SIGKILL);
    const std::string id = scene.start(2, 0);
    check_answer(scene.await_why(id, "worker"), "worker", "w1", 6s);
  }
}

TEST_CASE("why tells of a job that a user has paused") {
  WhyScene scene(1);
  const std::string id = scene.start(1, 5);
  (void)must(scene.scene().client().pause(id));
  const WhyAnswer answer = scene.await_why(id, "paused");
  check_answer(answer, "paused", id);
  CHECK(answer.text.find(cat("leat resume ", id)) != std::string::npos);
}

TEST_CASE("why names the worker without which a job does not go on", "[minutes]") {
  WhyScene scene(2);
  const std::string id = scene.start(2, 5);
  SECTION("it is lost") {
    const pid_t runner = scene.runner(id, "w1");
    scene.cluster().worker("w1").signal(SIGKILL);
    ::kill(runner, SIGKILL);
    check_answer(scene.await_why(id, "worker", "w1"), "worker", "w1", 6s);
  }
  SECTION("it is drained") {
    must(scene.scene().client().drain("w1").status());
    check_answer(scene.await_why(id, "drained"), "drained", "w1", 6s);
  }
}

TEST_CASE("why names a worker that is stopped when a job comes", "[minutes]") {
  WhyScene scene(1);
  const Stopped stopped(scene.cluster().worker("w0").pid());
  const std::string id = scene.start(1, 0);
  check_answer(scene.await_why(id, "worker"), "worker", "w0", 6s);
}

TEST_CASE("why names the stopped runner of a parameter server", "[minutes]") {
  WhyScene scene(3);
  const std::string id =
      scene.start(3, 20, {"strategy={name: parameter_server, mode: sync, num_ps: 1}"});
  const std::string server = worker_of(scene, id, 0);
  const Stopped stopped(scene.runner(id, server));
  check_answer(scene.await_why(id, "runner"), "runner", server);
}

TEST_CASE("why names the job that has the workers, whatever the priorities") {
  WhyScene scene(1);
  const std::string first = scene.start(1, 5);
  const std::string waits = scene.start(1, 0);
  check_answer(scene.await_why(waits, "queue"), "queue", first);
  const std::string urgent = scene.start(1, 0, {"priority=5"});
  check_answer(scene.await_why(urgent, "queue"), "queue", first);
}

TEST_CASE("why names the link that carries nothing", "[minutes]") {
  ProcessClusterOptions options;
  options.workers = 2;
  options.transports = "[tcp]";
  // Each process takes the first frames, and then none.
  options.worker_environment = {
      "LEAT_FAILPOINTS=transport/take_frame=delay20000ms@400;transport/"
      "take_piece=delay20000ms@400"};
  WhyScene scene(options);
  const std::string id = scene.start(2, 1);
  const WhyAnswer answer = scene.await_why(id, "link");
  check_answer(answer, "link", "w0 - w1", 8s);
}

TEST_CASE("why names what a job that moves waits for most", "[minutes]") {
  SECTION("a slow link") {
    WhyScene scene(worker_failpoints(
        2, kSlowness > 1 ? "transport/take_frame=delay100ms" : "transport/take_frame=delay30ms"));
    const std::string id = scene.start(2, 3);
    check_answer(scene.await_why(id, "link"), "link", "w0 - w1", 6s);
  }
  SECTION("slow reads") {
    WhyScene scene(worker_failpoints(1, "files/read=delay3ms"));
    const std::string id = scene.start(1, 1, {"global_batch_size=240"});
    check_answer(scene.await_why(id, "input"), "input", "w0", 6s);
  }
  SECTION("a worker whose processors others use") {
    WhyScene scene({.workers = 2}, small_cnn("wide", false, kSlowness > 1 ? 128 : 512));
    const std::string id = scene.start(2, 3, {"global_batch_size=48"});
    scene.disturb(id, "w1");
    check_answer(scene.await_why(id, "compute", "w1"), "compute", "w1", 6s);
  }
  SECTION("a job that is well") {
    WhyScene scene(2);
    const std::string id = scene.start(2, 20);
    const WhyAnswer answer = scene.why(id);
    INFO(answer.text);
    CHECK(answer.sentence.find("The job goes on") != std::string::npos);
    CHECK(answer.chain.at(0).find("steps/s") != std::string::npos);
  }
}

TEST_CASE("why names data that do not come", "[minutes]") {
  WhyScene scene(worker_failpoints(1, "files/read=delay20000ms@1500"));
  const std::string id = scene.start(1, 0, {"global_batch_size=240"});
  check_answer(scene.await_why(id, "input"), "input", "w0", 20s);
}

TEST_CASE("why names a kernel that hangs", "[minutes]") {
  ProcessClusterOptions options;
  options.workers = 2;
  options.master = {"--set", "chaos=true"};
  WhyScene scene(options);
  const std::string id = scene.start(2, 0, {}, {"hang=runner:1@step=30"});
  // The job stands still until the master ends the step.
  WhyAnswer answer;
  const auto hangs = [&] {
    answer = scene.why(id);
    return answer.kind == "compute" && answer.sentence.find("goes on") == std::string::npos;
  };
  CHECK(eventually(hangs, 60s));
  check_answer(answer, "compute", worker_of(scene, id, 1));
}

TEST_CASE("why names the master's disk when it is full") {
  ProcessClusterOptions options;
  options.workers = 1;
  // Without room for the audit log no job would be taken.
  options.master_environment = {"LEAT_FAILPOINTS=jobs/unpack=resource_exhausted"};
  WhyScene scene(options);
  const std::string id = scene.start(1, 0);
  check_answer(scene.await_why(id, "disk"), "disk", "master", 6s);
}

TEST_CASE("why names the master's disk when it is slow", "[minutes]") {
  ProcessClusterOptions options;
  options.workers = 1;
  options.master = {"--set", "chaos=true"};
  WhyScene scene(options);
  // With each step the master writes a row of metrics, and the steps wait for it.
  const std::string id =
      scene.start(1, 0, {"checkpoint.every_steps=1"}, {"slow=master@step=20,for=60s"});
  const WhyAnswer answer = scene.await_why(id, "disk", "master");
  check_answer(answer, "disk", "master");
  CHECK_THAT(answer.sentence, Catch::Contains("waits for the master's disk"));
}

TEST_CASE("why names the disk of a worker that writes its part of a checkpoint", "[minutes]") {
  ProcessClusterOptions options = worker_failpoints(1, "files/sync=delay20000ms");
  options.worker = {"--set", "runner.confine=insecure_off"};  // others write nothing themselves
  WhyScene scene(options);
  const std::string id = scene.start(1, 0, {"steps=5"});
  check_answer(scene.await_why(id, "disk", "w0"), "disk", "w0", 30s);
}

TEST_CASE("why names the client of a session that asks for nothing, or is gone", "[minutes]") {
  WhyScene scene(1);
  const Catalogue catalogue = standard_catalogue();
  testing::SessionGraph g(catalogue);
  ClusterClientOptions options;
  options.address = scene.cluster().master().ready().listen;
  auto session = must(RemoteSession::open(options, {}));
  const std::string id = session->job();
  must(session->extend(0, testing::basic_graph(g)).status());
  must(session->run({}, {}, {"init"}).status());
  const WhyAnswer idle = scene.await_why(id, "client");
  check_answer(idle, "client", id);
  CHECK_THAT(idle.sentence, Catch::Contains("has asked for nothing"));
  // Its connection ends, and the session waits for another client.
  session.reset();
  const WhyAnswer gone = scene.why(id);
  INFO(gone.text);
  CHECK((gone.kind == "client" || gone.kind == "ended"));
}

TEST_CASE("why tells that a job has ended, and refuses one that does not exist") {
  WhyScene scene(1);
  const std::string id = scene.start(1, 5);
  scene.scene().cancel(id);
  (void)scene.scene().await_end(id);
  check_answer(scene.why(id), "ended", id);
  const Finished none = scene.cluster().leat("why", {"nothing"});
  CHECK(none.exit_code == 5);
}

}  // namespace
}  // namespace leat

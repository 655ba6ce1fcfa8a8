// Tests a master's sessions, with jobs whose state the test changes.
#include "daemon/master/session_hosts.h"

#include <atomic>
#include <future>

#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/master/fake_worker.h"
#include "tests/must.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

JobView job(JobState state, const std::string& reason = "") {
  JobView view;
  view.id = "session-1";
  view.condition.state = state;
  view.condition.reason = reason;
  return view;
}

struct Fixture {
  explicit Fixture(std::chrono::milliseconds lease)
      : hosts({*loop, catalogue,
               [this](Submission submission, SessionHosts::Done<JobView> done) {
                 submitted = std::move(submission);
                 done(answer);
               },
               [this](const std::string&, const std::string&) { ++cancels; },
               [](const std::string&) { return false; }, lease}) {}
  ~Fixture() { loop->stop(); }

  Result<std::shared_ptr<SessionHost>> open() {
    Result<std::shared_ptr<SessionHost>> out = internal_error("no answer");
    hosts.open({"request", 2, {}}, [&](auto host) { out = std::move(host); });
    return out;
  }

  const Catalogue catalogue = standard_catalogue();
  JobView answer = job(JobState::queued);
  Submission submitted;
  std::atomic<int> cancels{0};
  std::unique_ptr<RpcLoop> loop = must(RpcLoop::start());
  SessionHosts hosts;
};

}  // namespace

TEST_CASE("a session that no client holds is given up after its lease") {
  Fixture f(20ms);
  const auto host = must(f.open());
  SECTION("never taken up") {
    CHECK(eventually([&] { return f.cancels == 1; }));
  }
  SECTION("released by all clients that held it") {
    host->lease().hold();
    host->lease().hold();
    CHECK_FALSE(host->is_abandoned(0ms));
    host->lease().release();
    CHECK_FALSE(host->is_abandoned(0ms));
    host->lease().release();
    CHECK(host->is_abandoned(0ms));
    f.hosts.left(host);
    CHECK(eventually([&] { return f.cancels >= 1; }));
  }
}

TEST_CASE("a session that is taken up again within its lease goes on") {
  Fixture f(10s);
  const auto host = must(f.open());
  host->lease().hold();
  host->lease().release();
  f.hosts.left(host);
  CHECK(must(f.open()) == host);
  host->lease().hold();
  CHECK_FALSE(host->is_abandoned(0ms));
  CHECK(f.cancels == 0);
}

TEST_CASE("a session is a job of its own kind that does not restart") {
  Fixture f(10s);
  must(f.open());
  CHECK(is_session(f.submitted));
  CHECK(f.submitted.num_workers == 2);
  CHECK(f.submitted.max_restarts == 0);
  Submission other = f.submitted;
  other.text = "version: 1\n";
  CHECK_FALSE(is_session(other));
}

TEST_CASE("calls of a session whose job has ended fail with the reason") {
  Fixture f(10s);
  const auto host = must(f.open());
  std::promise<Status> waiting;
  host->make_callable({}, [&](const auto& made) { waiting.set_value(made.status()); });
  f.hosts.changed(job(JobState::failed, "worker 'w0' was lost"));
  const Status status = waiting.get_future().get();
  CHECK(status.code() == Code::unavailable);
  CHECK_THAT(status.message(), Catch::Contains("it is FAILED: worker 'w0' was lost"));
  f.answer = job(JobState::failed, "worker 'w0' was lost");
  CHECK(f.open().status().code() == Code::failed_precondition);
}

TEST_CASE("a session's job waits for a client that was there before the master's restart") {
  Fixture f(20ms);
  const auto never = [] { return false; };
  CHECK(f.hosts.await("session-1", never).status().code() == Code::unavailable);
  CHECK(must(f.hosts.await("session-1", [] { return true; })) == nullptr);
  const auto host = must(f.open());
  CHECK(must(f.hosts.await("session-1", never)) == host);
}

}  // namespace leat

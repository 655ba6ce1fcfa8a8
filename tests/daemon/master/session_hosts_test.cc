// Tests a master's sessions, with jobs whose state the test changes.
#include "daemon/master/session_hosts.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>

#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/master/fake_worker.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

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

void check_says(const Status& status, Code code, const std::string& text) {
  CHECK(status.code() == code);
  CHECK_THAT(status.message(), Catch::Contains(text));
}

SessionOpening lasting_opening(const std::string& client) {
  SessionOpening opening{client, 2, {}};
  opening.settings.save_every = 25;
  return opening;
}

struct Fixture {
  explicit Fixture(std::chrono::milliseconds lease)
      : hosts({*loop, catalogue,
               [this](Submission submission, SessionHosts::Done<JobView> done) {
                 submitted = std::move(submission);
                 done(answer);
               },
               [this](const std::string&, const std::string&) { ++cancels; },
               [](const std::string&) { return false; },
               [this](const std::string&) -> Result<JobView> { return answer; }, folder.path(),
               nullptr, lease}) {}
  ~Fixture() { loop->stop(); }

  Result<std::shared_ptr<SessionHost>> open() {
    Result<std::shared_ptr<SessionHost>> out = internal_error("no answer");
    hosts.open({"request", 2, {}}, [&](auto host) { out = std::move(host); });
    return out;
  }

  // Those of another life of the master, with the same folder and jobs.
  std::unique_ptr<SessionHosts> another_life() {
    return std::make_unique<SessionHosts>(
        SessionHostsParts{*loop,
                          catalogue,
                          [this](Submission, SessionHosts::Done<JobView> done) { done(answer); },
                          {},
                          [](const std::string&) { return false; },
                          [this](const std::string&) -> Result<JobView> { return answer; },
                          folder.path(),
                          nullptr,
                          10s});
  }

  const TemporaryDirectory folder;
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

TEST_CASE("a lasting session is a job that restarts, and is there without its client") {
  Fixture f(10s);
  SessionOpening opening{"request", 2, {}};
  opening.settings.name = "notebook";
  opening.settings.strategy = "mirrored";
  opening.settings.shards = 4;
  opening.settings.seed = 77;
  opening.settings.save_every = 25;
  opening.settings.keep = 90s;
  opening.settings.timeout = 1234ms;
  f.hosts.open(opening, [](const auto&) {});
  CHECK(is_session(f.submitted));
  CHECK(is_lasting_session(f.submitted));
  CHECK(f.submitted.max_restarts > 0);
  // Another process of the master has only the submission.
  Fixture later(10s);
  check_says(later.hosts.attach("session-1", "first").status(), Code::unavailable,
             "expected a lasting session that has workers");
  const auto host = must(later.hosts.await("session-1", f.submitted, [] { return false; }));
  CHECK(host->options().name == "notebook");
  CHECK(host->options().strategy == "mirrored");
  CHECK(host->options().shards == 4);
  CHECK(host->options().seed == 77);
  CHECK(host->options().save_every == 25);
  CHECK(host->options().keep == 90s);
  CHECK(host->options().timeout == 1234ms);
  CHECK(must(later.hosts.attach("session-1", "first")) == host);
  // The last client has it.
  CHECK(must(later.hosts.attach("session-1", "second")) == host);
  CHECK(host->lease().is_of("second"));
  check_says(later.hosts.attach("session-1", "first").status(), Code::failed_precondition,
             "another client has attached");
  CHECK(host->lease().is_of("second"));
  CHECK(must(later.hosts.attach("session-1", "third")) == host);
  CHECK_FALSE(host->lease().is_of("second"));
  // Its record goes with it, but for one that has FAILED.
  const std::filesystem::path record = later.folder.path() + "/session-1/session.db";
  std::filesystem::create_directories(record.parent_path());
  const JobState end = GENERATE(JobState::cancelled, JobState::failed);
  std::ofstream(record) << "a record";
  std::promise<Status> waiting;
  host->make_callable({}, [&](const auto& made) { waiting.set_value(made.status()); });
  later.hosts.changed(job(end));
  // None that would make its client ask again.
  CHECK(waiting.get_future().get().code() ==
        (end == JobState::failed ? Code::failed_precondition : Code::cancelled));
  // The thread that notes clients may make the record once more before it learns of the end.
  CHECK(eventually([&] { return std::filesystem::exists(record) == (end == JobState::failed); }));
  later.answer = job(JobState::cancelled, "it was cancelled");
  CHECK(later.hosts.attach("session-1", "third").status().code() == Code::failed_precondition);
}

TEST_CASE("a master that starts again judges the clients of a lasting session as before") {
  Submission submitted;
  {
    Fixture before(10s);
    before.hosts.open(lasting_opening("request"), [](const auto&) {});
    submitted = before.submitted;
  }
  Fixture f(10s);
  // The record of the session as it was when the master ended.
  const std::string folder = f.folder.path() + "/session-1";
  must(f.hosts.restore("session-1"));  // there is no record yet
  std::filesystem::create_directories(folder);
  must(must(SessionLog::open({folder + "/session.db"}))->add_clients({"first", "second"}, 9));
  {
    const auto later = f.another_life();
    must(later->restore("session-1"));
    const auto host = must(later->await("session-1", submitted, [] { return false; }));
    CHECK(host->lease().is_of("second"));
    check_says(later->attach("session-1", "first").status(), Code::failed_precondition,
               "another client has attached");
    CHECK(must(later->attach("session-1", "second")) == host);
    CHECK(host->lease().all_written());
    // A client that comes anew takes it over.
    CHECK(must(later->attach("session-1", "third")) == host);
    check_says(later->attach("session-1", "second").status(), Code::failed_precondition,
               "another client has attached");
  }
  // A record that cannot be read is told by its path.
  std::ofstream(folder + "/session.db", std::ios::trunc) << "no database at all, but long enough";
  check_says(f.hosts.restore("session-1"), Code::failed_precondition, "session.db");
}

TEST_CASE(
    "a client that takes a session without workers over has it after a restart of the master") {
  Submission submitted;
  {
    Fixture before(10s);
    before.hosts.open(lasting_opening("request"), [](const auto&) {});
    submitted = before.submitted;
  }
  Fixture f(10s);
  {
    const auto hosts = f.another_life();
    std::shared_ptr<SessionHost> host;
    hosts->open(lasting_opening("first"), [&](auto opened) { host = must(std::move(opened)); });
    CHECK(must(hosts->attach("session-1", "second")) == host);
    REQUIRE(eventually([&] { return host->lease().all_written(); }));
  }
  const std::string record = f.folder.path() + "/session-1/session.db";
  auto later = f.another_life();
  must(later->restore("session-1"));
  const auto host = must(later->await("session-1", submitted, [] { return false; }));
  check_says(later->attach("session-1", "first").status(), Code::failed_precondition,
             "another client has attached");
  CHECK(must(later->attach("session-1", "second")) == host);
  SECTION("the record of a session that was cancelled does not come back") {
    later->changed(job(JobState::cancelled));
    CHECK(host->take_over("third"));
    later.reset();  // its thread has done all
    CHECK_FALSE(std::filesystem::exists(record));
  }
  SECTION("nor that of one that is closed while a client comes") {
    CHECK(host->take_over("third"));
    later->changed(job(JobState::cancelled));
    later.reset();
    CHECK_FALSE(std::filesystem::exists(record));
  }
}

TEST_CASE("clients that take a session over while its record cannot be written are bounded") {
  const auto name = [](size_t number) { return "client " + std::to_string(number); };
  SessionLease lease;
  constexpr size_t kMore = 10;
  for (size_t i = 0; i < SessionLease::kMostClients + kMore; ++i) REQUIRE(lease.take_over(name(i)));
  // As many as the record keeps, the last ones.
  const auto unwritten = lease.unwritten();
  REQUIRE(unwritten.clients.size() == SessionLease::kMostClients);
  CHECK(unwritten.clients.front() == name(kMore));
  CHECK(unwritten.clients.back() == name(SessionLease::kMostClients + kMore - 1));
  // Those that come while they are written are written next.
  REQUIRE(lease.take_over("another"));
  lease.written(unwritten);
  CHECK_FALSE(lease.all_written());
  CHECK(lease.unwritten().clients == std::vector<std::string>{"another"});
  lease.written(lease.unwritten());
  CHECK(lease.all_written());
  CHECK(lease.unwritten().clients.empty());
  CHECK(lease.take_over("another"));
  CHECK(lease.all_written());
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
  CHECK(f.hosts.await("session-1", f.submitted, never).status().code() == Code::unavailable);
  CHECK(must(f.hosts.await("session-1", f.submitted, [] { return true; })) == nullptr);
  const auto host = must(f.open());
  CHECK(must(f.hosts.await("session-1", f.submitted, never)) == host);
}

}  // namespace leat

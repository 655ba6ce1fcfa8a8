// Tests the quotas of users: of jobs' workers and sessions in the pure table, and of uploaded bytes
// in their account.
#include "daemon/jobs/quotas.h"

#include "daemon/jobs/journal.h"
#include "daemon/jobs/upload_account.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/queue_scene.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

// A table with such quotas, and workers w1 to wN.
struct QuotaScene : TableDriver {
  QuotaScene(const Quotas& quotas, int workers) : TableDriver(limits_of(quotas)) {
    for (int i = 1; i <= workers; ++i) join(cat("w", i));
  }
  static JobTableLimits limits_of(const Quotas& quotas) {
    JobTableLimits limits{.other_side = {}};
    limits.quotas = quotas;
    return limits;
  }
  // The answer to a submit of that user.
  Result<JobView> ask(const std::string& user, uint32_t workers, uint32_t least = 0,
                      const std::string& text = "version: 1\n") {
    Submission submission = make_submission(cat("r", ++asked_), "a", workers, text);
    submission.min_workers = least;
    submission.terms.user = user;
    send(SubmitAsked{asked_, std::move(submission)});
    return answers.at(asked_);
  }
  void begin(const std::string& id) {
    start_all(id);
    REQUIRE(state(id) == "RUNNING");
    send(ProgressMade{id, table->find(id)->condition.assembly, {.step = 5, .steps = 1000}});
  }
  void finish(const std::string& id) {
    send(JobFinished{id, table->find(id)->condition.assembly, "abc"});
    exit_all(id);
  }
  size_t workers_of(const std::string& id) const {
    return table->find(id)->condition.workers.size();
  }

 private:
  uint64_t asked_ = 0;
};

std::string session_text() { return cat(kSessionText, "  shards: 4\n"); }

// Uploads of 10 bytes each: `content` makes one differ from another.
Bytes ten_bytes(char content) { return Bytes(10, static_cast<std::byte>(content)); }

// The account of an empty folder.
struct AccountScene {
  explicit AccountScene(const Quotas& quotas)
      : account(std::make_shared<UploadAccount>(
            quotas, blobs, [this](const std::string& user) { return named[user]; })) {}

  Result<std::unique_ptr<ArrivingBlob>> begin(const std::string& user, char content) {
    const Bytes bytes = ten_bytes(content);
    LEAT_ASSIGN_OR_RETURN(auto permit, account->reserve({sha256(bytes), bytes.size(), user}));
    LEAT_ASSIGN_OR_RETURN(auto blob, blobs.begin(sha256(bytes), bytes.size()));
    blob->keep(std::move(permit));
    return blob;
  }
  void end(std::unique_ptr<ArrivingBlob> blob, char content) {
    must(blob->append(ten_bytes(content)));
    must(blob->finish());
  }
  void upload(const std::string& user, char content) { end(must(begin(user, content)), content); }
  static std::string name(char content) { return to_hex(sha256(ten_bytes(content))); }

  TemporaryDirectory dir;
  Blobs blobs{real_files(), dir / "blobs"};
  std::map<std::string, UploadAccount::Sizes> named;
  std::shared_ptr<UploadAccount> account;
};

Status why(const Result<std::unique_ptr<ArrivingBlob>>& blob) { return blob.status(); }

}  // namespace

TEST_CASE("a job that would pass the quota of its user's workers waits, and holds up no other") {
  QuotaScene scene({.workers = 2}, 4);
  const std::string first = must(scene.ask("ann", 2)).id;
  const std::string second = must(scene.ask("ann", 1)).id;
  const std::string other = must(scene.ask("bob", 2)).id;
  CHECK(scene.state(first) == "STARTING");
  CHECK(scene.state(other) == "STARTING");
  CHECK(scene.state(second) == "QUEUED");
  CHECK(scene.reason(second) ==
        "waits for 1 worker: 'ann' may hold 2 workers together (quotas.workers), and holds 2");
  scene.begin(first);
  CHECK(scene.state(second) == "QUEUED");
  scene.finish(first);
  CHECK(scene.state(second) == "STARTING");
}

TEST_CASE("jobs that begin together do not pass the quota of workers together") {
  QuotaScene scene({.workers = 3}, 0);
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(must(scene.ask("ann", 1)).id);
  for (int i = 1; i <= 4; ++i) scene.join(cat("w", i));
  CHECK(scene.state(ids[2]) == "STARTING");
  CHECK(scene.state(ids[3]) == "QUEUED");
  // A job that lost a worker keeps its claim, also after a restart of the master.
  for (int i = 0; i < 3; ++i) scene.start_all(ids[static_cast<size_t>(i)]);
  scene.restart();
  scene.tick(std::chrono::milliseconds(1));
  CHECK(scene.state(ids[0]) == "RECOVERING");
  for (int i = 1; i <= 4; ++i) scene.join(cat("w", i), 2);
  scene.tick(std::chrono::seconds(6));
  for (int i = 0; i < 3; ++i) CHECK(scene.workers_of(ids[static_cast<size_t>(i)]) == 1);
  CHECK(scene.state(ids[3]) == "QUEUED");
}

TEST_CASE("a job that alone asks for more workers than the quota is refused at submit") {
  QuotaScene scene({.workers = 2}, 4);
  const auto refused = scene.ask("ann", 3);
  CHECK(refused.status().code() == Code::resource_exhausted);
  CHECK(refused.status().message() ==
        "job 'a' was not accepted: 'ann' may hold 2 workers together (quotas.workers), and it "
        "asks for 3");
  CHECK(scene.ask("", 3).status().message() ==
        "job 'a' was not accepted: clients without a name may hold 2 workers together "
        "(quotas.workers), and it asks for 3");
  // An elastic job runs with fewer.
  CHECK(scene.ask("ann", 4, 2).ok());
}

TEST_CASE("an elastic job takes no more workers than its user's quota leaves it") {
  QuotaScene scene({.workers = 3}, 1);
  const std::string plain = must(scene.ask("ann", 1)).id;
  scene.begin(plain);
  const std::string elastic = must(scene.ask("ann", 4, 1)).id;
  for (int i = 2; i <= 6; ++i) scene.join(cat("w", i));
  REQUIRE(scene.state(elastic) == "STARTING");
  CHECK(scene.workers_of(elastic) == 1);  // began with the first that came
  scene.start_all(elastic);
  scene.send(ProgressMade{elastic, 1, {.step = 7}});
  (void)scene.done();
  scene.tick(std::chrono::seconds(4));
  CHECK(scene.done() == cat("yield ", elastic, " 1\n"));
  // It takes in one more at a fence, and not three.
  scene.send(RunYielded{elastic, 1, 9, false});
  CHECK(scene.done() == cat("end ", elastic, " 1\nstart ", elastic, " 2 w2* w3\n"));
  scene.start_all(elastic);
  scene.send(ProgressMade{elastic, 2, {.step = 20, .first_step = 9}});
  (void)scene.done();
  scene.tick(std::chrono::seconds(4));
  CHECK(scene.done() == "");
  // When the other job has ended it takes the worker that is left.
  scene.finish(plain);
  (void)scene.done();
  scene.tick(std::chrono::seconds(4));
  CHECK(scene.done() == cat("yield ", elastic, " 2\n"));
}

TEST_CASE("a user has no more sessions at a time than the quota, and jobs do not count") {
  QuotaScene scene({.sessions = 1}, 2);
  const auto first = scene.ask("ann", 1, 0, session_text());
  REQUIRE(first.ok());
  CHECK(scene.ask("ann", 1).ok());
  const auto second = scene.ask("ann", 1, 0, session_text());
  CHECK(second.status().code() == Code::resource_exhausted);
  CHECK(second.status().message() ==
        "session 'a' was not accepted: 'ann' may have 1 session at a time (quotas.sessions), and "
        "there is 1");
  CHECK(scene.ask("bob", 1, 0, session_text()).ok());
  // The master that restarts knows which jobs are sessions.
  scene.restart();
  CHECK_FALSE(scene.ask("ann", 1, 0, session_text()).ok());
  scene.send(CancelAsked{99, first->id, ""});
  scene.exit_all(first->id);
  scene.tick(std::chrono::seconds(10));
  CHECK(scene.ask("ann", 1, 0, session_text()).ok());
}

TEST_CASE("the journal knows sessions, and the files that the jobs of a user name") {
  const TemporaryDirectory dir;
  uint64_t number = 0;
  const auto record = [&](const std::string& user, const std::string& text, char content) {
    auto submission = make_submission(cat("r", ++number), "a", 1, text);
    submission.terms.user = user;
    submission.files = {attach("f", std::string(10, content))};
    JobSubmitted submitted;
    submitted.number = number;
    submitted.id = cat("a-", number);
    submitted.content = content_of(submission);
    submitted.submission = std::make_shared<const Submission>(std::move(submission));
    return JournalRecord(submitted);
  };
  {
    const auto journal = must(Journal::open(real_files(), dir / "state"));
    must(journal->append(record("ann", session_text(), 'a')));
    must(journal->append(record("ann", "version: 1\n", 'b')));
    must(journal->append(record("ann", "version: 1\n", 'b')));
    must(journal->append(record("", "version: 1\n", 'c')));
  }
  const auto journal = must(Journal::open(real_files(), dir / "state"));
  const auto jobs = must(journal->replay());
  CHECK(jobs.at(0).session);
  CHECK_FALSE(jobs.at(1).session);
  using Sizes = std::map<std::string, uint64_t>;
  const auto name = [](char content) { return AccountScene::name(content); };
  CHECK(must(journal->files_of("ann")) == Sizes{{name('a'), 10}, {name('b'), 10}});
  CHECK(must(journal->files_of("")) == Sizes{{name('c'), 10}});
  CHECK(must(journal->files_of("bob")).empty());
}

TEST_CASE("uploads that run at the same time do not pass a quota together") {
  const bool of_all = GENERATE(true, false);
  AccountScene scene(of_all ? Quotas{.uploads = 20} : Quotas{.user_uploads = 20});
  auto first = must(scene.begin("ann", 'a'));
  auto second = must(scene.begin("ann", 'b'));
  // Neither of the two has sent a byte.
  const Status third = why(scene.begin("ann", 'c'));
  CHECK(third.code() == Code::resource_exhausted);
  CHECK(third.message() ==
        (of_all ? "upload of 10 B: expected at most 20 B of all files together (quotas.uploads), "
                  "0 B are there, and 20 B under way"
                : "upload of 10 B: 'ann' may have 20 B of files together (quotas.user_uploads), "
                  "and has 0 B, with 20 B under way"));
  CHECK(scene.begin("bob", 'c').ok() == !of_all);
  SECTION("one that is lost gives its bytes back") {
    first.reset();
    CHECK(scene.begin("ann", 'c').ok());
  }
  SECTION("one that fails gives its bytes back") {
    must(first->append(ten_bytes('x')));
    CHECK_FALSE(first->finish().ok());
    first.reset();
    CHECK(scene.begin("ann", 'c').ok());
  }
  SECTION("one that ends counts as the file that it left") {
    scene.end(std::move(first), 'a');
    CHECK_FALSE(scene.begin("ann", 'c').ok());
    // The file is there already.
    CHECK(scene.begin("ann", 'a').ok());
    second.reset();
    CHECK(scene.begin("ann", 'c').ok());
  }
}

TEST_CASE("a size that a client makes up passes no quota") {
  AccountScene scene({.uploads = 20, .user_uploads = 20});
  const auto held = must(scene.begin("ann", 'a'));
  for (const uint64_t size : {uint64_t{11}, uint64_t{21}, UINT64_MAX, UINT64_MAX - 9}) {
    const Bytes other = ten_bytes('b');
    CHECK(scene.account->reserve({sha256(other), size, "ann"}).status().code() ==
          Code::resource_exhausted);
  }
}

TEST_CASE("an upload of other bytes under the hash of a file that is there passes no quota") {
  const bool of_all = GENERATE(true, false);
  AccountScene scene(of_all ? Quotas{.uploads = 30} : Quotas{.user_uploads = 30});
  scene.upload("ann", 'a');
  const Sha256Digest known = sha256(ten_bytes('a'));
  const auto reserve = [&](uint64_t size) { return scene.account->reserve({known, size, "ann"}); };
  for (const uint64_t size : {uint64_t{21}, uint64_t{1} << 40, UINT64_MAX})
    CHECK(reserve(size).status().code() == Code::resource_exhausted);
  // The bytes of one that began count until it ends, whatever its hash.
  auto other = must(reserve(20));
  CHECK_FALSE(scene.begin("ann", 'b').ok());
  other.reset();
  auto same = must(reserve(10));
  auto last = must(scene.begin("ann", 'b'));
  CHECK_FALSE(scene.begin("ann", 'c').ok());
  same.reset();
  CHECK(scene.begin("ann", 'c').ok());
}

TEST_CASE("files count for the user while they are there or the user's jobs name them") {
  AccountScene scene({.user_uploads = 20});
  scene.upload("ann", 'a');
  scene.upload("ann", 'b');
  CHECK_FALSE(scene.begin("ann", 'c').ok());
  SECTION("files that others have uploaded, and that a user uploads at the same time") {
    scene.upload("bob", 'c');
    auto first = must(scene.begin("eve", 'a'));
    auto second = must(scene.begin("eve", 'b'));
    CHECK_FALSE(scene.begin("eve", 'c').ok());
    scene.end(std::move(first), 'a');
    CHECK_FALSE(scene.begin("eve", 'c').ok());
    second.reset();
    // The file is there from another upload, and counts.
    CHECK_FALSE(scene.begin("eve", 'c').ok());
  }
  SECTION("one that no job named in time is removed, and makes room") {
    must(scene.blobs.remove(AccountScene::name('a')));
    CHECK(scene.begin("ann", 'c').ok());
  }
  SECTION("a file that another user has uploaded counts for each that names it") {
    scene.named["bob"] = {{AccountScene::name('a'), 10}, {AccountScene::name('b'), 10}};
    CHECK_FALSE(scene.begin("bob", 'c').ok());
    CHECK(scene.begin("bob", 'a').ok());  // one of these
  }
}

TEST_CASE("a submit does not pass the quota by naming files that others have uploaded") {
  AccountScene scene({.user_uploads = 20});
  std::vector<AttachedFile> files;
  for (const char each : {'a', 'b', 'c'}) {
    scene.upload(std::string(1, each), each);
    files.push_back(attach("f", std::string(10, each)));
  }
  const Status refused = scene.account->reserve_named("eve", files).status();
  CHECK(refused.code() == Code::resource_exhausted);
  CHECK(refused.message() ==
        "submit with files of 30 B: 'eve' may have 20 B of files together (quotas.user_uploads), "
        "and has 0 B, with 0 B under way");
  files.pop_back();
  CHECK(scene.account->reserve_named("eve", files).ok());
  scene.named["eve"] = {{AccountScene::name('a'), 10}, {AccountScene::name('b'), 10}};
  CHECK(scene.account->reserve_named("eve", files).ok());  // it has these
}

TEST_CASE("submits at the same time do not pass the quota of their user's files together") {
  AccountScene scene({.user_uploads = 20});
  const auto reserve = [&](const std::string& user, const std::vector<char>& contents) {
    std::vector<AttachedFile> files;
    for (const char each : contents) files.push_back(attach("f", std::string(10, each)));
    return scene.account->reserve_named(user, files);
  };
  auto first = must(reserve("eve", {'a', 'b'}));
  CHECK(reserve("eve", {'c'}).status().code() == Code::resource_exhausted);
  CHECK(reserve("eve", {'a'}).ok());  // the same file counts once
  CHECK(reserve("bob", {'c'}).ok());
  CHECK_FALSE(scene.begin("eve", 'c').ok());
  SECTION("one that is refused gives its bytes back") {
    first.reset();
    CHECK(reserve("eve", {'c'}).ok());
  }
  SECTION("one that is taken counts as the job's files") {
    scene.named["eve"] = {{AccountScene::name('a'), 10}, {AccountScene::name('b'), 10}};
    first.reset();
    CHECK_FALSE(reserve("eve", {'c'}).ok());
    CHECK(reserve("eve", {'a', 'b'}).ok());
  }
}

}  // namespace leat

#include "daemon/jobs/journal.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "daemon/jobs/row_coding.h"
#include "daemon/jobs/sqlite.h"
#include "devices/base/failpoint.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/journal_fixture.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a journal gives back what was written") {
  const JournalFolder folder;
  std::string cluster_id;
  Submission submission = make_submission("r", "a", 2, std::string("text\0more", 9));
  submission.overrides = {"steps=100", "", "a\nb"};
  submission.files = {attach("g.onnxtxt", std::string("\0\1\2", 3)), attach("empty", "")};
  JobCondition running;
  {
    const auto journal = open_journal(folder.path());
    cluster_id = journal->cluster_id();
    CHECK(cluster_id.size() == 32);
    CHECK(journal->generation() == 1);
    CHECK(journal->replay()->empty());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", submission)));
    running = {JobState::starting, "why", 12, 1, 2, {"w1", "w,2"}, {"result"}};
    REQUIRE_OK(journal->append(JobChanged{"a-0001", running}));
    REQUIRE_OK(journal->append(submitted(2, "b-0002", make_submission("q", "b", 1))));
  }
  const auto journal = open_journal(folder.path());
  CHECK(journal->cluster_id() == cluster_id);
  CHECK(journal->generation() == 2);
  const auto jobs = journal->replay();
  REQUIRE(jobs.ok());
  REQUIRE(jobs->size() == 2);
  StoredJob expected = stored(submitted(1, "a-0001", submission));
  expected.condition = running;
  CHECK(jobs->at(0) == expected);
  CHECK(jobs->at(1).id == "b-0002");
  const auto read = journal->submission("a-0001");
  REQUIRE(read.ok());
  CHECK(*read == submission);
  const auto history = journal->history("a-0001");
  REQUIRE(history.ok());
  REQUIRE(history->size() == 2);
  CHECK(history->at(0).state == JobState::queued);
  CHECK(history->at(1) == running);
}

TEST_CASE("a journal knows the workers of all assemblies of a job") {
  const JournalFolder folder;
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  {
    const auto journal = open_journal(folder.path());
    CHECK(journal->workers_of_jobs()->empty());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 2))));
    REQUIRE_OK(journal->append(submitted(2, "b-0002", make_submission("q", "b", 1))));
    JobCondition next{JobState::starting, "", 12, 0, 1, {"w2", "w1"}, {}};
    REQUIRE_OK(journal->append(JobChanged{"a-0001", next}));
    next = {JobState::recovering, "", 13, 1, 1, {"w2", "w1"}, {}};
    REQUIRE_OK(journal->append(JobChanged{"a-0001", next}));
    next = {JobState::starting, "", 14, 0, 1, {"w1"}, {}};
    REQUIRE_OK(journal->append(JobChanged{"b-0002", next}));
    next = {JobState::recovering, "", 15, 1, 2, {"w2", "w3"}, {}};
    REQUIRE_OK(journal->append(JobChanged{"a-0001", next}));
  }
  CHECK(*open_journal(folder.path())->workers_of_jobs() ==
        Pairs{{"w1", "a-0001"}, {"w1", "b-0002"}, {"w2", "a-0001"}, {"w3", "a-0001"}});
}

TEST_CASE("a journal keeps which jobs are elastic, and which workers are drained") {
  const JournalFolder folder;
  Submission elastic = make_submission("r", "a", 4);
  elastic.min_workers = 2;
  CHECK(content_of(elastic) != content_of(make_submission("r", "a", 4)));
  elastic.dataset = "mnist";
  elastic.gpus = 1;
  {
    const auto journal = open_journal(folder.path());
    CHECK(journal->drained_workers()->empty());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", elastic)));
    REQUIRE_OK(journal->append(submitted(2, "b-0002", make_submission("q", "b", 1))));
    for (const char* name : {"w1", "w2", "w1"})
      REQUIRE_OK(journal->append(WorkerDrained{name, true}));
    REQUIRE_OK(journal->append(WorkerDrained{"w2", false}));
    REQUIRE_OK(journal->append(WorkerDrained{"w3", false}));
  }
  const auto journal = open_journal(folder.path());
  CHECK(*journal->drained_workers() == std::set<std::string>{"w1"});
  const auto jobs = journal->replay();
  REQUIRE_OK(jobs.status());
  CHECK(jobs->at(0) == stored(submitted(1, "a-0001", elastic)));
  CHECK(jobs->at(0).dataset == "mnist");
  CHECK(jobs->at(1).dataset == "");
  CHECK(jobs->at(0).min_workers == 2);
  CHECK(jobs->at(0).gpus == 1);
  CHECK(jobs->at(1).gpus == 0);
  CHECK(jobs->at(1).min_workers == 0);
  CHECK(*journal->submission("a-0001") == elastic);
  REQUIRE_OK(journal->append(JobForgotten{"a-0001"}));
  REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 4))));
  CHECK(journal->replay()->at(0).min_workers == 0);
  CHECK(journal->replay()->at(0).dataset == "");
  CHECK(journal->replay()->at(0).gpus == 0);
}

TEST_CASE("a journal keeps what a job asks of the queue, and that it was submitted as paused") {
  const JournalFolder folder;
  Submission held = make_submission("r", "a", 1);
  held.terms.priority = 7;
  held.terms.user = "ann";
  held.terms.paused = true;
  {
    const auto journal = open_journal(folder.path());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", held)));
    REQUIRE_OK(journal->append(submitted(2, "b-0002", make_submission("q", "b", 1))));
  }
  {
    const auto journal = open_journal(folder.path());
    const auto jobs = journal->replay();
    REQUIRE_OK(jobs.status());
    CHECK(jobs->at(0) == stored(submitted(1, "a-0001", held)));
    CHECK(jobs->at(0).terms == held.terms);
    CHECK(jobs->at(0).condition.state == JobState::paused);
    CHECK(jobs->at(1).terms == QueueTerms());
    CHECK(*journal->submission("a-0001") == held);
    REQUIRE(journal->history("a-0001")->size() == 2);
    CHECK(journal->history("a-0001")->at(0).state == JobState::queued);
  }
  {
    const auto database = SqliteDatabase::open(folder.path() + "/journal.sqlite", false);
    REQUIRE_OK(database.status());
    REQUIRE_OK((*database)->run("UPDATE queue_terms SET terms = 'priority=8 paused=1 user=ann'"));
  }
  CHECK_THAT(Journal::open(real_files(), folder.path()).status().message(),
             Catch::Contains("the checksum of job 1 is wrong"));
}

TEST_CASE("a journal of before there were terms of jobs is replayed, and takes them") {
  const JournalFolder folder;
  REQUIRE_OK(
      open_journal(folder.path())->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
  {
    const auto database = SqliteDatabase::open(folder.path() + "/journal.sqlite", false);
    REQUIRE_OK(database.status());
    REQUIRE_OK(
        (*database)->run("DROP TABLE queue_terms; DELETE FROM meta WHERE key = 'crc'; "
                         "PRAGMA user_version=1"));
  }
  const auto journal = open_journal(folder.path());
  CHECK(journal->replay()->at(0).terms == QueueTerms());
  Submission other = make_submission("q", "b", 1);
  other.terms.priority = 2;
  REQUIRE_OK(journal->append(submitted(2, "b-0002", other)));
  CHECK(journal->replay()->at(1).terms.priority == 2);
}

TEST_CASE("a journal of before each user had its own request ids is replayed, and takes more") {
  const JournalFolder folder;
  Submission of_ann = make_submission("r", "a", 1);
  of_ann.terms.user = "ann";
  const JobSubmitted first = submitted(1, "a-0001", of_ann);
  REQUIRE_OK(open_journal(folder.path())->append(first));
  {
    // Its row then had the request id alone.
    const auto database = SqliteDatabase::open(folder.path() + "/journal.sqlite", false);
    REQUIRE_OK(database.status());
    const std::string before =
        cat("UPDATE jobs SET request_id = 'r', crc = ", crc_of(stored(first)));
    REQUIRE_OK((*database)->run(before.c_str()));
  }
  {
    const auto journal = open_journal(folder.path());
    CHECK(journal->replay()->at(0) == stored(first));
    CHECK(*journal->submission("a-0001") == of_ann);
    Submission others = of_ann;
    others.terms.user = "bob";
    REQUIRE_OK(journal->append(submitted(2, "a-0002", others)));
    others.terms.user = "";
    REQUIRE_OK(journal->append(submitted(3, "a-0003", others)));
  }
  const auto journal = open_journal(folder.path());
  const auto jobs = journal->replay();
  REQUIRE_OK(jobs.status());
  REQUIRE(jobs->size() == 3);
  for (const StoredJob& job : *jobs) CHECK(job.request_id == "r");
  CHECK(jobs->at(1).terms.user == "bob");
  CHECK(journal->submission("a-0002")->request_id == "r");
}

TEST_CASE("a journal that has lost what makes a job elastic is refused") {
  const JournalFolder folder;
  Submission elastic = make_submission("r", "a", 4);
  elastic.min_workers = 2;
  REQUIRE_OK(open_journal(folder.path())->append(submitted(1, "a-0001", elastic)));
  {
    const auto database = SqliteDatabase::open(folder.path() + "/journal.sqlite", false);
    REQUIRE_OK(database.status());
    REQUIRE_OK((*database)->run("DELETE FROM elastic_jobs"));
  }
  CHECK_THAT(Journal::open(real_files(), folder.path()).status().message(),
             Catch::Contains("the checksum of job 1 is wrong"));
}

TEST_CASE("a drained worker whose name was changed on disk is told") {
  const JournalFolder folder;
  REQUIRE_OK(open_journal(folder.path())->append(WorkerDrained{"w1", true}));
  {
    const auto database = SqliteDatabase::open(folder.path() + "/journal.sqlite", false);
    REQUIRE_OK(database.status());
    REQUIRE_OK((*database)->run("UPDATE drained_workers SET name = 'w2'"));
  }
  CHECK_THAT(Journal::open(real_files(), folder.path()).status().message(),
             Catch::Contains(": the checksum of a row of drained_workers is wrong; "));
}

TEST_CASE("a forgotten job is gone with all about it") {
  const JournalFolder folder;
  const auto journal = open_journal(folder.path());
  REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
  REQUIRE_OK(journal->append(JobForgotten{"a-0001"}));
  CHECK(journal->replay()->empty());
  CHECK(journal->submission("a-0001").status().to_string() ==
        "failed_precondition: the journal has no job 'a-0001'");
  CHECK_FALSE(journal->append(JobForgotten{"a-0001"}).ok());
  REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
}

TEST_CASE("records go in together or not at all") {
  const JournalFolder folder;
  const auto journal = open_journal(folder.path());
  const JournalRecord records[] = {submitted(1, "a-0001", make_submission("r", "a", 1)),
                                   JobChanged{"unknown", {}}};
  CHECK(journal->append(records).to_string() ==
        "failed_precondition: the journal has no job 'unknown'");
  CHECK(journal->replay()->empty());
  REQUIRE_OK(journal->append(std::span(records, 1)));
}

TEST_CASE("an append that fails leaves the journal as it was, and a failed disk stays failed") {
  const JournalFolder folder;
  auto journal = open_journal(folder.path());
  const JournalRecord record = submitted(1, "a-0001", make_submission("r", "a", 1));
  for (const char* where : {"journal/append", "journal/commit"}) {
    const ScopedFailpoint full(where, resource_exhausted("disk full"));
    CHECK(journal->append(record).code() == Code::resource_exhausted);
    CHECK(journal->replay()->empty());
  }
  REQUIRE_OK(journal->append(record));
  {
    const ScopedFailpoint broken("journal/commit", unavailable("I/O error"));
    CHECK_FALSE(journal->append(JobForgotten{"a-0001"}).ok());
  }
  CHECK(journal->append(JobForgotten{"a-0001"}).to_string() == "unavailable: I/O error");
  CHECK(journal->replay()->size() == 1);
  journal.reset();
  journal = open_journal(folder.path());
  REQUIRE_OK(journal->append(JobForgotten{"a-0001"}));
}

TEST_CASE("a journal knows which folders of forgotten jobs may still be there") {
  const JournalFolder folder;
  auto journal = open_journal(folder.path());
  for (const uint64_t number : {1, 2}) {
    REQUIRE_OK(journal->append(
        submitted(number, cat("a-", number), make_submission(cat("r", number), "a", 1))));
  }
  CHECK(journal->forgotten_jobs()->empty());
  REQUIRE_OK(journal->append(JobForgotten{"a-1"}));
  REQUIRE_OK(journal->append(JobForgotten{"a-2"}));
  REQUIRE_OK(journal->append(JobCleared{"a-2"}));
  journal.reset();
  journal = open_journal(folder.path());
  CHECK(*journal->forgotten_jobs() == std::set<std::string>{"a-1"});
  REQUIRE_OK(journal->append(JobCleared{"a-1"}));
  CHECK(journal->forgotten_jobs()->empty());
}

TEST_CASE("a journal that is full says so and takes up again what fits") {
  const JournalFolder folder;
  const auto journal = open_journal(folder.path(), {.max_bytes = 256 << 10});
  Status status;
  uint64_t number = 0;
  while (status.ok()) {
    REQUIRE(++number < 100);
    const std::string text(20 << 10, static_cast<char>('a' + number % 26));
    status = journal->append(
        submitted(number, cat("a-", number), make_submission(cat("r", number), "a", 1, text)));
  }
  CHECK(status.code() == Code::resource_exhausted);
  CHECK(journal->replay()->size() == number - 1);
  REQUIRE_OK(journal->append(JobForgotten{"a-1"}));
  REQUIRE_OK(journal->append(submitted(number, "new", make_submission("new", "a", 1))));
}

TEST_CASE("a second master on a state directory is told which process has it") {
  const JournalFolder folder;
  auto first = open_journal(folder.path());
  const auto second = Journal::open(real_files(), folder.path());
  CHECK(second.status().code() == Code::failed_precondition);
  CHECK_THAT(second.status().message(),
             Catch::Contains(cat("'", folder.path(), "' is in use by leatd, process ", ::getpid(),
                                 " on host ")));
  first.reset();
  CHECK(open_journal(folder.path())->generation() == 2);
}

TEST_CASE("an uploaded file that a job names is kept, others are not") {
  const JournalFolder folder;
  const std::string bytes = "weights";
  AttachedFile file = attach("w.safetensors", bytes);
  file.bytes.reset();
  Submission submission = make_submission("r", "a", 1);
  submission.files = {file};
  const auto raw = std::as_bytes(std::span(bytes.data(), bytes.size()));
  {
    const auto journal = open_journal(folder.path());
    CHECK(journal->append(submitted(1, "a-0001", submission)).code() == Code::failed_precondition);
    CHECK(journal->blobs().put(sha256({}), raw).code() == Code::invalid_argument);
    REQUIRE_OK(journal->blobs().put(file.sha256, raw));
    REQUIRE_OK(journal->blobs().put(sha256({}), {}));
    REQUIRE_OK(journal->append(submitted(1, "a-0001", submission)));
  }
  const auto journal = open_journal(folder.path());
  CHECK(journal->blobs().names().value() == std::vector<std::string>{to_hex(file.sha256)});
  CHECK(*journal->submission("a-0001") == submission);
}

// Refusals ----------------------------------------------------------------------------------------

// Checks that the state directory is refused with these words, and that no file in it changes.
void check_refused(const std::string& directory, const std::string& words) {
  const auto before = snapshot(directory);
  const auto journal = Journal::open(real_files(), directory);
  REQUIRE_FALSE(journal.ok());
  CHECK(journal.status().code() == Code::failed_precondition);
  CHECK_THAT(journal.status().message(), Catch::Contains(words));
  CHECK(snapshot(directory) == before);
}

TEST_CASE("a file that is no journal is refused and left alone") {
  const JournalFolder folder;
  const std::string path = folder / "journal.sqlite";
  write(path, "");
  check_refused(folder.path(), "found a file of 0 bytes");
  write(path, std::string(5000, 'x'));
  check_refused(folder.path(), "found another file");
  fs::remove(path);
  {
    const auto foreign = SqliteDatabase::open(path, true);
    REQUIRE_OK((*foreign)->run("CREATE TABLE t (a)"));
  }
  check_refused(folder.path(), "expected a journal of leatd, found another file");
  fs::remove(path);
  write(path + "-wal", "log");
  check_refused(folder.path(), "its log is there, but not the database itself");
}

TEST_CASE("a journal of another version is refused and left alone") {
  const JournalFolder folder;
  open_journal(folder.path());
  {
    const auto database = SqliteDatabase::open(folder / "journal.sqlite", false);
    REQUIRE_OK((*database)->run("PRAGMA user_version=3"));
  }
  check_refused(folder.path(), "expected version 2 of its tables, found 3");
}

TEST_CASE("a journal without a valid cluster id and generation is refused") {
  for (const char* change : {"DELETE FROM meta", "INSERT INTO meta VALUES ('owner', 'x')",
                             "UPDATE meta SET value = 'short' WHERE key = 'cluster_id'",
                             "UPDATE meta SET value = 'x' WHERE key = 'generation'",
                             "UPDATE meta SET value = value || 'x' WHERE key = 'generation'"}) {
    INFO(change);
    const JournalFolder folder;
    open_journal(folder.path());
    {
      const auto database = SqliteDatabase::open(folder / "journal.sqlite", false);
      REQUIRE_OK((*database)->run(change));
    }
    check_refused(folder.path(), "expected its table meta to have a cluster id");
  }
}

TEST_CASE("a journal with states in an order that cannot be is refused") {
  const JournalFolder folder;
  {
    const auto journal = open_journal(folder.path());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
    JobCondition succeeded;
    succeeded.state = JobState::succeeded;
    REQUIRE_OK(journal->append(JobChanged{"a-0001", succeeded}));
  }
  check_refused(folder.path(), "job 'a-0001' went from QUEUED to SUCCEEDED, which it cannot");
}

TEST_CASE("a journal whose lock cannot be taken says why") {
  const JournalFolder folder;
  fs::create_directory(folder / "journal.lock");
  const Status status = Journal::open(real_files(), folder.path()).status();
  CHECK(status.code() == Code::failed_precondition);
  CHECK_THAT(status.message(), Catch::Contains("journal.lock': cannot open it: Is a directory"));
}

TEST_CASE("a database that cannot be opened says why") {
  const JournalFolder folder;
  const auto database = SqliteDatabase::open(folder / "missing.sqlite", false);
  CHECK_THAT(database.status().message(),
             Catch::Contains("missing.sqlite': unable to open database file"));
}

TEST_CASE("a changed row is refused, whichever it is") {
  for (const char* change :
       {"UPDATE jobs SET num_workers = 2", "UPDATE jobs SET name = 'b'",
        "UPDATE jobs SET content = x'00'", "UPDATE conditions SET reason = 'x'",
        "UPDATE conditions SET state = 9", "UPDATE conditions SET workers = x'01'",
        "DELETE FROM conditions", "DELETE FROM jobs", "DELETE FROM meta"}) {
    INFO(change);
    const JournalFolder folder;
    REQUIRE_OK(
        open_journal(folder.path())->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
    {
      const auto database = SqliteDatabase::open(folder / "journal.sqlite", false);
      REQUIRE_OK((*database)->run(change));
    }
    check_refused(folder.path(), "journal is damaged");
  }
}

TEST_CASE("a journal keeps to the bit what the runners of an ended job said last") {
  const JournalFolder folder;
  ReportNumbers numbers;
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i + 1;
  ProgressReport report = report_of(numbers);
  numbers[14] = 1;  // true
  CHECK(numbers_of(report) == numbers);
  report.from = RecoverySource::memory;
  report.loss = 0.1;
  report.val_loss = std::numeric_limits<double>::infinity();
  report.val_accuracy = kNoNumber;
  report.ended.more = {{"val_f1", 0.1}, {"val_auc", computed(kNoNumber)}};
  {
    const auto journal = open_journal(folder.path());
    JobCondition cancelled;
    cancelled.state = JobState::cancelled;
    for (const uint64_t number : {1, 2}) {
      const std::string id = cat("a-", number);
      REQUIRE_OK(journal->append(submitted(number, id, make_submission(id, "a", 1))));
      REQUIRE_OK(journal->append(JobChanged{id, cancelled, {}, report}));
    }
    REQUIRE_OK(journal->append(submitted(3, "a-3", make_submission("r", "a", 1))));
    REQUIRE_OK(journal->append(JobForgotten{"a-2"}));
  }
  {
    const auto jobs = open_journal(folder.path())->replay();
    REQUIRE(jobs.ok());
    CHECK(jobs->at(0).ended_with == report);
    CHECK_FALSE(jobs->at(1).ended_with);
    const auto database = SqliteDatabase::open(folder / "journal.sqlite", false);
    CHECK(*(*database)->ask("SELECT count(*) FROM last_reports") == "1");
    CHECK(*(*database)->ask("SELECT count(*) FROM last_metrics") == "1");
    REQUIRE_OK((*database)->run("UPDATE last_reports SET report = zeroblob(8)"));
  }
  check_refused(folder.path(), "the last report of job 1");
}

TEST_CASE("changed metrics of the last epoch of a job are refused") {
  const JournalFolder folder;
  ProgressReport report;
  report.step = 7;
  report.ended.epoch = 1;
  report.ended.more = {{"val_f1", 0.25}};
  JobCondition cancelled;
  cancelled.state = JobState::cancelled;
  {
    const auto journal = open_journal(folder.path());
    REQUIRE_OK(journal->append(submitted(1, "a-1", make_submission("r", "a", 1))));
    REQUIRE_OK(journal->append(JobChanged{"a-1", cancelled, {}, report}));
  }
  {
    const auto database = SqliteDatabase::open(folder / "journal.sqlite", false);
    REQUIRE_OK((*database)->run("UPDATE last_metrics SET metrics = zeroblob(3)"));
  }
  check_refused(folder.path(), "the last metrics of job 1");
}

TEST_CASE("a job whose text was changed is not given out") {
  const JournalFolder folder;
  Submission submission = make_submission("r", "a", 1);
  submission.files = {attach("g", "graph")};
  REQUIRE_OK(open_journal(folder.path())->append(submitted(1, "a-0001", submission)));
  {
    const auto database = SqliteDatabase::open(folder / "journal.sqlite", false);
    REQUIRE_OK((*database)->run("UPDATE files SET bytes = x'00'"));
  }
  CHECK_THAT(open_journal(folder.path())->submission("a-0001").status().message(),
             Catch::Contains("job 'a-0001' is not as it was submitted"));
}

TEST_CASE("a journal cut at any length is refused or has whole records, never begun anew") {
  const JournalFolder folder, copy;
  {
    const auto journal = open_journal(folder.path());
    for (uint64_t i = 1; i <= 20; ++i) {
      REQUIRE_OK(journal->append(submitted(i, cat("a-", i), make_submission(cat(i), "a", 1))));
    }
  }
  const std::string whole = contents(folder / "journal.sqlite");
  // The last page belongs to a table without rows, so its zeros do not matter.
  constexpr size_t kEmptyTable = 4096;
  for (size_t length = 0; length < whole.size(); length += 509) {
    INFO("length " << length);
    write(copy / "journal.sqlite", whole.substr(0, length));
    if (length + kEmptyTable <= whole.size()) {
      check_refused(copy.path(), "");
    } else if (const auto journal = Journal::open(real_files(), copy.path()); journal.ok()) {
      CHECK((*journal)->replay()->size() == 20);
    }
  }
}

TEST_CASE("a flipped bit is noticed or changes nothing that is read") {
  const JournalFolder folder;
  {
    const auto journal = open_journal(folder.path());
    for (uint64_t i = 1; i <= 4; ++i) {
      REQUIRE_OK(journal->append(submitted(i, cat("a-", i), make_submission(cat(i), "a", 1))));
    }
  }
  const std::string whole = contents(folder / "journal.sqlite");
  const auto expected = open_journal(folder.path())->replay();
  for (size_t bit = 0; bit < whole.size() * 8; bit += 997) {
    INFO("bit " << bit);
    const JournalFolder copy;
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write(copy / "journal.sqlite", flipped);
    const auto journal = Journal::open(real_files(), copy.path());
    if (!journal.ok()) continue;
    CHECK(*(*journal)->replay() == *expected);
  }
}

}  // namespace
}  // namespace leat

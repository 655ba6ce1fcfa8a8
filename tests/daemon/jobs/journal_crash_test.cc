// Tests the journal after its writer was killed, at a named place or a random moment, and with a
// log that was cut or has flipped bits.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <set>

#include "devices/base/failpoint.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/journal_fixture.h"
#include "tests/slowness.h"

namespace leat {
namespace {

// Returns record number `i` of a history in which each job is submitted, starts, fails and is later
// forgotten.
JournalRecord record_at(uint64_t i) {
  const uint64_t job = i / 3 + 1;
  const std::string id = cat("job-", job);
  if (i % 3 == 0) {
    Submission submission = make_submission(cat("r-", job), "job", 2, std::string(job % 5000, 'x'));
    submission.files = {attach("graph", std::string(100 * (job % 7), 'g'))};
    return submitted(job, id, submission);
  }
  JobCondition condition;
  condition.state = i % 3 == 1 ? JobState::starting : JobState::failed;
  condition.assembly = 1;
  condition.workers = {"w1", "w2"};
  condition.reason = i % 3 == 1 ? "" : "the master restarted";
  return JobChanged{id, condition};
}

std::vector<StoredJob> after(uint64_t records) {
  MemoryJournal journal;
  for (uint64_t i = 0; i < records; ++i) journal.append(record_at(i));
  return journal.replay();
}

// Returns how many records of the history the journal holds. They must be the first ones.
uint64_t records_in(Journal& journal) {
  const auto jobs = journal.replay();
  REQUIRE_OK(jobs.status());
  uint64_t records = 0;
  for (const StoredJob& job : *jobs) {
    records += job.condition.state == JobState::queued     ? 1
               : job.condition.state == JobState::starting ? 2
                                                           : 3;
  }
  REQUIRE(*jobs == after(records));
  if (records > 0) REQUIRE_OK(journal.submission(jobs->back().id).status());
  return records;
}

// A process that opens the journal in `directory` and appends the history from record `first` on.
// It writes one byte into the pipe for each acknowledged record.
class Writer {
 public:
  // The process writes at most `records` records, and then waits to be killed.
  Writer(const std::string& directory, uint64_t first, const std::string& failpoints = "",
         uint64_t most = UINT64_MAX) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) write(directory, first, failpoints, most, ends[1]);
    ::close(ends[1]);
    acknowledged_ = ends[0];
  }
  ~Writer() {
    if (process_ > 0) kill();
    ::close(acknowledged_);
  }
  // Waits for this number of acknowledged records, or for the writer's end.
  uint64_t wait_for(uint64_t records) {
    char byte = 0;
    while (count_ < records && ::read(acknowledged_, &byte, 1) == 1) ++count_;
    return count_;
  }
  // Kills the process and returns the number of records that it has acknowledged.
  uint64_t kill() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
    return wait_for(UINT64_MAX);
  }

 private:
  [[noreturn]] static void write(const std::string& directory, uint64_t first,
                                 const std::string& failpoints, uint64_t most, int acknowledged) {
    if (!failpoints.empty() && !set_failpoints(failpoints).ok()) ::_exit(2);
    auto journal = Journal::open(real_files(), directory);
    for (uint64_t i = first; journal.ok(); ++i) {
      while (i - first == most) ::pause();
      if (!(*journal)->append(record_at(i)).ok()) break;
      if (::write(acknowledged, "", 1) != 1) break;
    }
    ::_exit(1);
  }

  pid_t process_ = 0;
  int acknowledged_ = -1;
  uint64_t count_ = 0;
};

TEST_CASE("a writer that is killed at a random moment loses nothing acknowledged") {
  const JournalFolder folder;
  std::mt19937_64 random(7);
  uint64_t records = 0;
  for (int round = 0; round < (kSlowness > 1 ? 6 : 30); ++round) {
    INFO("round " << round);
    Writer writer(folder.path(), records);
    writer.wait_for(1 + random() % 40);
    const uint64_t acknowledged = records + writer.kill();
    const auto journal = open_journal(folder.path());
    records = records_in(*journal);
    CHECK(records >= acknowledged);
    CHECK(records <= acknowledged + 1);  // one may be in progress
  }
}

TEST_CASE("a writer that is killed at a named place has written or not, and nothing between") {
  const struct {
    const char* failpoints;
    uint64_t records;
  } cases[] = {{"journal/append=kill@5", 4},
               {"journal/commit=kill@5", 4},
               {"journal/committed=kill@5", 5},
               {"journal/append=kill@1", 0}};
  for (const auto& [failpoints, expected] : cases) {
    INFO(failpoints);
    const JournalFolder folder;
    Writer writer(folder.path(), 0, failpoints);
    writer.wait_for(UINT64_MAX);
    const auto journal = open_journal(folder.path());
    CHECK(records_in(*journal) == expected);
    REQUIRE_OK(journal->append(record_at(expected)));
  }
}

// The files of a killed writer, whose log was not yet moved into the database.
struct Remains {
  explicit Remains(uint64_t records) {
    Writer writer(folder.path(), 0, "", records);
    writer.wait_for(records);
    acknowledged = writer.kill();
    database = contents(folder / "journal.sqlite");
    log = contents(folder / "journal.sqlite-wal");
  }
  JournalFolder folder;
  uint64_t acknowledged = 0;
  std::string database;
  std::string log;
};

TEST_CASE("a log that was cut at any length gives a beginning of the history") {
  const Remains remains(12);
  REQUIRE(remains.log.size() > 12 * 4096);
  const JournalFolder copy;
  std::set<uint64_t> seen;
  for (size_t length = 0; length <= remains.log.size(); length += 499) {
    INFO("length " << length);
    write(copy / "journal.sqlite", remains.database);
    write(copy / "journal.sqlite-wal", remains.log.substr(0, length));
    seen.insert(records_in(*open_journal(copy.path())));
  }
  CHECK(seen.size() >= 12);  // most of the possible beginnings
  write(copy / "journal.sqlite", remains.database);
  write(copy / "journal.sqlite-wal", remains.log);
  CHECK(records_in(*open_journal(copy.path())) >= remains.acknowledged);
}

TEST_CASE("bytes that went bad in a log lose the last record at most, or the log is refused") {
  const Remains remains(12);
  const uint64_t whole = [&] {
    const JournalFolder copy;
    write(copy / "journal.sqlite", remains.database);
    write(copy / "journal.sqlite-wal", remains.log);
    return records_in(*open_journal(copy.path()));
  }();
  int refused = 0, opened = 0;
  const size_t stride = kSlowness > 1 ? 2003 : 499;
  for (size_t byte = 32; byte < remains.log.size(); byte += stride) {
    INFO("byte " << byte);
    const JournalFolder copy;
    std::string flipped = remains.log;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 0x5a);  // one bit alone is always found
    write(copy / "journal.sqlite", remains.database);
    write(copy / "journal.sqlite-wal", flipped);
    const auto before = snapshot(copy.path());
    const auto journal = Journal::open(real_files(), copy.path());
    if (journal.ok()) {
      ++opened;
      CHECK(records_in(**journal) + 1 >= whole);
    } else {
      ++refused;
      CHECK_THAT(journal.status().message(), Catch::Contains("a transaction in it is damaged"));
      CHECK(snapshot(copy.path()) == before);
    }
  }
  CHECK(refused > 10);
  CHECK(opened < refused);
}

TEST_CASE("a log whose header went bad is refused") {
  const Remains remains(3);
  for (size_t byte = 0; byte < 32; ++byte) {
    INFO("byte " << byte);
    const JournalFolder copy;
    std::string flipped = remains.log;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 4);
    write(copy / "journal.sqlite", remains.database);
    write(copy / "journal.sqlite-wal", flipped);
    CHECK_FALSE(Journal::open(real_files(), copy.path()).ok());
  }
}

}  // namespace
}  // namespace leat

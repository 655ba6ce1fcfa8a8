// Tests the journal on a disk whose power fails at any moment, with each state that it may leave;
// on a disk that fails at any write; and on one with flipped bits. LEAT_CRASH_STATES and
// LEAT_BIT_FLIPS set the numbers of trials, and LEAT_SEED the seed.
#include <sqlite3.h>

#include "daemon/jobs/sqlite.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/journal_fixture.h"
#include "tests/daemon/jobs/sqlite_on_disk.h"
#include "tests/environment_number.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

JobChanged changed(uint64_t job, JobState state, uint64_t assembly) {
  JobCondition condition;
  condition.state = state;
  condition.assembly = assembly;
  condition.since_ms = static_cast<int64_t>(1000 * job + assembly);
  condition.reason = state == JobState::failed ? "the master restarted" : "";
  condition.workers = {"w1", "w2"};
  return {cat("job-", job), condition};
}

LostAssembly lost_at(uint64_t job) {
  LostAssembly lost;
  lost.assembly = lost.number = 1;
  lost.cause = cat("the runner of job ", job, " was killed");
  lost.began_ms = static_cast<int64_t>(job);
  return lost;
}

ProgressReport report_at(uint64_t job) {
  ProgressReport report;
  report.step = job;
  report.steps = 2 * job;
  report.loss = 1.0 / static_cast<double>(job);
  return report;
}

// Returns the records of one append(): jobs are submitted, alone or in pairs, start, fail, and are
// forgotten. One in nine is larger than a page of SQLite.
std::vector<JournalRecord> records_at(uint64_t i) {
  const uint64_t job = i / 4 * 2 + 1;
  const auto submits = [](uint64_t number) {
    const std::string text(number % 9 == 0 ? 9000 : 50 * (number % 5), 'x');
    Submission submission = make_submission(cat("r-", number), "job", 2, text);
    submission.overrides = {cat("steps=", number)};
    submission.files = {attach("graph", std::string(100 * (number % 7), 'g'))};
    return submitted(number, cat("job-", number), submission);
  };
  switch (i % 4) {
    case 0:
      return {submits(job)};
    case 1:
      return {submits(job + 1), changed(job, JobState::starting, 1)};
    case 2: {
      JobChanged failed = changed(job, JobState::failed, 1);
      failed.lost = {lost_at(job)};
      failed.ended_with = report_at(job);
      return {failed};
    }
    default:
      if (i % 8 == 3) {
        return {changed(job + 1, JobState::starting, 1),
                JobNoted{cat("job-", job), {lost_at(2 * job)}}};
      }
      return {JobForgotten{cat("job-", job)}, changed(job + 1, JobState::cancelled, 0)};
  }
}

// All content that can be read from a journal.
struct Content {
  std::vector<StoredJob> jobs;
  std::vector<std::vector<JobCondition>> histories;
  std::vector<Submission> submissions;
  bool operator==(const Content&) const = default;
};

Result<Content> read(Journal& journal) {
  Content content;
  LEAT_ASSIGN_OR_RETURN(content.jobs, journal.replay());
  for (const StoredJob& job : content.jobs) {
    LEAT_ASSIGN_OR_RETURN(auto history, journal.history(job.id));
    content.histories.push_back(std::move(history));
    LEAT_ASSIGN_OR_RETURN(auto submission, journal.submission(job.id));
    content.submissions.push_back(std::move(submission));
  }
  return content;
}

// Returns the right content after this number of appends, computed from the records alone.
Content content_after(uint64_t appends) {
  std::map<std::string, Submission> submissions;
  std::map<std::string, std::vector<JobCondition>> histories;
  MemoryJournal memory;
  for (uint64_t i = 0; i < appends; ++i) {
    for (const JournalRecord& record : records_at(i)) {
      memory.append(record);
      if (const auto* submit = std::get_if<JobSubmitted>(&record)) {
        submissions[submit->id] = *submit->submission;
        histories[submit->id] = {stored(*submit).condition};
      } else if (const auto* change = std::get_if<JobChanged>(&record)) {
        histories[change->id].push_back(change->condition);
      }
    }
  }
  Content content;
  content.jobs = memory.replay();
  for (const StoredJob& job : content.jobs) {
    content.histories.push_back(histories[job.id]);
    content.submissions.push_back(submissions[job.id]);
  }
  return content;
}

// A master's life with its journal: it opens it and appends one record after the other. For each
// acknowledged append it notes the disk's number of operations.
class Life {
 public:
  struct Told {
    size_t operations;
    uint64_t appends;
    uint64_t generation;
    std::string cluster_id;
  };

  explicit Life(uint64_t appends) {
    for (uint64_t i = 0; i <= appends; ++i) expected_.push_back(content_after(i));
  }

  // Stops at the first error. Closes and reopens the journal after every `closes` appends.
  void live(CrashFiles& disk, uint64_t closes) {
    std::unique_ptr<Journal> journal;
    for (uint64_t i = 0; i + 1 < expected_.size(); ++i) {
      if (i % closes == 0) {
        journal.reset();
        auto opened = Journal::open(disk, folder.path());
        if (!opened.ok()) break;
        journal = std::move(*opened);
        told.push_back({disk.operations(), i, journal->generation(), journal->cluster_id()});
      }
      if (!journal->append(records_at(i)).ok()) break;
      told.push_back({disk.operations(), i + 1, journal->generation(), journal->cluster_id()});
    }
  }

  // Checks the disk as a crash after `operations` operations left it. Returns the first error, or
  // "".
  std::string what_is_wrong(CrashFiles& disk, size_t operations) const {
    const Told* last = nullptr;
    for (const Told& each : told)
      if (each.operations <= operations) last = &each;
    auto journal = Journal::open(disk, folder.path());
    if (!journal.ok()) return cat("refused: ", journal.status().message());
    return what_is_wrong(**journal, last);
  }

  const JournalFolder folder;  // its lock is a real file
  std::vector<Told> told;

 private:
  std::string what_is_wrong(Journal& journal, const Told* last) const {
    if (last != nullptr && journal.cluster_id() != last->cluster_id) return "another cluster id";
    if (last != nullptr && journal.generation() <= last->generation)
      return cat("generation ", journal.generation(), " after ", last->generation);
    const auto content = read(journal);
    if (!content.ok()) return content.status().message();
    const uint64_t least = last == nullptr ? 0 : last->appends;
    for (uint64_t i = least; i <= std::min(least + 1, expected_.size() - 1); ++i) {
      if (*content != expected_[i]) continue;
      if (i + 1 == expected_.size()) return "";
      const Status more = journal.append(records_at(i));  // it still works
      if (!more.ok()) return more.message();
      const auto after = journal.replay();
      if (!after.ok()) return after.status().message();
      return *after == expected_[i + 1].jobs ? "" : "the next append does something else";
    }
    return cat("not what ", least, " appends leave, nor one more");
  }

  std::vector<Content> expected_;
};

// Crashes after every operation, in `states` states in all. Returns the first error.
std::string crash_everywhere(const Life& life, const CrashFiles& disk, SqliteOnDisk& sqlite,
                             uint64_t states, uint64_t seed, uint64_t& refused) {
  for (uint64_t i = 0; i < states; ++i) {
    const size_t operations = i % (disk.operations() + 1);
    CrashFiles left = disk.after_crash(operations, seed + i);
    sqlite.mount(left, seed + i);
    const std::string wrong = life.what_is_wrong(left, operations);
    if (wrong.empty()) continue;
    // A half-written sector cannot be told from flipped bits, so the journal may refuse it.
    if (CrashFiles::tears_a_sector(seed + i) && wrong.starts_with("refused: ")) {
      ++refused;
      continue;
    }
    return cat("after ", operations, " of ", disk.operations(), " operations, seed ", seed + i,
               ": ", wrong);
  }
  return "";
}

// Returns the error of a journal with a flipped bit; "" if the journal refuses it, or lost nothing.
std::string what_changed(CrashFiles& disk, const Life& life, const Content& expected,
                         uint64_t& refused) {
  auto journal = Journal::open(disk, life.folder.path());
  if (!journal.ok()) {
    ++refused;
    const bool named = journal.status().message().find(life.folder.path()) != std::string::npos;
    if (journal.status().code() == Code::failed_precondition && named) return "";
    return cat("refused without its name: ", journal.status().to_string());
  }
  if ((*journal)->cluster_id() != life.told.back().cluster_id) return "another cluster id";
  if ((*journal)->generation() != life.told.back().generation + 1) return "another generation";
  const auto content = read(**journal);
  if (!content.ok()) return ++refused, "";
  return *content == expected ? "" : "something else is read";
}

// Flips bits of the journal on `disk`, one at a time. Returns all errors, one in each line.
std::string flip_bits(const CrashFiles& disk, SqliteOnDisk& sqlite, const Life& life,
                      const Content& expected, uint64_t flips) {
  std::vector<std::pair<std::string, uint64_t>> files;
  for (const auto& [name, size] : disk.sizes()) files.emplace_back(name, size);
  uint64_t random = environment_number("LEAT_SEED", 1), refused = 0, findings = 0;
  std::string wrong;
  for (uint64_t i = 0; i < flips; ++i) {
    random = CrashFiles::mix(random);
    const auto& [name, size] = files[(random >> 60) % files.size()];
    const uint64_t byte = (random >> 8) % size;
    const int bit = static_cast<int>(random % 8);
    CrashFiles flipped = disk.after_crash(0, 0);
    flipped.flip(name, byte, bit);
    sqlite.mount(flipped, i + 1);
    const std::string what = what_changed(flipped, life, expected, refused);
    if (!what.empty() && ++findings <= 5)
      wrong += cat("bit ", bit, " of byte ", byte, " of ", name, ": ", what, "\n");
  }
  // Most bits are in pages that are empty, or of tables without rows: nothing reads them.
  if (refused * 12 < flips)
    wrong += cat("refused ", refused, " of ", flips, ", expected a twelfth");
  return wrong;
}

TEST_CASE("a crash of the journal at any moment, whatever it leaves, loses nothing acknowledged") {
  CrashFiles disk;
  SqliteOnDisk sqlite(disk);
  Life life(24);
  life.live(disk, 9);
  REQUIRE(life.told.size() == 24 + 3);
  const uint64_t seed = environment_number("LEAT_SEED", 1),
                 states = environment_number("LEAT_CRASH_STATES", 5'000 / kSlowness);
  uint64_t refused = 0;
  CHECK(crash_everywhere(life, disk, sqlite, states, seed, refused) == "");
  CHECK(refused * 100 < states);
}

TEST_CASE("a bit that went bad anywhere in a journal is found, or changes nothing that is read") {
  CrashFiles disk;
  SqliteOnDisk sqlite(disk);
  Life life(16);
  life.live(disk, 9);
  const uint64_t flips = environment_number("LEAT_BIT_FLIPS", 5'000 / kSlowness);
  const Content expected = content_after(16);
  for (const bool has_log : {true, false}) {  // the second journal was closed
    INFO("has a log: " << has_log);
    const size_t operations = has_log ? life.told.back().operations : disk.operations();
    uint64_t luck = 0;  // the removal of the log is not synced
    while (disk.after_crash(operations, luck).sizes().size() != (has_log ? 2 : 1)) ++luck;
    CHECK(flip_bits(disk.after_crash(operations, luck), sqlite, life, expected, flips / 2) == "");
  }
}

TEST_CASE("a journal whose disk fails at any write keeps what it has acknowledged") {
  for (const int code : {SQLITE_IOERR_WRITE, SQLITE_FULL}) {
    bool failed = true;
    for (uint64_t nth = 1; failed; nth += kSlowness) {
      INFO("SQLite's code " << code << " at change " << nth);
      CrashFiles disk;
      SqliteOnDisk sqlite(disk);
      Life life(12);
      uint64_t changes = 0;
      sqlite.fault = [&] { return ++changes == nth ? code : SQLITE_OK; };
      life.live(disk, 5);
      failed = changes >= nth;
      sqlite.fault = nullptr;
      CrashFiles left = disk.after_crash(disk.operations(), nth);
      sqlite.mount(left, nth);
      CHECK(life.what_is_wrong(left, disk.operations()) == "");
      REQUIRE(nth < 10'000);
    }
  }
}

TEST_CASE("a journal that syncs less is found out") {
  const struct {
    const char* what;
    SqliteOnDisk::Omits omits;
  } mutations[] = {{"PRAGMA synchronous=NORMAL", {.synchronous = "1"}},
                   {"PRAGMA synchronous=OFF", {.synchronous = "0"}},
                   {"no sync of the log", {.log_syncs = true}},
                   {"no sync of the database", {.database_syncs = true}},
                   {"no sync of the directory of a log", {.directory_syncs = true}}};
  for (const auto& [what, omits] : mutations) {
    INFO(what);
    CrashFiles disk;
    SqliteOnDisk sqlite(disk);
    sqlite.omits = omits;
    Life life(12);
    life.live(disk, 5);
    REQUIRE(life.told.size() == 12 + 3);
    uint64_t refused = 0;
    CHECK(crash_everywhere(life, disk, sqlite, 20'000, 1, refused) != "");
  }
}

}  // namespace
}  // namespace leat

// Tests a master whose journal is missing or cannot be written.
#include <sqlite3.h>

#include <filesystem>
#include <utility>

#include "daemon/leatd/command_line.h"
#include "daemon/master/master.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/journal_fixture.h"
#include "tests/daemon/jobs/sqlite_on_disk.h"
#include "tests/daemon/leatd_process.h"
#include "tests/must.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> master_on(const std::string& folder) {
  return {"master", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir", folder};
}

// Makes a job's folder and a blob, as a master leaves them.
void leave_job(const std::string& folder) {
  fs::create_directories(folder + "/jobs/net-1a2b/checkpoints");
  fs::create_directories(folder + "/blobs");
  write(folder + "/jobs/net-1a2b/metrics.jsonl", "{}\n");
  write(folder + "/blobs/" + std::string(64, 'a'), "graph");
}

TEST_CASE("a journal that is gone beside jobs is asked for, and begun anew only if told to") {
  const JournalFolder folder;
  leave_job(folder.path());
  const auto refused = Journal::open(real_files(), folder.path());
  CHECK(refused.status().code() == Code::failed_precondition);
  CHECK_THAT(refused.status().message(),
             Catch::Contains("journal.sqlite' is gone") && Catch::Contains("1 job, such as") &&
                 Catch::Contains("'net-1a2b'") && Catch::Contains("--new-journal"));
  CHECK_FALSE(fs::exists(folder / "journal.sqlite"));
  for (int start = 0; start < 2; ++start) {  // only the first start needs the option
    const auto journal = open_journal(folder.path(), {.new_journal = start == 0});
    CHECK(must(journal->replay()).empty());
    CHECK(contents(folder / "jobs/net-1a2b/metrics.jsonl") == "{}\n");
    CHECK(contents(folder / ("blobs/" + std::string(64, 'a'))) == "graph");
  }
}

TEST_CASE("an empty folder of jobs asks for no journal") {
  const JournalFolder folder;
  fs::create_directories(folder / "jobs");
  CHECK(Journal::open(real_files(), folder.path()).ok());
}

TEST_CASE("a master without its journal ends with the flag that it wants, and starts with it") {
  TemporaryDirectory folder;
  leave_job(folder.path());
  LeatdProcess refused(master_on(folder.path()));
  CHECK(refused.wait() == kLeatdFailed);
  CHECK_THAT(refused.log(), Catch::Contains("--new-journal"));
  auto arguments = master_on(folder.path());
  arguments.emplace_back("--new-journal");
  LeatdProcess started(arguments);
  CHECK_FALSE(started.ready().listen.empty());
  CHECK(started.stop() == 0);
  CHECK(fs::exists(folder / "jobs/net-1a2b/metrics.jsonl"));
}

TEST_CASE("a new job is called like none that left a folder") {
  JobTableLimits limits;
  limits.taken_ids = {"net-0001"};
  uint64_t random = 0;
  JobTable table(limits, [&] { return ++random; });
  auto submit = make_submission("r1", "net", 1, "");
  const JobActions actions = table.handle(SubmitAsked{1, submit}, Moment{});
  REQUIRE(actions.size() == 1);
  const auto& written = std::get<JobSubmitted>(std::get<WriteJournal>(actions[0]).record);
  CHECK(written.id != "net-0001");
}

// Opens a journal with one job on a disk that takes only `changes` changes, and checks that it
// works once there is room. False if not even its log could be made.
bool reads_while_full(int changes) {
  CrashFiles disk;
  SqliteOnDisk sqlite(disk);
  const JournalFolder folder;  // its lock is a real file
  const JobSubmitted job = submitted(1, "net-1a2b", make_submission("r1", "net", 1));
  {
    const auto journal = must(Journal::open(disk, folder.path()));
    REQUIRE_OK(journal->append(job));
  }
  bool full = true;
  sqlite.fault = [&] { return full && changes-- <= 0 ? SQLITE_FULL : SQLITE_OK; };
  {
    const auto opened = Journal::open(disk, folder.path());
    if (!opened.ok()) {
      CHECK(opened.status().code() == Code::resource_exhausted);
      return false;
    }
    Journal& journal = **opened;
    CHECK(journal.generation() == 2);
    CHECK(must(journal.replay()).size() == 1);
    CHECK(must(journal.submission("net-1a2b")) == *job.submission);
    const JobSubmitted other = submitted(2, "net-1a2c", make_submission("r2", "net", 1));
    if (!journal.opened().ok()) {
      CHECK(journal.opened().code() == Code::resource_exhausted);
      CHECK(journal.append(other).code() == Code::resource_exhausted);
    }
    full = false;
    CHECK(journal.append(other).to_string() == "ok");
    CHECK(must(journal.replay()).size() == 2);
    full = !journal.opened().ok();  // tells the caller whether it was full
  }
  const bool was_full = std::exchange(full, false);
  const auto journal = must(Journal::open(disk, folder.path()));
  CHECK(journal->opened().ok());
  CHECK(journal->generation() == 3);
  CHECK(must(journal->replay()).size() == 2);
  return was_full;
}

TEST_CASE("a journal on a full disk is opened and read, and goes on when there is room") {
  int read = 0;
  for (int changes = 0; changes < 12; ++changes) {
    INFO("full after " << changes << " changes");
    read += reads_while_full(changes);
  }
  CHECK(read > 0);
}

}  // namespace
}  // namespace leat

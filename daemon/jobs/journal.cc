// Opens the journal, and runs its transactions. RowWriter and RowReader have the rows.
#include "daemon/jobs/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>
#include <sstream>

#include "daemon/jobs/journal_log.h"
#include "daemon/jobs/row_reader.h"
#include "daemon/jobs/row_writer.h"
#include "daemon/jobs/sqlite.h"
#include "devices/base/crc32c.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// SQLite keeps this number in the file's header, as it does the version of the tables.
constexpr int kApplicationId = 0x6c656174;  // "leat"
constexpr int64_t kPageBytes = 4096;
constexpr uint64_t kMostKeptBytes = uint64_t{64} << 20;

// `epoch` in these tables is the number of an assembly. Names of columns stay as they are: the
// checksum of the schema includes them.
constexpr char kSchema[] = R"sql(
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL UNIQUE,
    content BLOB NOT NULL, name TEXT NOT NULL, num_workers INTEGER NOT NULL,
    max_restarts INTEGER NOT NULL, submitted_ms INTEGER NOT NULL, crc INTEGER NOT NULL,
    text TEXT NOT NULL, overrides BLOB NOT NULL);
  CREATE TABLE files (
    job INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL,
    sha256 BLOB NOT NULL, bytes BLOB, PRIMARY KEY (job, position));
  CREATE TABLE conditions (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, state INTEGER NOT NULL,
    reason TEXT NOT NULL, since_ms INTEGER NOT NULL, restarts INTEGER NOT NULL,
    epoch INTEGER NOT NULL, workers BLOB NOT NULL, result TEXT NOT NULL, crc INTEGER NOT NULL);
  CREATE INDEX conditions_of_job ON conditions (job, sequence);
)sql";

// Of journals that were made before there were such tables, too.
constexpr char kLaterTables[] = R"sql(
  CREATE TABLE IF NOT EXISTS lost_epochs (
    job INTEGER NOT NULL, epoch INTEGER NOT NULL, number INTEGER NOT NULL, cause TEXT NOT NULL,
    culprit TEXT NOT NULL, fault TEXT NOT NULL, began_ms INTEGER NOT NULL,
    failed_ms INTEGER NOT NULL, detected_after INTEGER NOT NULL, recovered_after INTEGER NOT NULL,
    stopped_at INTEGER NOT NULL, went_on_from INTEGER NOT NULL, source INTEGER NOT NULL,
    crc INTEGER NOT NULL, PRIMARY KEY (job, epoch)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS chaos (
    job INTEGER NOT NULL, position INTEGER NOT NULL, spec TEXT NOT NULL,
    PRIMARY KEY (job, position)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS fired_faults (
    job INTEGER NOT NULL, position INTEGER NOT NULL, fault TEXT NOT NULL, epoch INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (job, position)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS elastic_jobs (
    job INTEGER PRIMARY KEY, min_workers INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS datasets (
    job INTEGER PRIMARY KEY, name TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS gpu_jobs (
    job INTEGER PRIMARY KEY, gpus INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS queue_terms (
    job INTEGER PRIMARY KEY, terms TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS last_reports (
    job INTEGER PRIMARY KEY, report BLOB NOT NULL, crc INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS last_metrics (
    job INTEGER PRIMARY KEY, metrics BLOB NOT NULL, crc INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS drained_workers (
    name TEXT PRIMARY KEY, crc INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS forgotten_jobs (
    name TEXT PRIMARY KEY, crc INTEGER NOT NULL) WITHOUT ROWID;
)sql";

constexpr char kHint[] =
    "; it is left as it is: restore it from a copy, or give another state directory";

Status refused(const std::string& path, std::string_view why) {
  return failed_precondition(cat("journal '", path, "': ", why, kHint));
}

constexpr std::string_view kReadOnly = "is on a file system that is read-only";

// False as well if the question fails: the next write then tells what is wrong.
bool is_read_only(const std::string& directory) {
  struct statvfs info {};
  return ::statvfs(directory.c_str(), &info) == 0 && (info.f_flag & ST_RDONLY) != 0;
}

// When its name or its bytes changed last; now if that cannot be known.
std::chrono::system_clock::time_point changed_at(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::chrono::system_clock::now();
  // A hard link to an old file changes only its ctime.
  return std::chrono::system_clock::from_time_t(std::max(info.st_ctime, info.st_mtime));
}

// Of a database file's header: big-endian.
uint32_t number_at(std::span<const std::byte> bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[offset + i]);
  return value;
}

// Looks at the file before SQLite does, which would write to it.
Status check_header(Files& files, const std::string& path) {
  constexpr size_t kHeaderBytes = 100;
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() < kHeaderBytes) {
    return refused(path, cat("expected a database, found a file of ", file->size(), " bytes"));
  }
  std::array<std::byte, kHeaderBytes> header;
  LEAT_RETURN_IF_ERROR(file->read(0, header));
  // The 16 bytes of the magic include the zero at its end.
  if (std::memcmp(header.data(), "SQLite format 3", 16) != 0 ||
      number_at(header, 68) != kApplicationId) {
    return refused(path, "expected a journal of leatd, found another file");
  }
  const uint32_t version = number_at(header, 60);
  if (version < 1 || version > Journal::kSchemaVersion) {
    return refused(path, cat("expected version ", Journal::kSchemaVersion, " of its tables, found ",
                             version, ", which another version of leatd has written"));
  }
  return {};
}

Result<std::string> random_hex() {
  std::array<uint8_t, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return unavailable("the system gives no random numbers");
  }
  return to_hex(bytes);
}

// A whole journal without jobs appears under its name, or nothing does.
Status create_database(Files& files, const std::string& path, const std::string& directory) {
  const std::string fresh = path + ".new";
  for (const char* suffix : {"", "-journal"}) {  // leftovers of a crash
    LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(fresh + suffix));
    if (there) LEAT_RETURN_IF_ERROR(files.remove(fresh + suffix));
  }
  {
    LEAT_ASSIGN_OR_RETURN(const auto database, SqliteDatabase::open(fresh, true));
    LEAT_ASSIGN_OR_RETURN(const std::string cluster_id, random_hex());
    LEAT_RETURN_IF_ERROR(database->run("PRAGMA synchronous=EXTRA; BEGIN"));
    LEAT_RETURN_IF_ERROR(database->run(kSchema));
    LEAT_RETURN_IF_ERROR(database->run(kLaterTables));
    // Of version 1: without checksums until the first generation begins.
    LEAT_RETURN_IF_ERROR(
        database->run(cat("PRAGMA application_id=", kApplicationId,
                          "; PRAGMA user_version=1; INSERT INTO meta VALUES ", "('cluster_id', '",
                          cluster_id, "'), ('generation', '0'); COMMIT")
                          .c_str()));
  }
  LEAT_RETURN_IF_ERROR(files.rename(fresh, path));
  return files.sync_directory(directory);
}

// A full disk, or a record that does not fit, leaves the file as it was, so the next append() may
// succeed. After any other error its content is unknown.
bool is_sticky(Code code) {
  return code != Code::resource_exhausted && code != Code::failed_precondition &&
         code != Code::invalid_argument;
}

}  // namespace

// The state directory, held by flock(): whatever ends the process lets it go.
class Journal::Lock {
 public:
  // On a file system that is read-only there may be none, and is nothing to guard.
  static Result<std::unique_ptr<Lock>> take(const std::string& directory, bool read_only) {
    const std::string path = directory + "/journal.lock";
    const int flags = (read_only ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC;
    const int fd = ::open(path.c_str(), flags, 0600);
    if (fd < 0 && read_only) return std::unique_ptr<Lock>();
    if (fd < 0) {
      return failed_precondition(cat("'", path, "': cannot open it: ", std::strerror(errno)));
    }
    std::unique_ptr<Lock> lock(new Lock(fd));
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      return failed_precondition(cat("state directory '", directory, "' is in use by ",
                                     lock->holder(), ": expected one master at a time; stop that ",
                                     "one, or give another state directory"));
    }
    if (!read_only) lock->sign();
    return lock;
  }
  ~Lock() { ::close(fd_); }

 private:
  explicit Lock(int fd) : fd_(fd) {}

  std::string holder() const {
    char text[128];
    const ssize_t size = ::pread(fd_, text, sizeof text, 0);
    return size > 0 ? std::string(text, static_cast<size_t>(size)) : "another process";
  }
  // For people; a failure to write it costs nothing else.
  void sign() const {
    char host[65] = "";
    ::gethostname(host, sizeof host - 1);
    const std::string text = cat("leatd, process ", ::getpid(), " on host ", host);
    const bool written = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, text.data(), text.size(), 0) ==
                                                         static_cast<ssize_t>(text.size());
    (void)written;
  }

  const int fd_;
};

Journal::Journal(Files& files, std::string directory)
    : files_(files),
      directory_(std::move(directory)),
      database_path_(directory_ + "/journal.sqlite"),
      blobs_(files, directory_ + "/blobs") {}

Journal::~Journal() = default;

Result<std::unique_ptr<Journal>> Journal::open(Files& files, const std::string& state_directory,
                                               const JournalLimits& limits) {
  // The lock comes before the first look at the database, which another master may be writing.
  std::unique_ptr<Journal> journal(new Journal(files, state_directory));
  const bool read_only = is_read_only(state_directory);
  if (!read_only) {
    LEAT_RETURN_IF_ERROR(files.make_directories(state_directory + "/blobs"));
    LEAT_RETURN_IF_ERROR(files.sync_directory(state_directory));
  }
  LEAT_ASSIGN_OR_RETURN(journal->lock_, Lock::take(state_directory, read_only));
  if (read_only) {
    LEAT_RETURN_IF_ERROR(journal->copy_to_read(kReadOnly));
  }
  const Status opened = journal->open_database(limits);
  if (opened.code() == Code::resource_exhausted && !read_only) {
    // Not even the log's empty file.
    LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(journal->database_path_));
    if (!there) return opened;
    const Status copied = journal->copy_to_read(cat("has no room left (", opened.message(), ")"));
    if (!copied.ok() || !journal->open_database(limits).ok()) return opened;
  } else {
    LEAT_RETURN_IF_ERROR(opened);
  }
  // Only now the journal is known to be intact, so it may be written.
  LEAT_RETURN_IF_ERROR(journal->begin_generation());
  // No upload can be under way, so no blob is too young to be removed.
  if (journal->opened_.ok()) LEAT_RETURN_IF_ERROR(journal->collect_blobs({}));
  return journal;
}

// The database, and what of its log is not in it yet.
Status Journal::copy_to_read(std::string_view why) {
  LEAT_ASSIGN_OR_RETURN(copy_, TemporaryFolder::make("leat-journal"));
  // The two files belong together: the log holds transactions that the database lacks.
  const std::string name = "/journal.sqlite", to = copy_->path() + name;
  for (const char* suffix : {"", "-wal"}) {
    const std::string from = directory_ + name + suffix;
    LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(from));
    if (!there) continue;
    LEAT_ASSIGN_OR_RETURN(const auto file, files_.open(from));
    LEAT_ASSIGN_OR_RETURN(const auto copy, files_.create(to + suffix));
    LEAT_RETURN_IF_ERROR(read_in_pieces(*file, [&](std::span<const std::byte> piece) {
                           return copy->append(piece);
                         }).while_doing(cat("copying '", from, "', which cannot be written")));
  }
  opened_ = broken_ = failed_precondition(
      cat("'", directory_, "' ", why, ": nothing can be written to the journal until the master ",
          "starts again with one that can be"));
  database_path_ = to;
  return {};
}

// Of a journal that is not there any more.
Status Journal::expect_no_jobs() const {
  const std::string folder = directory_ + "/jobs";
  LEAT_ASSIGN_OR_RETURN(const bool exists, files_.exists(folder));
  if (!exists) return {};
  LEAT_ASSIGN_OR_RETURN(const auto jobs, files_.list(folder));
  if (jobs.empty()) return {};
  return failed_precondition(
      cat("journal '", database_path_, "' is gone, but '", folder, "' beside it has the folders ",
          "of ", jobs.size(), jobs.size() == 1 ? " job" : " jobs", ", such as '", jobs.front(),
          "': expected it to be restored from a copy; or start once with --new-journal: then "
          "no master goes on with these jobs, and their folders stay as they are"));
}

// Those of a journal that is gone: it may be restored yet.
Status Journal::keep_blobs() {
  LEAT_ASSIGN_OR_RETURN(const auto there, blobs_.names());
  if (there.empty()) return {};
  // Names of an earlier lost journal stay in the list.
  LEAT_ASSIGN_OR_RETURN(std::set<std::string> names, kept_blobs());
  names.insert(there.begin(), there.end());
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return write_file_atomically(files_, directory_ + "/kept-blobs",
                               std::as_bytes(std::span(text.data(), text.size())));
}

Status Journal::open_database(const JournalLimits& limits) {
  const std::string& path = database_path_;
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(path));
  LEAT_ASSIGN_OR_RETURN(const bool has_log, files_.exists(path + "-wal"));
  if (!there && copy_ != nullptr) return opened_.while_doing("looking for a journal to read");
  // The log has transactions of a database that is gone; a new database must not get them.
  if (!there && has_log) return refused(path, "its log is there, but not the database itself");
  if (!there) {
    if (!limits.new_journal) LEAT_RETURN_IF_ERROR(expect_no_jobs());
    LEAT_RETURN_IF_ERROR(keep_blobs());
    LEAT_RETURN_IF_ERROR(create_database(files_, path, directory_));
  }
  LEAT_RETURN_IF_ERROR(check_header(files_, path));
  // Before SQLite opens the file, because it drops a damaged tail of the log at once.
  if (has_log) {
    if (const Status status = check_journal_log(files_, path + "-wal"); !status.ok()) {
      return refused(path, status.message());
    }
  }
  LEAT_ASSIGN_OR_RETURN(database_, SqliteDatabase::open(path, false));
  database_->set_checkpoint_on_close(false);  // nothing is written before all of it was checked
  LEAT_RETURN_IF_ERROR(database_->run("PRAGMA locking_mode=EXCLUSIVE; PRAGMA cell_size_check=ON"));
  if (const Status status = check_database(); !status.ok()) {
    // SQLite closes its files first.
    database_.reset();
    if (!has_log) (void)files_.remove(path + "-wal");  // SQLite made it, empty
    // SQLite does not say why it could not make its log.
    const Status room = has_log ? Status() : room_for_a_file();
    if (room.code() == Code::resource_exhausted) return room;
    // An error of the disk is no damage: it is returned without the advice to restore a copy.
    const bool may_pass =
        status.code() == Code::unavailable || status.code() == Code::resource_exhausted;
    if (may_pass) return status;
    return failed_precondition(cat("journal is damaged: '", path, "': ", status.message(), kHint));
  }
  LEAT_ASSIGN_OR_RETURN(const std::string mode, database_->ask("PRAGMA journal_mode=WAL"));
  if (mode != "wal") return refused(path, cat("expected a write-ahead log, found mode ", mode));
  // The limit is set in pages; append() returns resource_exhausted beyond it.
  const auto pages = static_cast<int64_t>(limits.max_bytes) / kPageBytes;
  LEAT_RETURN_IF_ERROR(
      database_->run(cat("PRAGMA synchronous=FULL; PRAGMA max_page_count=", pages).c_str()));
  database_->set_checkpoint_on_close(true);
  return {};
}

Status Journal::room_for_a_file() {
  const std::string path = database_path_ + ".new";  // what a crash leaves of it goes
  LEAT_RETURN_IF_ERROR(files_.create(path).status());
  return files_.remove(path);
}

// Pages and indexes as SQLite sees them, then every row.
Status Journal::check_database() {
  // The argument ends the check at the first damage.
  const auto verdict = database_->ask("PRAGMA integrity_check(1)");
  LEAT_RETURN_IF_ERROR(verdict.status());
  if (*verdict != "ok") return failed_precondition(*verdict);
  LEAT_RETURN_IF_ERROR(check_meta());
  LEAT_RETURN_IF_ERROR(drained_workers().status());
  LEAT_RETURN_IF_ERROR(forgotten_jobs().status());
  return replay().status();
}

Status Journal::check_meta() {
  LEAT_ASSIGN_OR_RETURN(const std::string version, database_->ask("PRAGMA user_version"));
  LEAT_ASSIGN_OR_RETURN(
      const std::string keys,
      database_->ask("SELECT group_concat(key) FROM (SELECT key FROM meta ORDER BY key)"));
  LEAT_ASSIGN_OR_RETURN(cluster_id_,
                        database_->ask("SELECT value FROM meta WHERE key = 'cluster_id'"));
  LEAT_ASSIGN_OR_RETURN(const std::string generation,
                        database_->ask("SELECT value FROM meta WHERE key = 'generation'"));
  LEAT_ASSIGN_OR_RETURN(const std::string crc,
                        database_->ask("SELECT value FROM meta WHERE key = 'crc'"));
  const char* end = generation.data() + generation.size();
  const auto parsed = std::from_chars(generation.data(), end, generation_);
  // Version 1 gets its checksum with the first generation that this version of leatd writes.
  const bool has_crc = version != "1";
  if (keys != (has_crc ? "cluster_id,crc,generation" : "cluster_id,generation") ||
      cluster_id_.size() != 32 || parsed.ec != std::errc() || parsed.ptr != end) {
    return failed_precondition(
        "expected its table meta to have a cluster id, a generation and a checksum, and no more");
  }
  LEAT_ASSIGN_OR_RETURN(const std::string expected, crc_of_meta());
  if (!has_crc || crc == expected) return {};
  return failed_precondition("the checksum of its tables, cluster id and generation is wrong");
}

Result<std::string> Journal::crc_of_meta() {
  // The order of the rows is fixed, so unchanged tables give the same sum again.
  std::string all = cat(cluster_id_, "\n", generation_, "\n");
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->prepare("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) break;
    for (int column = 0; column < 4; ++column) all += cat(select.bytes(column), "\n");
  }
  return cat(crc32c(std::as_bytes(std::span(all.data(), all.size()))));
}

// On a full disk the first append() writes it.
Status Journal::begin_generation() {
  // A journal that is read from a copy counts, too, in memory alone.
  ++generation_;
  if (copy_ != nullptr) return {};
  const Status written = append_or_roll_back({});
  if (written.code() != Code::resource_exhausted) return written;
  opened_ = written;
  return {};
}

// A change of the tables is to be in this transaction, too, before the checksum.
Status Journal::write_generation() {
  LEAT_RETURN_IF_ERROR(database_->run("BEGIN IMMEDIATE"));
  LEAT_RETURN_IF_ERROR(database_->run(kLaterTables));
  LEAT_ASSIGN_OR_RETURN(const std::string crc, crc_of_meta());
  return database_->run(cat("REPLACE INTO meta VALUES ('generation', '", generation_,
                            "'), ('crc', '", crc, "'); PRAGMA user_version=", kSchemaVersion,
                            "; COMMIT")
                            .c_str());
}

Status Journal::append(std::span<const JournalRecord> records) {
  // The first error stays the answer: see the header.
  LEAT_RETURN_IF_ERROR(broken_);
  if (!generation_written_) LEAT_RETURN_IF_ERROR(append_or_roll_back({}));
  return append_or_roll_back(records);
}

// Without records: the generation.
Status Journal::append_or_roll_back(std::span<const JournalRecord> records) {
  const bool first = records.empty() && !generation_written_;
  Status status = first ? write_generation() : append_in_transaction(records);
  if (first) generation_written_ = status.ok();
  if (!status.ok()) {
    // A failed COMMIT may have ended the transaction already.
    if (database_->in_transaction()) {
      const Status undone = database_->run("ROLLBACK");
      if (!undone.ok()) broken_ = undone;
    }
    if (is_sticky(status.code())) broken_ = status;
  }
  return status;
}

Status Journal::append_in_transaction(std::span<const JournalRecord> records) {
  LEAT_RETURN_IF_ERROR(database_->run("BEGIN IMMEDIATE"));
  for (const JournalRecord& record : records) {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("journal/append"));
    LEAT_RETURN_IF_ERROR(RowWriter(*database_, blobs_).write(record));
  }
  // A crash at this point loses the transaction as a whole; one at the next failpoint keeps it.
  LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("journal/commit"));
  LEAT_RETURN_IF_ERROR(database_->run("COMMIT"));
  return LEAT_FAILPOINT("journal/committed");
}

Status Journal::collect_blobs(std::chrono::seconds least) {
  LEAT_ASSIGN_OR_RETURN(const auto names, blobs_.names());
  if (names.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(std::set<std::string> kept, kept_blobs());
  LEAT_ASSIGN_OR_RETURN(SqliteStatement named,
                        database_->prepare("SELECT DISTINCT lower(hex(sha256)) FROM files"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, named.step());
    if (!row) break;
    kept.emplace(named.bytes(0));
  }
  // Temporary files of broken uploads have no name in the set, so they go, too.
  const auto now = std::chrono::system_clock::now();
  for (const std::string& name : names) {
    const bool may_go =
        least.count() == 0 || now - changed_at(cat(directory_, "/blobs/", name)) >= least;
    if (may_go && !kept.contains(name)) LEAT_RETURN_IF_ERROR(blobs_.remove(name));
  }
  return {};
}

Result<std::set<std::string>> Journal::kept_blobs() const {
  const std::string path = directory_ + "/kept-blobs";
  std::set<std::string> names;
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(path));
  if (!there) return names;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files_, path, kMostKeptBytes));
  std::istringstream lines({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  for (std::string line; std::getline(lines, line);) names.insert(line);
  return names;
}

// --- Reading.

Result<std::vector<StoredJob>> Journal::replay() {
  return RowReader(*database_, directory_).replay();
}

Result<Submission> Journal::submission(std::string_view id) {
  return RowReader(*database_, directory_).submission(id);
}

Result<std::vector<JobCondition>> Journal::history(std::string_view id) {
  return RowReader(*database_, directory_).history(id);
}

Result<std::vector<std::pair<std::string, std::string>>> Journal::workers_of_jobs() {
  return RowReader(*database_, directory_).workers_of_jobs();
}

Result<std::map<std::string, uint64_t>> Journal::files_of(std::string_view user) {
  return RowReader(*database_, directory_).files_of(user);
}

Result<std::set<std::string>> Journal::forgotten_jobs() {
  return RowReader(*database_, directory_).names_of("forgotten_jobs");
}

Result<std::set<std::string>> Journal::drained_workers() {
  return RowReader(*database_, directory_).names_of("drained_workers");
}

}  // namespace leat

// The rows of the journal: records in, jobs out.
#include "daemon/jobs/journal.h"
#include "daemon/jobs/sqlite.h"
#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat {
namespace {

std::string_view view_of(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Fields one after the other, each text with its length before it: what checksums are over, and
// how lists are kept.
class Encoder {
 public:
  Encoder& add(uint64_t number) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>((number >> (8 * i)) & 0xff);
    return *this;
  }
  Encoder& add(std::string_view text) {
    add(uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  Encoder& add(const std::vector<std::string>& list) {
    for (const std::string& each : list) add(std::string_view(each));
    return *this;
  }
  std::string take() { return std::move(bytes_); }
  int64_t crc() const { return crc32c(std::as_bytes(std::span(bytes_.data(), bytes_.size()))); }

 private:
  std::string bytes_;
};

uint64_t decode_number(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 8; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

Result<std::vector<std::string>> decode_list(std::string_view bytes) {
  std::vector<std::string> list;
  while (!bytes.empty()) {
    if (bytes.size() < 8) return failed_precondition("a list is cut short");
    const uint64_t size = decode_number(bytes);
    bytes.remove_prefix(8);
    if (bytes.size() < size) return failed_precondition("a list is cut short");
    list.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return list;
}

int64_t crc_of(const StoredJob& job) {
  Encoder encoder;
  encoder.add(job.number).add(job.id).add(job.request_id).add(view_of(job.content)).add(job.name);
  encoder.add(uint64_t{job.num_workers}).add(uint64_t{job.max_restarts});
  if (job.min_workers > 0) encoder.add(uint64_t{job.min_workers});
  if (!job.dataset.empty()) encoder.add(job.dataset);
  return encoder.add(static_cast<uint64_t>(job.submitted_ms)).crc();
}

int64_t crc_of(int64_t number, const JobCondition& condition) {
  Encoder encoder;
  encoder.add(static_cast<uint64_t>(number)).add(static_cast<uint64_t>(condition.state));
  encoder.add(condition.reason).add(static_cast<uint64_t>(condition.since_ms));
  encoder.add(uint64_t{condition.restarts}).add(condition.assembly).add(condition.workers);
  return encoder.add(condition.result).crc();
}

int64_t crc_of(int64_t job, const LostAssembly& lost) {
  Encoder encoder;
  encoder.add(static_cast<uint64_t>(job)).add(lost.assembly).add(lost.number);
  encoder.add(lost.cause).add(lost.culprit).add(lost.fault);
  for (const int64_t number : {lost.began_ms, lost.failed_ms, lost.detected_after,
                               lost.recovered_after, lost.stopped_at, lost.went_on_from}) {
    encoder.add(static_cast<uint64_t>(number));
  }
  return encoder.add(static_cast<uint64_t>(lost.source)).crc();
}

int64_t crc_of(int64_t job, const FiredFault& fired) {
  Encoder encoder;
  encoder.add(static_cast<uint64_t>(job)).add(uint64_t{fired.index}).add(fired.fault);
  return encoder.add(fired.assembly).add(static_cast<uint64_t>(fired.at_ms)).crc();
}

// Of a report as bytes, however many numbers they are.
int64_t crc_of_report(int64_t job, std::string_view bytes) {
  return Encoder().add(static_cast<uint64_t>(job)).add(bytes).crc();
}

bool read_digest(std::string_view bytes, Sha256Digest& digest) {
  if (bytes.size() != digest.size()) return false;
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(digest.data()));
  return true;
}

constexpr char kSelectConditions[] =
    "SELECT job, state, reason, since_ms, restarts, epoch, workers, result, crc FROM conditions ";

// The condition of the row that is there, in the columns of kSelectConditions.
Result<JobCondition> read_condition(const SqliteStatement& row) {
  const int64_t number = row.integer(0);
  JobCondition condition;
  const auto state = job_state_from_number(row.integer(1));
  auto workers = decode_list(row.bytes(6));
  if (!state || !workers.ok()) {
    return failed_precondition(cat("a condition of job ", number, " cannot be read"));
  }
  condition.state = *state;
  condition.reason = row.bytes(2);
  condition.since_ms = row.integer(3);
  condition.restarts = static_cast<uint32_t>(row.integer(4));
  condition.assembly = static_cast<uint64_t>(row.integer(5));
  condition.workers = std::move(*workers);
  condition.result = row.bytes(7);
  if (row.integer(8) != crc_of(number, condition)) {
    return failed_precondition(cat("the checksum of a condition of job ", number, " is wrong"));
  }
  return condition;
}

Result<LostAssembly> read_lost(const SqliteStatement& row) {
  LostAssembly lost;
  lost.assembly = static_cast<uint64_t>(row.integer(1));
  lost.number = static_cast<uint64_t>(row.integer(2));
  lost.cause = row.bytes(3);
  lost.culprit = row.bytes(4);
  lost.fault = row.bytes(5);
  lost.began_ms = row.integer(6);
  lost.failed_ms = row.integer(7);
  lost.detected_after = row.integer(8);
  lost.recovered_after = row.integer(9);
  lost.stopped_at = row.integer(10);
  lost.went_on_from = row.integer(11);
  lost.source = static_cast<GoesOnFrom>(row.integer(12) & 3);
  if (row.integer(13) != crc_of(row.integer(0), lost) || row.integer(12) > 3) {
    return failed_precondition(
        cat("the checksum of a lost assembly of job ", row.integer(0), " is wrong"));
  }
  return lost;
}

Result<StoredJob> read_job(const SqliteStatement& row, const std::map<int64_t, uint32_t>& elastic,
                           const std::map<int64_t, std::string>& datasets) {
  StoredJob job;
  job.number = static_cast<uint64_t>(row.integer(0));
  job.id = row.bytes(1);
  job.request_id = row.bytes(2);
  const bool has_content = read_digest(row.bytes(3), job.content);
  job.name = row.bytes(4);
  job.num_workers = static_cast<uint32_t>(row.integer(5));
  job.max_restarts = static_cast<uint32_t>(row.integer(6));
  job.submitted_ms = row.integer(7);
  const auto least = elastic.find(row.integer(0));
  if (least != elastic.end()) job.min_workers = least->second;
  const auto dataset = datasets.find(row.integer(0));
  if (dataset != datasets.end()) job.dataset = dataset->second;
  if (!has_content || row.integer(8) != crc_of(job)) {
    return failed_precondition(cat("the checksum of job ", job.number, " is wrong"));
  }
  return job;
}

}  // namespace

// Writing -----------------------------------------------------------------------------------------

Status Journal::write(const JobSubmitted& record) {
  const StoredJob job = stored(record);
  const std::string overrides = Encoder().add(record.submission->overrides).take();
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database_->prepare("INSERT INTO jobs VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"));
  insert.bind(1, static_cast<int64_t>(job.number)).bind(2, job.id).bind(3, job.request_id);
  insert.bind_blob(4, view_of(job.content)).bind(5, job.name).bind(6, int64_t{job.num_workers});
  insert.bind(7, int64_t{job.max_restarts}).bind(8, job.submitted_ms).bind(9, crc_of(job));
  insert.bind(10, record.submission->text).bind_blob(11, overrides);
  LEAT_RETURN_IF_ERROR(insert.run());
  LEAT_RETURN_IF_ERROR(write_files(record));
  LEAT_RETURN_IF_ERROR(write_chaos(record));
  LEAT_RETURN_IF_ERROR(write_elastic(job));
  LEAT_RETURN_IF_ERROR(write_dataset(job));
  return write_condition(static_cast<int64_t>(job.number), job.condition);
}

// Checked with the job's row.
Status Journal::write_elastic(const StoredJob& job) {
  if (job.min_workers == 0) return {};
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_->prepare("INSERT INTO elastic_jobs VALUES (?1,?2)"));
  return insert.bind(1, static_cast<int64_t>(job.number)).bind(2, int64_t{job.min_workers}).run();
}

// As that.
Status Journal::write_dataset(const StoredJob& job) {
  if (job.dataset.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_->prepare("INSERT INTO datasets VALUES (?1,?2)"));
  return insert.bind(1, static_cast<int64_t>(job.number)).bind(2, job.dataset).run();
}

Status Journal::write(const WorkerDrained& record) {
  return record.draining ? put_name("drained_workers", record.name)
                         : erase_name("drained_workers", record.name);
}

Status Journal::put_name(std::string_view table, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement put, database_->prepare(cat("INSERT OR REPLACE INTO ",
                                                                    table, " VALUES (?1,?2)")));
  return put.bind(1, name).bind(2, Encoder().add(name).crc()).run();
}

Status Journal::erase_name(std::string_view table, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement erase,
                        database_->prepare(cat("DELETE FROM ", table, " WHERE name = ?1")));
  return erase.bind(1, name).run();
}

Status Journal::write_files(const JobSubmitted& record) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_->prepare("INSERT INTO files VALUES (?1,?2,?3,?4,?5,?6)"));
  int64_t position = 0;
  for (const AttachedFile& file : record.submission->files) {
    if (!file.bytes) {
      LEAT_ASSIGN_OR_RETURN(const bool there, blobs_.has(file.sha256, file.size));
      if (!there) {
        return failed_precondition(cat("job '", record.id, "': expected file '", file.name, "' of ",
                                       file.size, " bytes and SHA-256 ", to_hex(file.sha256),
                                       " to be uploaded before"));
      }
    }
    insert.bind(1, static_cast<int64_t>(record.number)).bind(2, position++).bind(3, file.name);
    insert.bind(4, static_cast<int64_t>(file.size)).bind_blob(5, view_of(file.sha256));
    if (file.bytes) {
      insert.bind_blob(6, *file.bytes);
    } else {
      insert.bind_null(6);
    }
    LEAT_RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Status Journal::write(const JobChanged& record) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, number_of(record.id));
  for (const LostAssembly& lost : record.lost) LEAT_RETURN_IF_ERROR(write_lost(number, lost));
  if (record.ended_with) LEAT_RETURN_IF_ERROR(write_report(number, *record.ended_with));
  return write_condition(number, record.condition);
}

Status Journal::write(const JobNoted& record) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, number_of(record.id));
  for (const LostAssembly& lost : record.lost) LEAT_RETURN_IF_ERROR(write_lost(number, lost));
  for (const FiredFault& fired : record.fired) LEAT_RETURN_IF_ERROR(write_fired(number, fired));
  return {};
}

Status Journal::write_fired(int64_t number, const FiredFault& fired) {
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement put,
      database_->prepare("INSERT OR REPLACE INTO fired_faults VALUES (?1,?2,?3,?4,?5,?6)"));
  put.bind(1, number).bind(2, int64_t{fired.index}).bind(3, fired.fault);
  put.bind(4, static_cast<int64_t>(fired.assembly)).bind(5, fired.at_ms);
  return put.bind(6, crc_of(number, fired)).run();
}

// Checked with the submission's content.
Status Journal::write_chaos(const JobSubmitted& record) {
  int64_t position = 0;
  for (const std::string& spec : record.submission->chaos) {
    LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                          database_->prepare("INSERT INTO chaos VALUES (?1,?2,?3)"));
    insert.bind(1, static_cast<int64_t>(record.number)).bind(2, position++).bind(3, spec);
    LEAT_RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Status Journal::write_report(int64_t number, const ProgressReport& report) {
  Encoder encoder;
  for (const uint64_t each : numbers_of(report)) encoder.add(each);
  const std::string bytes = encoder.take();
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement put,
      database_->prepare("INSERT OR REPLACE INTO last_reports VALUES (?1,?2,?3)"));
  return put.bind(1, number).bind_blob(2, bytes).bind(3, crc_of_report(number, bytes)).run();
}

// The last ones stay.
Status Journal::write_lost(int64_t number, const LostAssembly& lost) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement put,
                        database_->prepare("INSERT OR REPLACE INTO lost_epochs VALUES "
                                           "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)"));
  put.bind(1, number).bind(2, static_cast<int64_t>(lost.assembly));
  put.bind(3, static_cast<int64_t>(lost.number)).bind(4, lost.cause).bind(5, lost.culprit);
  put.bind(6, lost.fault).bind(7, lost.began_ms).bind(8, lost.failed_ms);
  put.bind(9, lost.detected_after).bind(10, lost.recovered_after).bind(11, lost.stopped_at);
  put.bind(12, lost.went_on_from).bind(13, static_cast<int64_t>(lost.source));
  LEAT_RETURN_IF_ERROR(put.bind(14, crc_of(number, lost)).run());
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement erase,
      database_->prepare("DELETE FROM lost_epochs WHERE job = ?1 AND number <= ?2"));
  const auto kept = static_cast<int64_t>(JobHistory::kKept);
  return erase.bind(1, number).bind(2, static_cast<int64_t>(lost.number) - kept).run();
}

Status Journal::write_condition(int64_t number, const JobCondition& condition) {
  const std::string workers = Encoder().add(condition.workers).take();
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database_->prepare("INSERT INTO conditions VALUES (NULL,?1,?2,?3,?4,?5,?6,?7,?8,?9)"));
  insert.bind(1, number).bind(2, static_cast<int64_t>(condition.state)).bind(3, condition.reason);
  insert.bind(4, condition.since_ms).bind(5, int64_t{condition.restarts});
  insert.bind(6, static_cast<int64_t>(condition.assembly)).bind_blob(7, workers);
  insert.bind(8, condition.result).bind(9, crc_of(number, condition));
  return insert.run();
}

Status Journal::write(const JobForgotten& record) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, number_of(record.id));
  for (const char* sql :
       {"DELETE FROM conditions WHERE job = ?1", "DELETE FROM files WHERE job = ?1",
        "DELETE FROM lost_epochs WHERE job = ?1", "DELETE FROM chaos WHERE job = ?1",
        "DELETE FROM fired_faults WHERE job = ?1", "DELETE FROM elastic_jobs WHERE job = ?1",
        "DELETE FROM datasets WHERE job = ?1", "DELETE FROM last_reports WHERE job = ?1",
        "DELETE FROM jobs WHERE number = ?1"}) {
    LEAT_ASSIGN_OR_RETURN(SqliteStatement erase, database_->prepare(sql));
    LEAT_RETURN_IF_ERROR(erase.bind(1, number).run());
  }
  return put_name("forgotten_jobs", record.id);
}

Status Journal::write(const JobCleared& record) { return erase_name("forgotten_jobs", record.id); }

Result<int64_t> Journal::number_of(std::string_view id) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_->prepare("SELECT number FROM jobs WHERE id = ?1"));
  LEAT_ASSIGN_OR_RETURN(const bool found, select.bind(1, id).step());
  if (!found) return failed_precondition(cat("the journal has no job '", id, "'"));
  return select.integer(0);
}

// Reading -----------------------------------------------------------------------------------------

Result<std::vector<StoredJob>> Journal::replay() {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_->prepare("SELECT number, id, request_id, content, name, "
                                           "num_workers, max_restarts, submitted_ms, crc "
                                           "FROM jobs ORDER BY number"));
  LEAT_ASSIGN_OR_RETURN(SqliteStatement conditions,
                        database_->prepare(cat(kSelectConditions, "ORDER BY job, sequence")));
  LEAT_ASSIGN_OR_RETURN(bool more, conditions.step());
  LEAT_ASSIGN_OR_RETURN(auto histories, this->histories());
  LEAT_ASSIGN_OR_RETURN(auto fired, fired_faults());
  LEAT_ASSIGN_OR_RETURN(const auto elastic, elastic_jobs());
  LEAT_ASSIGN_OR_RETURN(const auto datasets, this->datasets());
  LEAT_ASSIGN_OR_RETURN(const auto reports, last_reports());
  std::vector<StoredJob> jobs;
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) break;
    LEAT_ASSIGN_OR_RETURN(StoredJob job, read_job(select, elastic, datasets));
    bool first = true;
    while (more && conditions.integer(0) == static_cast<int64_t>(job.number)) {
      LEAT_ASSIGN_OR_RETURN(JobCondition next, read_condition(conditions));
      const JobState from = job.condition.state;
      if (first ? next.state != JobState::queued : !may_become(from, next.state)) {
        return failed_precondition(cat("job '", job.id, "' went from ", name_of(from), " to ",
                                       name_of(next.state), ", which it cannot"));
      }
      if (next.state == JobState::running && job.first_ran_ms == 0)
        job.first_ran_ms = next.since_ms;
      job.condition = std::move(next);
      first = false;
      LEAT_ASSIGN_OR_RETURN(more, conditions.step());
    }
    if (first) return failed_precondition(cat("job '", job.id, "' has no condition"));
    job.history = std::move(histories[static_cast<int64_t>(job.number)]);
    job.fired = std::move(fired[static_cast<int64_t>(job.number)]);
    const auto report = reports.find(static_cast<int64_t>(job.number));
    if (report != reports.end()) job.ended_with = report->second;
    jobs.push_back(std::move(job));
  }
  if (more) {
    return failed_precondition(
        cat("a condition is of job ", conditions.integer(0), ", which is missing"));
  }
  return jobs;
}

Result<bool> Journal::has_table(std::string_view name) {
  LEAT_ASSIGN_OR_RETURN(
      const std::string count,
      database_->ask(cat("SELECT count(*) FROM sqlite_master WHERE name = '", name, "'")));
  return count != "0";
}

Result<std::map<int64_t, std::vector<FiredFault>>> Journal::fired_faults() {
  std::map<int64_t, std::vector<FiredFault>> all;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table("fired_faults"));
  if (!there) return all;
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->prepare("SELECT job, position, fault, epoch, at_ms, crc FROM fired_faults "
                         "ORDER BY job, at_ms, position"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return all;
    FiredFault fired;
    fired.index = static_cast<uint32_t>(select.integer(1));
    fired.fault = select.bytes(2);
    fired.assembly = static_cast<uint64_t>(select.integer(3));
    fired.at_ms = select.integer(4);
    if (select.integer(5) != crc_of(select.integer(0), fired)) {
      return failed_precondition(
          cat("the checksum of a fired fault of job ", select.integer(0), " is wrong"));
    }
    all[select.integer(0)].push_back(std::move(fired));
  }
}

// What `column` of a table of its own says of `job`, or by job of all. Journals that
// were written before it was thought of have no such table.
template <typename T, typename Read>
Result<std::map<int64_t, T>> Journal::by_job(std::string_view table, std::string_view column,
                                             std::optional<int64_t> job, Read read) {
  std::map<int64_t, T> all;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table(table));
  if (!there) return all;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_->prepare(cat("SELECT job, ", column, " FROM ", table,
                                               job ? " WHERE job = ?1" : "")));
  if (job) select.bind(1, *job);
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return all;
    all[select.integer(0)] = read(select);
  }
}

// The least number of workers.
Result<std::map<int64_t, uint32_t>> Journal::elastic_jobs(std::optional<int64_t> job) {
  return by_job<uint32_t>("elastic_jobs", "min_workers", job, [](const SqliteStatement& row) {
    return static_cast<uint32_t>(row.integer(1));
  });
}

Result<std::map<int64_t, std::string>> Journal::datasets(std::optional<int64_t> job) {
  return by_job<std::string>("datasets", "name", job,
                             [](const SqliteStatement& row) { return std::string(row.bytes(1)); });
}

Result<std::map<int64_t, ProgressReport>> Journal::last_reports() {
  std::map<int64_t, ProgressReport> reports;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table("last_reports"));
  if (!there) return reports;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_->prepare("SELECT job, report, crc FROM last_reports"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return reports;
    const std::string_view bytes = select.bytes(1);
    if (select.integer(2) != crc_of_report(select.integer(0), bytes)) {
      return failed_precondition(
          cat("the checksum of the last report of job ", select.integer(0), " is wrong"));
    }
    // Of another version it may have fewer numbers, or more.
    ReportNumbers numbers = numbers_of(ProgressReport());
    for (size_t i = 0; i < std::min(numbers.size(), bytes.size() / 8); ++i)
      numbers[i] = decode_number(bytes.substr(8 * i));
    reports[select.integer(0)] = report_of(numbers);
  }
}

Result<std::set<std::string>> Journal::drained_workers() { return names_of("drained_workers"); }

Result<std::set<std::string>> Journal::forgotten_jobs() { return names_of("forgotten_jobs"); }

Result<std::set<std::string>> Journal::names_of(std::string_view table) {
  std::set<std::string> names;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table(table));
  if (!there) return names;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_->prepare(cat("SELECT name, crc FROM ", table)));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return names;
    const auto [name, fresh] = names.emplace(select.bytes(0));
    if (select.integer(1) != Encoder().add(*name).crc())
      return failed_precondition(cat("the checksum of a row of ", table, " is wrong"));
  }
}

// By job. A journal that was not opened since there is such a table has none.
Result<std::map<int64_t, JobHistory>> Journal::histories() {
  std::map<int64_t, JobHistory> histories;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table("lost_epochs"));
  if (!there) return histories;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_->prepare("SELECT * FROM lost_epochs ORDER BY job, number"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return histories;
    LEAT_ASSIGN_OR_RETURN(const LostAssembly lost, read_lost(select));
    histories[select.integer(0)].put(lost);
  }
}

Result<Submission> Journal::submission(std::string_view id) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_->prepare("SELECT number, request_id, name, text, overrides, "
                                           "num_workers, max_restarts, content "
                                           "FROM jobs WHERE id = ?1"));
  LEAT_ASSIGN_OR_RETURN(const bool found, select.bind(1, id).step());
  if (!found) return failed_precondition(cat("the journal has no job '", id, "'"));
  Submission submission;
  submission.request_id = select.bytes(1);
  submission.name = select.bytes(2);
  submission.text = select.bytes(3);
  LEAT_ASSIGN_OR_RETURN(submission.overrides, decode_list(select.bytes(4)));
  submission.num_workers = static_cast<uint32_t>(select.integer(5));
  submission.max_restarts = static_cast<uint32_t>(select.integer(6));
  LEAT_ASSIGN_OR_RETURN(const auto elastic, elastic_jobs(select.integer(0)));
  if (!elastic.empty()) submission.min_workers = elastic.begin()->second;
  LEAT_ASSIGN_OR_RETURN(const auto datasets, this->datasets(select.integer(0)));
  if (!datasets.empty()) submission.dataset = datasets.begin()->second;
  Sha256Digest content = {};
  bool intact = read_digest(select.bytes(7), content);

  LEAT_ASSIGN_OR_RETURN(SqliteStatement files,
                        database_->prepare("SELECT name, size, sha256, bytes FROM files "
                                           "WHERE job = ?1 ORDER BY position"));
  files.bind(1, select.integer(0));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, files.step());
    if (!row) break;
    AttachedFile file;
    Sha256Digest digest = {};
    intact = read_digest(files.bytes(2), digest) && intact;
    if (files.is_null(3)) {
      file.name = files.bytes(0);
      file.sha256 = digest;
      file.size = static_cast<uint64_t>(files.integer(1));
    } else {
      file = attach(std::string(files.bytes(0)), std::string(files.bytes(3)));
      intact = intact && file.sha256 == digest;
    }
    submission.files.push_back(std::move(file));
  }
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement chaos,
      database_->prepare("SELECT spec FROM chaos WHERE job = ?1 ORDER BY position"));
  chaos.bind(1, select.integer(0));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, chaos.step());
    if (!row) break;
    submission.chaos.emplace_back(chaos.bytes(0));
  }
  if (!intact || content_of(submission) != content) {
    return failed_precondition(
        cat("journal '", directory_, "' is damaged: job '", id, "' is not as it was submitted"));
  }
  return submission;
}

Result<std::vector<JobCondition>> Journal::history(std::string_view id) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, number_of(id));
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->prepare(cat(kSelectConditions, "WHERE job = ?1 ORDER BY sequence")));
  select.bind(1, number);
  std::vector<JobCondition> conditions;
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return conditions;
    LEAT_ASSIGN_OR_RETURN(JobCondition condition, read_condition(select));
    conditions.push_back(std::move(condition));
  }
}

}  // namespace leat

#include "daemon/jobs/row_writer.h"

#include <bit>
#include <variant>

#include "daemon/jobs/row_coding.h"
#include "devices/base/text.h"

namespace leat {

Status RowWriter::write(const JournalRecord& record) {
  return std::visit([this](const auto& each) { return write_record(each); }, record);
}

Status RowWriter::write_record(const JobSubmitted& record) {
  // The job goes into several tables. The caller's transaction makes them one write.
  StoredJob job = stored(record);
  job.request_id = request_key(job.terms.user, job.request_id);  // also for the checksum
  const std::string overrides = RowEncoder().add(record.submission->overrides).take();
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      database_.prepare("INSERT INTO jobs VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"));
  // The numbers of the parameters are those of the columns in CREATE TABLE.
  insert.bind(1, static_cast<int64_t>(job.number)).bind(2, job.id).bind(3, job.request_id);
  insert.bind_blob(4, view_of(job.content)).bind(5, job.name).bind(6, int64_t{job.num_workers});
  insert.bind(7, int64_t{job.max_restarts}).bind(8, job.submitted_ms).bind(9, crc_of(job));
  insert.bind(10, record.submission->text).bind_blob(11, overrides);
  LEAT_RETURN_IF_ERROR(insert.run());
  LEAT_RETURN_IF_ERROR(write_files(record));
  LEAT_RETURN_IF_ERROR(write_chaos(record));
  LEAT_RETURN_IF_ERROR(write_elastic(job));
  LEAT_RETURN_IF_ERROR(write_dataset(job));
  LEAT_RETURN_IF_ERROR(write_gpus(job));
  LEAT_RETURN_IF_ERROR(write_terms(job));
  const auto number = static_cast<int64_t>(job.number);
  // Every history begins with QUEUED.
  if (job.condition.state != JobState::queued) {
    JobCondition first;
    first.since_ms = job.condition.since_ms;
    LEAT_RETURN_IF_ERROR(write_condition(number, first));
  }
  return write_condition(number, job.condition);
}

// The checksum of the job's row includes it.
Status RowWriter::write_elastic(const StoredJob& job) {
  if (job.min_workers == 0) return {};
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_.prepare("INSERT INTO elastic_jobs VALUES (?1,?2)"));
  return insert.bind(1, static_cast<int64_t>(job.number)).bind(2, int64_t{job.min_workers}).run();
}

// The checksum of the job's row includes it.
Status RowWriter::write_dataset(const StoredJob& job) {
  if (job.dataset.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_.prepare("INSERT INTO datasets VALUES (?1,?2)"));
  return insert.bind(1, static_cast<int64_t>(job.number)).bind(2, job.dataset).run();
}

// The checksum of the job's row includes it.
Status RowWriter::write_gpus(const StoredJob& job) {
  if (job.gpus == 0) return {};
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_.prepare("INSERT INTO gpu_jobs VALUES (?1,?2)"));
  return insert.bind(1, static_cast<int64_t>(job.number)).bind(2, int64_t{job.gpus}).run();
}

// The checksum of the job's row includes it.
Status RowWriter::write_terms(const StoredJob& job) {
  const std::string terms = print_terms(job.terms);
  if (terms.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_.prepare("INSERT INTO queue_terms VALUES (?1,?2)"));
  return insert.bind(1, static_cast<int64_t>(job.number)).bind(2, terms).run();
}

Status RowWriter::write_record(const WorkerDrained& record) {
  return record.draining ? put_name("drained_workers", record.name)
                         : erase_name("drained_workers", record.name);
}

Status RowWriter::put_name(std::string_view table, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement put, database_.prepare(cat("INSERT OR REPLACE INTO ", table,
                                                                   " VALUES (?1,?2)")));
  return put.bind(1, name).bind(2, RowEncoder().add(name).crc()).run();
}

Status RowWriter::erase_name(std::string_view table, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement erase,
                        database_.prepare(cat("DELETE FROM ", table, " WHERE name = ?1")));
  return erase.bind(1, name).run();
}

Status RowWriter::write_files(const JobSubmitted& record) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                        database_.prepare("INSERT INTO files VALUES (?1,?2,?3,?4,?5,?6)"));
  int64_t position = 0;
  for (const AttachedFile& file : record.submission->files) {
    if (!file.bytes) {
      // A submit that names a missing blob must fail now, while the client can still upload it.
      LEAT_ASSIGN_OR_RETURN(const bool there, blobs_.has(file.sha256, file.size));
      if (!there) {
        return failed_precondition(cat("job '", record.id, "': expected file '", file.name, "' of ",
                                       file.size, " bytes and SHA-256 ", to_hex(file.sha256),
                                       " to be uploaded before"));
      }
    }
    insert.bind(1, static_cast<int64_t>(record.number)).bind(2, position++).bind(3, file.name);
    insert.bind(4, static_cast<int64_t>(file.size)).bind_blob(5, view_of(file.sha256));
    // NULL marks a blob. A file without bytes is an empty blob and not NULL.
    if (file.bytes) {
      insert.bind_blob(6, *file.bytes);
    } else {
      insert.bind_null(6);
    }
    LEAT_RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Status RowWriter::write_record(const JobChanged& record) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, job_number(database_, record.id));
  for (const LostAssembly& lost : record.lost) LEAT_RETURN_IF_ERROR(write_lost(number, lost));
  if (record.ended_with) LEAT_RETURN_IF_ERROR(write_report(number, *record.ended_with));
  return write_condition(number, record.condition);
}

Status RowWriter::write_record(const JobNoted& record) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, job_number(database_, record.id));
  for (const LostAssembly& lost : record.lost) LEAT_RETURN_IF_ERROR(write_lost(number, lost));
  for (const FiredFault& fired : record.fired) LEAT_RETURN_IF_ERROR(write_fired(number, fired));
  return {};
}

Status RowWriter::write_fired(int64_t number, const FiredFault& fired) {
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement put,
      database_.prepare("INSERT OR REPLACE INTO fired_faults VALUES (?1,?2,?3,?4,?5,?6)"));
  put.bind(1, number).bind(2, int64_t{fired.index}).bind(3, fired.fault);
  put.bind(4, static_cast<int64_t>(fired.assembly)).bind(5, fired.at_ms);
  return put.bind(6, crc_of(number, fired)).run();
}

// The digest of the submission's content includes it.
Status RowWriter::write_chaos(const JobSubmitted& record) {
  int64_t position = 0;
  for (const std::string& spec : record.submission->chaos) {
    LEAT_ASSIGN_OR_RETURN(SqliteStatement insert,
                          database_.prepare("INSERT INTO chaos VALUES (?1,?2,?3)"));
    insert.bind(1, static_cast<int64_t>(record.number)).bind(2, position++).bind(3, spec);
    LEAT_RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Status RowWriter::write_report(int64_t number, const ProgressReport& report) {
  RowEncoder encoder;
  // One blob for all numbers, so that a new number needs no new column.
  for (const uint64_t each : numbers_of(report)) encoder.add(each);
  const std::string bytes = encoder.take();
  LEAT_ASSIGN_OR_RETURN(SqliteStatement put,
                        database_.prepare("INSERT OR REPLACE INTO last_reports VALUES (?1,?2,?3)"));
  LEAT_RETURN_IF_ERROR(
      put.bind(1, number).bind_blob(2, bytes).bind(3, crc_of_report(number, bytes)).run());
  return write_metrics(number, report.ended.more);
}

// The metrics have names, which the blob of numbers cannot keep.
Status RowWriter::write_metrics(int64_t number, const std::vector<NamedNumber>& metrics) {
  if (metrics.empty()) return {};
  std::vector<std::string> texts;
  for (const NamedNumber& each : metrics) {
    texts.push_back(each.name);
    texts.push_back(RowEncoder().add(std::bit_cast<uint64_t>(each.value)).take());
  }
  const std::string bytes = RowEncoder().add(texts).take();
  LEAT_ASSIGN_OR_RETURN(SqliteStatement put,
                        database_.prepare("INSERT OR REPLACE INTO last_metrics VALUES (?1,?2,?3)"));
  return put.bind(1, number).bind_blob(2, bytes).bind(3, crc_of_report(number, bytes)).run();
}

// Keeps the last rows of a job, and erases older ones.
Status RowWriter::write_lost(int64_t number, const LostAssembly& lost) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement put,
                        database_.prepare("INSERT OR REPLACE INTO lost_epochs VALUES "
                                          "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)"));
  put.bind(1, number).bind(2, static_cast<int64_t>(lost.assembly));
  put.bind(3, static_cast<int64_t>(lost.number)).bind(4, lost.cause).bind(5, lost.culprit);
  put.bind(6, lost.fault).bind(7, lost.began_ms).bind(8, lost.failed_ms);
  put.bind(9, lost.detected_after).bind(10, lost.recovered_after).bind(11, lost.stopped_at);
  put.bind(12, lost.went_on_from).bind(13, static_cast<int64_t>(lost.source));
  LEAT_RETURN_IF_ERROR(put.bind(14, crc_of(number, lost)).run());
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement erase,
      database_.prepare("DELETE FROM lost_epochs WHERE job = ?1 AND number <= ?2"));
  // Loss numbers count up without gaps, so this leaves the newest kKept rows.
  const auto kept = static_cast<int64_t>(JobHistory::kKept);
  return erase.bind(1, number).bind(2, static_cast<int64_t>(lost.number) - kept).run();
}

Status RowWriter::write_condition(int64_t number, const JobCondition& condition) {
  // A list in one column: its order is the order of the tasks.
  const std::string workers = RowEncoder().add(condition.workers).take();
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      // Every condition is a new row: the sequence of them is the job's history. SQLite numbers it.
      database_.prepare("INSERT INTO conditions VALUES (NULL,?1,?2,?3,?4,?5,?6,?7,?8,?9)"));
  insert.bind(1, number).bind(2, static_cast<int64_t>(condition.state)).bind(3, condition.reason);
  insert.bind(4, condition.since_ms).bind(5, int64_t{condition.restarts});
  insert.bind(6, static_cast<int64_t>(condition.assembly)).bind_blob(7, workers);
  const std::string result = print_result(condition.result);
  insert.bind(8, result).bind(9, crc_of(number, condition, result));
  return insert.run();
}

Status RowWriter::write_record(const JobForgotten& record) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, job_number(database_, record.id));
  // All tables that have rows of a job. A new table must be added here, too, because rows without a
  // job are an error or lost space.
  for (const char* sql :
       {"DELETE FROM conditions WHERE job = ?1", "DELETE FROM files WHERE job = ?1",
        "DELETE FROM lost_epochs WHERE job = ?1", "DELETE FROM chaos WHERE job = ?1",
        "DELETE FROM fired_faults WHERE job = ?1", "DELETE FROM elastic_jobs WHERE job = ?1",
        "DELETE FROM datasets WHERE job = ?1", "DELETE FROM gpu_jobs WHERE job = ?1",
        "DELETE FROM queue_terms WHERE job = ?1", "DELETE FROM last_reports WHERE job = ?1",
        "DELETE FROM last_metrics WHERE job = ?1", "DELETE FROM jobs WHERE number = ?1"}) {
    LEAT_ASSIGN_OR_RETURN(SqliteStatement erase, database_.prepare(sql));
    LEAT_RETURN_IF_ERROR(erase.bind(1, number).run());
  }
  // The name stays until the folder is removed, so a crash in between leaves no folder forever.
  return put_name("forgotten_jobs", record.id);
}

Status RowWriter::write_record(const JobCleared& record) {
  return erase_name("forgotten_jobs", record.id);
}

Result<int64_t> job_number(SqliteDatabase& database, std::string_view id) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database.prepare("SELECT number FROM jobs WHERE id = ?1"));
  LEAT_ASSIGN_OR_RETURN(const bool found, select.bind(1, id).step());
  if (!found) return failed_precondition(cat("the journal has no job '", id, "'"));
  return select.integer(0);
}

}  // namespace leat

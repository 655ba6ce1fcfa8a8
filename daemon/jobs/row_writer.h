// Writes records as rows of the journal, with checksums that RowReader compares. A fact that a job
// need not have is a row of a table of its own, and the checksum of the job's row includes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/records.h"
#include "daemon/jobs/sqlite.h"

namespace leat {

// Threads: as Journal. REQUIRES: a transaction is open, which the caller ends.
class RowWriter {
 public:
  // Both outlive it.
  RowWriter(SqliteDatabase& database, Blobs& blobs) : database_(database), blobs_(blobs) {}

  // failed_precondition if a submit names a blob that is not there, or a record names a job that is
  // not there.
  Status write(const JournalRecord& record);

 private:
  Status write_record(const JobSubmitted& record);
  Status write_record(const JobChanged& record);
  Status write_record(const JobNoted& record);
  Status write_record(const JobForgotten& record);
  Status write_record(const JobCleared& record);
  Status write_record(const WorkerDrained& record);
  Status write_elastic(const StoredJob& job);
  Status write_dataset(const StoredJob& job);
  Status write_gpus(const StoredJob& job);
  Status write_terms(const StoredJob& job);
  Status write_files(const JobSubmitted& record);
  Status write_chaos(const JobSubmitted& record);
  Status write_condition(int64_t number, const JobCondition& condition);
  Status write_report(int64_t number, const ProgressReport& report);
  Status write_metrics(int64_t number, const std::vector<NamedNumber>& metrics);
  Status write_lost(int64_t number, const LostAssembly& lost);
  Status write_fired(int64_t number, const FiredFault& fired);
  Status put_name(std::string_view table, const std::string& name);
  Status erase_name(std::string_view table, const std::string& name);

  SqliteDatabase& database_;
  Blobs& blobs_;
};

// The number of the job of that id; failed_precondition if there is none.
Result<int64_t> job_number(SqliteDatabase& database, std::string_view id);

}  // namespace leat

// Reads the rows of the journal: jobs, their conditions and what workers and folders need.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/jobs/records.h"
#include "daemon/jobs/sqlite.h"

namespace leat {

// Every call checks the checksums of the rows that it reads: failed_precondition if one is wrong.
// Threads: as Journal.
class RowReader {
 public:
  // `database` outlives it. `directory`: the journal's, for messages.
  RowReader(SqliteDatabase& database, std::string_view directory)
      : database_(database), directory_(directory) {}

  // See the functions of Journal that have these names.
  Result<std::vector<StoredJob>> replay();
  Result<Submission> submission(std::string_view id);
  Result<std::vector<JobCondition>> history(std::string_view id);
  Result<std::vector<std::pair<std::string, std::string>>> workers_of_jobs();
  Result<std::map<std::string, uint64_t>> files_of(std::string_view user);
  // The names in a table of names; none if the journal lacks the table.
  Result<std::set<std::string>> names_of(std::string_view table);

 private:
  // False for a table that came after this journal was made.
  Result<bool> has_table(std::string_view name);
  Result<std::map<int64_t, JobHistory>> histories();
  Result<std::map<int64_t, std::vector<FiredFault>>> fired_faults();
  Result<std::map<int64_t, ProgressReport>> last_reports();
  // Adds the metrics of their last epochs.
  Status add_metrics(std::map<int64_t, ProgressReport>& reports);
  // The values of a column by the numbers of jobs, of all jobs or of one: `read` takes them from a
  // row, whose checksum is not compared here, since that of the job's row includes them.
  template <typename T, typename Read>
  Result<std::map<int64_t, T>> by_job(std::string_view table, std::string_view column,
                                      std::optional<int64_t> job, Read read);
  Result<std::map<int64_t, uint32_t>> elastic_jobs(std::optional<int64_t> job = {});
  Result<std::map<int64_t, std::string>> datasets(std::optional<int64_t> job = {});
  Result<std::map<int64_t, uint32_t>> gpus(std::optional<int64_t> job = {});
  Result<std::map<int64_t, QueueTerms>> terms(std::optional<int64_t> job = {});

  SqliteDatabase& database_;
  const std::string directory_;
};

}  // namespace leat

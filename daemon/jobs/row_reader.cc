#include "daemon/jobs/row_reader.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "daemon/jobs/row_coding.h"
#include "daemon/jobs/row_writer.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The column `epoch` is the number of the assembly: its name is older than the word.
constexpr char kSelectConditions[] =
    "SELECT job, state, reason, since_ms, restarts, epoch, workers, result, crc FROM conditions ";

// Reads the current row of a kSelectConditions.
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
  condition.result = parse_result(row.bytes(7));
  if (row.integer(8) != crc_of(number, condition, row.bytes(7))) {
    return failed_precondition(cat("the checksum of a condition of job ", number, " is wrong"));
  }
  return condition;
}

// Reads the current row of `lost_epochs`, whose columns are in the order of its CREATE TABLE.
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
  // The mask keeps the number within the enum until the check below refuses the row.
  lost.source = static_cast<RecoverySource>(row.integer(12) & 3);
  if (row.integer(13) != crc_of(row.integer(0), lost) || row.integer(12) > 3) {
    return failed_precondition(
        cat("the checksum of a lost assembly of job ", row.integer(0), " is wrong"));
  }
  return lost;
}

// The facts of jobs that have tables of their own, by the job's number.
struct OptionalFacts {
  std::map<int64_t, uint32_t> least_workers;
  std::map<int64_t, std::string> datasets;
  std::map<int64_t, uint32_t> gpus;
  std::map<int64_t, QueueTerms> terms;
};

// Reads the current row of replay()'s SELECT. The checksum covers the row's optional facts in other
// tables as well, so they are looked up first.
Result<StoredJob> read_job(const SqliteStatement& row, const OptionalFacts& facts) {
  StoredJob job;
  job.number = static_cast<uint64_t>(row.integer(0));
  job.id = row.bytes(1);
  job.request_id = row.bytes(2);
  const bool has_content = read_digest(row.bytes(3), job.content);
  job.name = row.bytes(4);
  job.num_workers = static_cast<uint32_t>(row.integer(5));
  job.max_restarts = static_cast<uint32_t>(row.integer(6));
  job.submitted_ms = row.integer(7);
  const auto look_up = [&row](const auto& all, auto& fact) {
    const auto found = all.find(row.integer(0));
    if (found != all.end()) fact = found->second;
  };
  look_up(facts.least_workers, job.min_workers);
  look_up(facts.datasets, job.dataset);
  look_up(facts.gpus, job.gpus);
  look_up(facts.terms, job.terms);
  job.session = row.bytes(9) == kSessionText;
  if (!has_content || row.integer(8) != crc_of(job)) {
    return failed_precondition(cat("the checksum of job ", job.number, " is wrong"));
  }
  job.request_id = request_id_of(row.bytes(2));
  return job;
}

// The specs of the faults that a job injects.
Result<std::vector<std::string>> read_chaos(SqliteDatabase& database, int64_t job) {
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement chaos,
      database.prepare("SELECT spec FROM chaos WHERE job = ?1 ORDER BY position"));
  chaos.bind(1, job);
  std::vector<std::string> specs;
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, chaos.step());
    if (!row) return specs;
    specs.emplace_back(chaos.bytes(0));
  }
}

}  // namespace

Result<std::vector<StoredJob>> RowReader::replay() {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare(cat("SELECT number, id, request_id, content, name, "
                                              "num_workers, max_restarts, submitted_ms, crc, "
                                              "substr(text, 1, ",
                                              kSessionText.size(), ") FROM jobs ORDER BY number")));
  LEAT_ASSIGN_OR_RETURN(SqliteStatement conditions,
                        database_.prepare(cat(kSelectConditions, "ORDER BY job, sequence")));
  // Both tables are read once, in the same order: `conditions` always stands at the first row that
  // no job has taken yet.
  LEAT_ASSIGN_OR_RETURN(bool more, conditions.step());
  LEAT_ASSIGN_OR_RETURN(auto histories, this->histories());
  LEAT_ASSIGN_OR_RETURN(auto fired, fired_faults());
  OptionalFacts facts;
  LEAT_ASSIGN_OR_RETURN(facts.least_workers, elastic_jobs());
  LEAT_ASSIGN_OR_RETURN(facts.datasets, datasets());
  LEAT_ASSIGN_OR_RETURN(facts.gpus, gpus());
  LEAT_ASSIGN_OR_RETURN(facts.terms, terms());
  LEAT_ASSIGN_OR_RETURN(auto reports, last_reports());
  LEAT_RETURN_IF_ERROR(add_metrics(reports));
  std::vector<StoredJob> jobs;
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) break;
    LEAT_ASSIGN_OR_RETURN(StoredJob job, read_job(select, facts));
    // The conditions of this job, oldest first, as the running master went through them.
    bool first = true;
    while (more && conditions.integer(0) == static_cast<int64_t>(job.number)) {
      LEAT_ASSIGN_OR_RETURN(JobCondition next, read_condition(conditions));
      const JobState from = job.condition.state;
      // A wrong transition means that rows are missing, although each checksum may be right.
      if (first ? next.state != JobState::queued : !may_become(from, next.state)) {
        return failed_precondition(cat("job '", job.id, "' went from ", name_of(from), " to ",
                                       name_of(next.state), ", which it cannot"));
      }
      // The first condition is the submit itself; become() would count a time before it.
      if (first)
        job.condition = std::move(next);
      else
        job.become(std::move(next));
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
  // A condition is left over, so the job's own row is gone.
  if (more) {
    return failed_precondition(
        cat("a condition is of job ", conditions.integer(0), ", which is missing"));
  }
  return jobs;
}

Result<bool> RowReader::has_table(std::string_view name) {
  LEAT_ASSIGN_OR_RETURN(
      const std::string count,
      database_.ask(cat("SELECT count(*) FROM sqlite_master WHERE name = '", name, "'")));
  return count != "0";
}

Result<std::map<int64_t, std::vector<FiredFault>>> RowReader::fired_faults() {
  std::map<int64_t, std::vector<FiredFault>> all;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table("fired_faults"));
  if (!there) return all;
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_.prepare("SELECT job, position, fault, epoch, at_ms, crc FROM fired_faults "
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

// Reads `column` of a table with one row for each job that has such a fact: of `job`, or of all.
// Older journals lack the table.
template <typename T, typename Read>
Result<std::map<int64_t, T>> RowReader::by_job(std::string_view table, std::string_view column,
                                               std::optional<int64_t> job, Read read) {
  std::map<int64_t, T> all;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table(table));
  if (!there) return all;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare(cat("SELECT job, ", column, " FROM ", table,
                                              job ? " WHERE job = ?1" : "")));
  if (job) select.bind(1, *job);
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return all;
    all[select.integer(0)] = read(select);
  }
}

// Returns the least number of workers of elastic jobs.
Result<std::map<int64_t, uint32_t>> RowReader::elastic_jobs(std::optional<int64_t> job) {
  return by_job<uint32_t>("elastic_jobs", "min_workers", job, [](const SqliteStatement& row) {
    return static_cast<uint32_t>(row.integer(1));
  });
}

Result<std::map<int64_t, std::string>> RowReader::datasets(std::optional<int64_t> job) {
  return by_job<std::string>("datasets", "name", job,
                             [](const SqliteStatement& row) { return std::string(row.bytes(1)); });
}

Result<std::map<int64_t, uint32_t>> RowReader::gpus(std::optional<int64_t> job) {
  return by_job<uint32_t>("gpu_jobs", "gpus", job, [](const SqliteStatement& row) {
    return static_cast<uint32_t>(row.integer(1));
  });
}

Result<std::map<int64_t, QueueTerms>> RowReader::terms(std::optional<int64_t> job) {
  return by_job<QueueTerms>("queue_terms", "terms", job,
                            [](const SqliteStatement& row) { return parse_terms(row.bytes(1)); });
}

Result<std::map<int64_t, ProgressReport>> RowReader::last_reports() {
  std::map<int64_t, ProgressReport> reports;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table("last_reports"));
  if (!there) return reports;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare("SELECT job, report, crc FROM last_reports"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return reports;
    const std::string_view bytes = select.bytes(1);
    if (select.integer(2) != crc_of_report(select.integer(0), bytes)) {
      return failed_precondition(
          cat("the checksum of the last report of job ", select.integer(0), " is wrong"));
    }
    // Another version of leatd may have written fewer numbers, or more.
    ReportNumbers numbers = numbers_of(ProgressReport());
    for (size_t i = 0; i < std::min(numbers.size(), bytes.size() / 8); ++i)
      numbers[i] = decode_number(bytes.substr(8 * i));
    reports[select.integer(0)] = report_of(numbers);
  }
}

Status RowReader::add_metrics(std::map<int64_t, ProgressReport>& reports) {
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table("last_metrics"));
  if (!there) return {};
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare("SELECT job, metrics, crc FROM last_metrics"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return {};
    const std::string_view bytes = select.bytes(1);
    const auto report = reports.find(select.integer(0));
    const auto texts = decode_list(bytes);
    if (select.integer(2) != crc_of_report(select.integer(0), bytes) || !texts.ok() ||
        texts->size() % 2 != 0) {
      return failed_precondition(
          cat("the checksum of the last metrics of job ", select.integer(0), " is wrong"));
    }
    if (report == reports.end()) continue;
    for (size_t i = 0; i + 1 < texts->size(); i += 2) {
      const std::string& value = (*texts)[i + 1];
      if (value.size() != 8) return failed_precondition("a metric is no number of 8 bytes");
      report->second.ended.more.push_back(
          {(*texts)[i], std::bit_cast<double>(decode_number(value))});
    }
  }
}

Result<std::set<std::string>> RowReader::names_of(std::string_view table) {
  std::set<std::string> names;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table(table));
  if (!there) return names;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare(cat("SELECT name, crc FROM ", table)));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return names;
    const auto [name, fresh] = names.emplace(select.bytes(0));
    if (select.integer(1) != RowEncoder().add(*name).crc())
      return failed_precondition(cat("the checksum of a row of ", table, " is wrong"));
  }
}

// Returns the histories by job. Older journals lack the table.
Result<std::map<int64_t, JobHistory>> RowReader::histories() {
  std::map<int64_t, JobHistory> histories;
  LEAT_ASSIGN_OR_RETURN(const bool there, has_table("lost_epochs"));
  if (!there) return histories;
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare("SELECT * FROM lost_epochs ORDER BY job, number"));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return histories;
    LEAT_ASSIGN_OR_RETURN(const LostAssembly lost, read_lost(select));
    histories[select.integer(0)].put(lost);
  }
}

Result<Submission> RowReader::submission(std::string_view id) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare("SELECT number, request_id, name, text, overrides, "
                                          "num_workers, max_restarts, content "
                                          "FROM jobs WHERE id = ?1"));
  LEAT_ASSIGN_OR_RETURN(const bool found, select.bind(1, id).step());
  if (!found) return failed_precondition(cat("the journal has no job '", id, "'"));
  Submission submission;
  // The optional facts are in tables of their own, as in replay().
  submission.request_id = request_id_of(select.bytes(1));
  submission.name = select.bytes(2);
  submission.text = select.bytes(3);
  LEAT_ASSIGN_OR_RETURN(submission.overrides, decode_list(select.bytes(4)));
  submission.num_workers = static_cast<uint32_t>(select.integer(5));
  submission.max_restarts = static_cast<uint32_t>(select.integer(6));
  LEAT_ASSIGN_OR_RETURN(const auto elastic, elastic_jobs(select.integer(0)));
  if (!elastic.empty()) submission.min_workers = elastic.begin()->second;
  LEAT_ASSIGN_OR_RETURN(const auto datasets, this->datasets(select.integer(0)));
  if (!datasets.empty()) submission.dataset = datasets.begin()->second;
  LEAT_ASSIGN_OR_RETURN(const auto gpus, this->gpus(select.integer(0)));
  if (!gpus.empty()) submission.gpus = gpus.begin()->second;
  LEAT_ASSIGN_OR_RETURN(const auto terms, this->terms(select.integer(0)));
  if (!terms.empty()) submission.terms = terms.begin()->second;
  Sha256Digest content = {};
  bool intact = read_digest(select.bytes(7), content);

  LEAT_ASSIGN_OR_RETURN(SqliteStatement files,
                        database_.prepare("SELECT name, size, sha256, bytes FROM files "
                                          "WHERE job = ?1 ORDER BY position"));
  files.bind(1, select.integer(0));
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, files.step());
    if (!row) break;
    AttachedFile file;
    Sha256Digest digest = {};
    intact = read_digest(files.bytes(2), digest) && intact;
    // A blob's bytes are checked when they are read.
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
  LEAT_ASSIGN_OR_RETURN(submission.chaos, read_chaos(database_, select.integer(0)));
  // One hash over all that was read, instead of a checksum for each row.
  if (!intact || content_of(submission) != content) {
    return failed_precondition(
        cat("journal '", directory_, "' is damaged: job '", id, "' is not as it was submitted"));
  }
  return submission;
}

Result<std::map<std::string, uint64_t>> RowReader::files_of(std::string_view user) {
  LEAT_ASSIGN_OR_RETURN(const auto terms, this->terms());
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare("SELECT job, lower(hex(sha256)), size FROM files"));
  std::map<std::string, uint64_t> sizes;
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return sizes;
    // A job without terms is one of a client without a name.
    const auto of = terms.find(select.integer(0));
    if ((of == terms.end() ? std::string_view() : std::string_view(of->second.user)) != user)
      continue;
    sizes[std::string(select.bytes(1))] = static_cast<uint64_t>(select.integer(2));
  }
}

Result<std::vector<std::pair<std::string, std::string>>> RowReader::workers_of_jobs() {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement names, database_.prepare("SELECT number, id FROM jobs"));
  std::map<int64_t, std::string> ids;
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool row, names.step());
    if (!row) break;
    ids[names.integer(0)] = names.bytes(1);
  }
  LEAT_ASSIGN_OR_RETURN(SqliteStatement select,
                        database_.prepare(cat(kSelectConditions, "ORDER BY sequence")));
  std::map<std::pair<std::string, std::string>, uint64_t> last;  // condition that names the pair
  for (uint64_t number = 0;; ++number) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) break;
    LEAT_ASSIGN_OR_RETURN(const JobCondition condition, read_condition(select));
    for (const std::string& worker : condition.workers)
      last[{worker, ids[select.integer(0)]}] = number;
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [pair, at] : last) pairs.push_back(pair);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& a, const auto& b) { return last.at(a) < last.at(b); });
  return pairs;
}

Result<std::vector<JobCondition>> RowReader::history(std::string_view id) {
  LEAT_ASSIGN_OR_RETURN(const int64_t number, job_number(database_, id));
  LEAT_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_.prepare(cat(kSelectConditions, "WHERE job = ?1 ORDER BY sequence")));
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

#include "daemon/jobs/row_coding.h"

#include <algorithm>

namespace leat {

// SQLite takes and returns blobs as text views; a digest goes through unchanged.
std::string_view view_of(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Little-endian, on any machine. The caller has checked that there are 8 bytes.
uint64_t decode_number(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 8; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

Result<std::vector<std::string>> decode_list(std::string_view bytes) {
  std::vector<std::string> list;
  while (!bytes.empty()) {
    if (bytes.size() < 8) return failed_precondition("a list is cut short");
    // The size is from the disk and may be any number, so it is compared before it is used.
    const uint64_t size = decode_number(bytes);
    bytes.remove_prefix(8);
    if (bytes.size() < size) return failed_precondition("a list is cut short");
    list.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return list;
}

bool read_digest(std::string_view bytes, Sha256Digest& digest) {
  if (bytes.size() != digest.size()) return false;
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(digest.data()));
  return true;
}

// The order of the fields, and of those below, is a part of the journal's format: another order
// would make every existing row look damaged.
int64_t crc_of(const StoredJob& job) {
  RowEncoder encoder;
  encoder.add(job.number).add(job.id).add(job.request_id).add(view_of(job.content)).add(job.name);
  encoder.add(uint64_t{job.num_workers}).add(uint64_t{job.max_restarts});
  // Journals are older than these fields. A job without them has the checksum that it always had.
  if (job.min_workers > 0) encoder.add(uint64_t{job.min_workers});
  if (!job.dataset.empty()) encoder.add(job.dataset);
  if (job.gpus > 0) encoder.add(uint64_t{job.gpus});
  if (const std::string terms = print_terms(job.terms); !terms.empty()) encoder.add(terms);
  return encoder.add(static_cast<uint64_t>(job.submitted_ms)).crc();
}

int64_t crc_of(int64_t number, const JobCondition& condition, std::string_view result) {
  RowEncoder encoder;
  // The job's number is part of the sum, so a row that got into another job is found as well.
  encoder.add(static_cast<uint64_t>(number)).add(static_cast<uint64_t>(condition.state));
  encoder.add(condition.reason).add(static_cast<uint64_t>(condition.since_ms));
  encoder.add(uint64_t{condition.restarts}).add(condition.assembly).add(condition.workers);
  return encoder.add(result).crc();
}

int64_t crc_of(int64_t job, const LostAssembly& lost) {
  RowEncoder encoder;
  encoder.add(static_cast<uint64_t>(job)).add(lost.assembly).add(lost.number);
  encoder.add(lost.cause).add(lost.culprit).add(lost.fault);
  for (const int64_t number : {lost.began_ms, lost.failed_ms, lost.detected_after,
                               lost.recovered_after, lost.stopped_at, lost.went_on_from}) {
    encoder.add(static_cast<uint64_t>(number));
  }
  return encoder.add(static_cast<uint64_t>(lost.source)).crc();
}

int64_t crc_of(int64_t job, const FiredFault& fired) {
  RowEncoder encoder;
  encoder.add(static_cast<uint64_t>(job)).add(uint64_t{fired.index}).add(fired.fault);
  return encoder.add(fired.assembly).add(static_cast<uint64_t>(fired.at_ms)).crc();
}

// The sum is over the bytes as they are and not over the fields, because another version of leatd
// may have written more or fewer of them.
int64_t crc_of_report(int64_t job, std::string_view bytes) {
  return RowEncoder().add(static_cast<uint64_t>(job)).add(bytes).crc();
}

}  // namespace leat

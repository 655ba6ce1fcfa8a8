#include "daemon/jobs/records.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "daemon/base/sealed_magic.h"
#include "daemon/spec/chaos_fault.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The texts before the parts of a printed result.
constexpr std::string_view kShards = " shards=", kSeed = " seed=", kCpu = " cpu=";
constexpr std::string_view kPrecision = " precision=", kTiming = " timing=1";

// Limits of a submission. They bound the rows of the journal and the messages between processes.
constexpr size_t kMaxRequestId = 64;
constexpr size_t kMaxName = 1024;
constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxInlineFile = 1 << 20;
constexpr size_t kMaxOverrides = 256;
constexpr uint32_t kMaxWorkers = 4096;
constexpr size_t kMaxIdStem = 48;

// Each field with its length, so that no two submissions give the same bytes.
class ContentHash {
 public:
  ContentHash& add(uint64_t number) {
    char bytes[8];
    // Little-endian on any machine, because the hash is compared with one from the journal.
    for (char& byte : bytes) {
      byte = static_cast<char>(number & 0xff);
      number >>= 8;
    }
    hash_.update(std::string_view(bytes, sizeof bytes));
    return *this;
  }
  ContentHash& add(std::string_view text) {
    add(uint64_t{text.size()});
    hash_.update(text);
    return *this;
  }
  ContentHash& add(const Sha256Digest& digest) {
    hash_.update(std::as_bytes(std::span(digest)));
    return *this;
  }
  Sha256Digest finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
};

// Without the space, so that a request id is one word in a log.
bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// Without control characters.
bool is_shown(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

Status check_files(const Submission& submission) {
  const std::string subject = cat("job '", submission.name, "': ");
  // The files of a checkpoint have a limit of their own: there may be thousands of parts.
  const auto resumed = static_cast<size_t>(
      std::count_if(submission.files.begin(), submission.files.end(),
                    [](const AttachedFile& file) { return file.name.starts_with(kResumed); }));
  const size_t others = submission.files.size() - resumed;
  if (resumed > kMaxResumedFiles || others > kMaxOtherFiles) {
    return invalid_argument(cat(subject, "expected at most ", kMaxOtherFiles,
                                " attached files, and ", kMaxResumedFiles,
                                " of a checkpoint, received ", others, " and ", resumed));
  }
  std::set<std::string_view> names;
  for (const AttachedFile& file : submission.files) {
    if (!is_tame_path(file.name)) {
      return invalid_argument(cat(subject,
                                  "expected the name of an attached file to be relative "
                                  "without '.' or '..' parts, received '",
                                  file.name, "'"));
    }
    if (!names.insert(file.name).second) {
      return invalid_argument(cat(subject, "file '", file.name, "' is attached twice"));
    }
    if (file.bytes && (file.bytes->size() > kMaxInlineFile || file.bytes->size() != file.size)) {
      return invalid_argument(cat(subject, "expected at most ", human_bytes(kMaxInlineFile),
                                  " in a file that is not uploaded, received ",
                                  human_bytes(file.bytes->size()), " as '", file.name, "'"));
    }
    if (file.bytes && begins_sealed(std::as_bytes(std::span(*file.bytes))))
      return refuse_sealed(cat(subject, "file '", file.name, "'"));
  }
  // The files are written below one folder, so "a" and "a/b" cannot both exist.
  for (const std::string_view name : names) {
    for (size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1)) {
      const std::string_view folder = name.substr(0, end);
      if (!names.contains(folder)) continue;
      return invalid_argument(cat(subject, "expected '", folder, "' to be a file or a folder, '",
                                  folder, "' and '", name, "' are attached"));
    }
  }
  return {};
}

}  // namespace

bool is_tame_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxName || path.front() == '/') return false;
  if (path.find('\0') != std::string_view::npos) return false;
  // `<=`, so that a path that ends with '/' has an empty last part and is refused.
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

AttachedFile attach(std::string name, std::string bytes) {
  AttachedFile file;
  file.name = std::move(name);
  file.size = bytes.size();
  file.sha256 = sha256(std::as_bytes(std::span(bytes.data(), bytes.size())));
  file.bytes = std::move(bytes);
  return file;
}

Status check_submission(const Submission& submission) {
  const std::string& id = submission.request_id;
  if (id.empty() || id.size() > kMaxRequestId || !is_printable(id)) {
    return invalid_argument(cat("submit: expected a request id of 1 to ", kMaxRequestId,
                                " printable characters, received ", id.size(), " bytes"));
  }
  if (submission.name.empty() || submission.name.size() > kMaxName) {
    return invalid_argument(cat("submit: expected a job's name of 1 to ", kMaxName,
                                " bytes, received ", submission.name.size()));
  }
  if (submission.text.size() > kMaxText || submission.overrides.size() > kMaxOverrides) {
    return invalid_argument(cat("job '", submission.name, "': expected a job file of at most ",
                                human_bytes(kMaxText), " and ", kMaxOverrides,
                                " overrides, received ", human_bytes(submission.text.size()),
                                " and ", submission.overrides.size()));
  }
  if (submission.num_workers == 0 || submission.num_workers > kMaxWorkers) {
    return invalid_argument(cat("job '", submission.name, "': expected num_workers from 1 to ",
                                kMaxWorkers, ", received ", submission.num_workers));
  }
  if (submission.min_workers > submission.num_workers) {
    return invalid_argument(cat("job '", submission.name, "': expected at least ",
                                submission.min_workers, " workers, received ",
                                submission.num_workers, " at most"));
  }
  const QueueTerms& terms = submission.terms;
  if (terms.user.size() > kMaxUserName || !is_shown(terms.user)) {
    return invalid_argument(cat("job '", submission.name, "': expected a user's name of at most ",
                                kMaxUserName, " bytes without control characters, received ",
                                terms.user.size(), " bytes"));
  }
  if (submission.chaos.size() > kMostChaos) {
    return invalid_argument(cat("job '", submission.name, "': expected at most ", kMostChaos,
                                " entries of --chaos, received ", submission.chaos.size()));
  }
  for (const std::string& each : submission.chaos) {
    LEAT_RETURN_IF_ERROR(check_chaos(each, submission.num_workers));
  }
  return check_files(submission);
}

// A request id has no line break.
std::string request_key(std::string_view user, std::string_view request_id) {
  return cat(request_id, "\n", user);
}
std::string_view request_id_of(std::string_view key) { return key.substr(0, key.find('\n')); }

// The order and the choice of fields are a part of the journal's format: the journal keeps the hash
// and compares it with the submission that it reads.
Sha256Digest content_of(const Submission& submission) {
  ContentHash hash;
  hash.add(submission.name).add(submission.text);
  hash.add(uint64_t{submission.overrides.size()});
  for (const std::string& each : submission.overrides) hash.add(each);
  hash.add(uint64_t{submission.files.size()});
  for (const AttachedFile& file : submission.files) hash.add(file.name).add(file.sha256);
  hash.add(uint64_t{submission.num_workers}).add(uint64_t{submission.max_restarts});
  for (const std::string& each : submission.chaos) hash.add(each);
  // Journals of older versions have jobs without the fields below.
  if (submission.min_workers > 0) {
    hash.add(std::string_view("min_workers")).add(uint64_t{submission.min_workers});
  }
  if (submission.gpus > 0) hash.add(std::string_view("gpus")).add(uint64_t{submission.gpus});
  if (const std::string terms = print_terms(submission.terms); !terms.empty())
    hash.add(std::string_view("terms")).add(terms);
  return hash.finish();
}

std::string make_job_id(std::string_view name, uint64_t random, int digits) {
  std::string id;
  // A run of other characters becomes one '-'. The result satisfies is_job_id().
  for (const char c : name) {
    if (id.size() == kMaxIdStem) break;
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain) {
      id += c;
    } else if (c >= 'A' && c <= 'Z') {
      id += static_cast<char>(c - 'A' + 'a');
    } else if (!id.empty() && id.back() != '-') {
      id += '-';
    }
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  if (id.empty()) id = "job";
  id += '-';
  // The lowest 4 * digits bits of `random`, the highest of them first.
  for (int i = digits; i-- > 0;) id += "0123456789abcdef"[(random >> (4 * i)) & 15];
  return id;
}

std::string precision_clause(std::string_view precision) {
  return precision == JobResult().precision ? "" : cat(", precision ", precision);
}

std::string print_result(const JobResult& result) {
  if (result.shards == 0) return result.weights_sha256;
  const bool usual = result.precision == JobResult().precision;
  return cat(result.weights_sha256, kShards, result.shards, kSeed, result.seed,
             usual ? "" : kPrecision, usual ? "" : result.precision,
             result.depends_on_timing ? kTiming : "", kCpu, result.cpu);
}

JobResult parse_result(std::string_view text) {
  JobResult result;
  // Takes "<mark><number>" from the front of the text; false if it does not begin so.
  const auto take = [&](std::string_view mark, uint64_t& number) {
    if (!text.starts_with(mark)) return false;
    text.remove_prefix(mark.size());
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
    return parsed.ec == std::errc();
  };
  result.weights_sha256 = text.substr(0, text.find(' '));
  text.remove_prefix(result.weights_sha256.size());
  // A text that cannot be read to its end gives the hash alone, not half of the facts.
  JobResult whole = result;
  if (!take(kShards, whole.shards) || !take(kSeed, whole.seed)) return result;
  if (text.starts_with(kPrecision)) {
    text.remove_prefix(kPrecision.size());
    whole.precision = text.substr(0, text.find(' '));
    text.remove_prefix(whole.precision.size());
  }
  whole.depends_on_timing = text.starts_with(kTiming);
  if (whole.depends_on_timing) text.remove_prefix(kTiming.size());
  if (!text.starts_with(kCpu)) return result;
  whole.cpu = text.substr(kCpu.size());
  return whole;
}

// RowReader::replay() gives the same job after a restart. A job begins as QUEUED, which is the
// default of its condition, and then becomes PAUSED at once if it was submitted so.
StoredJob stored(const JobSubmitted& submitted) {
  StoredJob job;
  job.number = submitted.number;
  job.id = submitted.id;
  job.request_id = submitted.submission->request_id;
  job.content = submitted.content;
  job.name = submitted.submission->name;
  job.num_workers = submitted.submission->num_workers;
  job.min_workers = submitted.submission->min_workers;
  job.max_restarts = submitted.submission->max_restarts;
  job.dataset = submitted.submission->dataset;
  job.gpus = submitted.submission->gpus;
  job.terms = submitted.submission->terms;
  job.session = is_session(*submitted.submission);
  job.submitted_ms = submitted.at_ms;
  job.condition.since_ms = submitted.at_ms;
  if (job.terms.paused) {
    job.condition.state = JobState::paused;
    job.condition.reason = "submitted so";
  }
  return job;
}

}  // namespace leat

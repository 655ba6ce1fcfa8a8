#include "daemon/metrics_log.h"

#include <charconv>
#include <limits>

#include "devices/base/text.h"

namespace leat {
namespace {

// A few hundred rows. When the master dies, those that were not written are taken from workers,
// which remember so many more than they go on without it: see Commits::rows_of().
constexpr size_t kBufferBytes = 16 << 10;
constexpr size_t kMostKept = 64 << 20;
constexpr uint64_t kTailBytes = 256 << 10;  // that are read first: a few thousand rows
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The step of a row as append() writes it, or 0 if the line is none.
int64_t step_of(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\": ";
  if (!line.starts_with(kStart) || !line.ends_with('}')) return 0;
  int64_t step = 0;
  const char* begin = line.data() + kStart.size();
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), step);
  return error == std::errc() && (*end == ',' || *end == '}') ? step : 0;
}

struct Rows {
  std::string_view text;
  int64_t last_step = 0;
};

// The rows 1..last_step at the front of the text.
Rows rows_up_to(std::string_view text, int64_t last_step) {
  Rows rows;
  size_t kept = 0;
  for (;;) {
    const size_t end = text.find('\n', kept);
    if (end == std::string_view::npos) break;
    const int64_t step = step_of(text.substr(kept, end - kept));
    if (step < 1 || step > last_step) break;
    rows.last_step = step;
    kept = end + 1;
  }
  rows.text = text.substr(0, kept);
  return rows;
}

// The values of a row behind its step.
std::vector<double> values_of(std::string_view line, bool f32) {
  std::vector<double> values;
  size_t at = line.find(": ");
  for (at = line.find(": ", at + 1); at != std::string_view::npos; at = line.find(": ", at + 1)) {
    const char* const begin = line.data() + at + 2;
    const char* const end = line.data() + line.size();
    double value = std::numeric_limits<double>::quiet_NaN();
    if (float narrow = 0; f32 && std::from_chars(begin, end, narrow).ec == std::errc())
      value = narrow;
    else if (!f32)
      (void)std::from_chars(begin, end, value);  // null leaves it as it is
    values.push_back(value);
  }
  return values;
}

Result<Bytes> read_log(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const bool exists, files.exists(path));
  return exists ? read_file(files, path, kMaxFileBytes) : Bytes();
}

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A new file with these rows, written beside the old one and renamed over it while open: no moment
// has neither.
Result<std::unique_ptr<WritableFile>> write_anew(Files& files, const std::string& path,
                                                 std::string_view rows) {
  const std::string fresh = path + ".tmp";
  LEAT_ASSIGN_OR_RETURN(const bool leftover, files.exists(fresh));
  if (leftover) LEAT_RETURN_IF_ERROR(files.remove(fresh));
  LEAT_ASSIGN_OR_RETURN(auto file, files.create(fresh));
  Status status = file->append(bytes_of(rows));
  if (status.ok() && !rows.empty()) status = file->sync();  // as the old file is
  if (status.ok()) status = files.rename(fresh, path);
  if (status.ok()) return file;
  (void)files.remove(fresh);  // the first failure is the one that counts
  return status.while_doing(cat("writing '", path, "'"));
}

LoggedMetrics parse_rows(std::string_view text, int64_t after_step, bool f32) {
  LoggedMetrics logged;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    const int64_t step = step_of(line);
    if (step <= logged.last_step) break;
    logged.last_step = step;
    if (step > after_step) logged.tail.push_back({step, values_of(line, f32)});
    text.remove_prefix(end + 1);
  }
  return logged;
}

}  // namespace

Result<LoggedMetrics> read_metrics(Files& files, const std::string& path, int64_t after_step,
                                   bool f32) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_log(files, path));
  return parse_rows(text_of(bytes), after_step, f32);
}

Result<LoggedMetrics> read_last_metrics(Files& files, const std::string& path, int64_t after_step,
                                        bool f32) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  for (uint64_t length = kTailBytes;; length *= 4) {
    Bytes bytes(static_cast<size_t>(std::min(length, file->size())));
    LEAT_RETURN_IF_ERROR(file->read(file->size() - bytes.size(), bytes));
    std::string_view text = text_of(bytes);
    const bool whole = bytes.size() == file->size();
    if (!whole) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    const int64_t first = step_of(text.substr(0, text.find('\n')));
    if (whole || (first > 0 && first <= after_step + 1)) return parse_rows(text, after_step, f32);
  }
}

Result<std::unique_ptr<MetricsLog>> MetricsLog::open(Files& files, const std::string& path,
                                                     int64_t last_step) {
  Bytes old;
  if (last_step > 0) {
    LEAT_ASSIGN_OR_RETURN(old, read_log(files, path));
  }
  const std::string_view text = text_of(old);
  const Rows kept = rows_up_to(text, last_step);
  Result<std::unique_ptr<WritableFile>> file = unimplemented("rows go");
  if (!kept.text.empty() && kept.text.size() == text.size())
    file = files.append_to(path, text.size());
  if (!file.ok()) file = write_anew(files, path, kept.text);
  LEAT_RETURN_IF_ERROR(file.status());
  return std::unique_ptr<MetricsLog>(
      new MetricsLog(files, directory_of(path), std::move(*file), kept.last_step));
}

Status MetricsLog::append(int64_t step, std::span<const StepMetric> metrics) {
  line_.clear();
  line_.add("step", step);
  last_step_ = step;
  for (const StepMetric& metric : metrics) {
    std::visit([&](auto value) { line_.add(metric.name, value); }, metric.value);
  }
  size_t buffered = 0;
  {
    const std::lock_guard lock(buffering_);
    buffer_ += line_.text();
    buffered = buffer_.size();
  }
  return buffered >= kBufferBytes ? flush() : Status();
}

// REQUIRES: writing_ is held.
Status MetricsLog::write() {
  LEAT_RETURN_IF_ERROR(broken_);
  {
    const std::lock_guard lock(buffering_);
    pending_ += buffer_;
    buffer_.clear();
  }
  if (pending_.empty()) return {};
  const Status appended = file_->append(bytes_of(pending_));
  behind_ = appended.code() == Code::resource_exhausted;
  if (appended.ok()) pending_.clear();
  return appended;
}

Status MetricsLog::flush() {
  const std::unique_lock lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return {};  // who writes may have taken these rows, or the next flush does
  const Status written = write();
  const bool later = written.code() == Code::resource_exhausted && pending_.size() < kMostKept;
  return later ? Status() : written;
}

Status MetricsLog::sync() {
  const std::lock_guard syncing(syncing_);
  {
    const std::lock_guard writing(writing_);
    LEAT_RETURN_IF_ERROR(write());
  }
  const Status synced = file_->sync();
  {
    const std::lock_guard writing(writing_);
    // Also for want of room: only a new file helps, which another attempt has. That it makes one, a
    // torn row sees to.
    if (!synced.ok() && broken_.ok()) {
      broken_ = unavailable(std::string(synced.message()));
      (void)file_->append(bytes_of("{"));
    }
    LEAT_RETURN_IF_ERROR(broken_);
  }
  if (!named_) LEAT_RETURN_IF_ERROR(files_.sync_directory(folder_));
  named_ = true;
  return {};
}

}  // namespace leat

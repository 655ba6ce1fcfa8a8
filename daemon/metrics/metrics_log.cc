#include "daemon/metrics/metrics_log.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "daemon/metrics/metrics_extent.h"
#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A few hundred rows. If the master dies, rows that were not written come from the workers, which
// keep as many rows as the master may buffer and more: see Commits::rows_of().
constexpr size_t kBufferBytes = 16 << 10;
constexpr size_t kMostKept = 64 << 20;
constexpr uint64_t kTailBytes = 256 << 10;                   // read first: a few thousand rows
constexpr std::string_view kSkippedOne = "\"skipped\": 1,";  // other values follow
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A line of a log.
struct Line {
  int64_t step = 0;       // 0: the line is neither a step's row nor an epoch's
  int64_t epoch = 0;      // 0: the line is not an epoch's row
  std::string_view rest;  // the text after the step: ", ...}" or "}"
};

// Removes `key` and the number after it from the front of `text` and returns the number; 0 if they
// are not there.
int64_t take_number(std::string_view& text, std::string_view key) {
  if (!text.starts_with(key)) return 0;
  int64_t number = 0;
  const char* const begin = text.data() + key.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

Line line_of(std::string_view text) {
  Line line;
  if (!text.ends_with('}')) return line;
  line.epoch = take_number(text, "{\"epoch\": ");
  const int64_t step = take_number(text, line.epoch > 0 ? ", \"step\": " : "{\"step\": ");
  if (step < 1 || (text[0] != ',' && text[0] != '}')) return line;
  line.step = step;
  line.rest = text;
  return line;
}

bool is_skipped(const Line& line) {
  return line.epoch == 0 && line.rest.find(kSkippedOne) != std::string_view::npos;
}

// The lines of `text` that a log keeps, as pieces of it.
class Kept {
 public:
  // Keeps the lines up to `last_step`.
  Kept(std::string_view text, int64_t last_step) {
    for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      const Line line = line_of(text.substr(0, end));
      if (line.step > last_step) break;
      if (takes(line)) take(text.substr(0, end + 1), line);
      text.remove_prefix(end + 1);
    }
  }

  // True if all of `text` is kept.
  bool is(std::string_view text) const {
    return pieces_.empty() ? text.empty() : pieces_.size() == 1 && pieces_[0].size() == text.size();
  }
  const std::vector<std::string_view>& pieces() const { return pieces_; }
  const std::vector<std::pair<int64_t, int64_t>>& missing() const { return missing_; }
  const std::vector<Line>& epochs() const { return epochs_; }
  int64_t last_step() const { return last_step_; }
  int64_t skipped_steps() const { return skipped_steps_; }

 private:
  bool takes(const Line& line) const {
    return line.epoch > 0 ? line.step == last_step_ : line.step > last_step_;
  }
  void take(std::string_view text, const Line& line) {
    if (line.step > last_step_ + 1) missing_.emplace_back(last_step_ + 1, line.step - 1);
    last_step_ = line.step;
    if (line.epoch > 0) epochs_.push_back(line);
    if (is_skipped(line)) ++skipped_steps_;
    const bool goes_on =
        !pieces_.empty() && pieces_.back().data() + pieces_.back().size() == text.data();
    if (goes_on)
      pieces_.back() = {pieces_.back().data(), pieces_.back().size() + text.size()};
    else
      pieces_.push_back(text);
  }

  std::vector<std::string_view> pieces_;
  std::vector<Line> epochs_;
  std::vector<std::pair<int64_t, int64_t>> missing_;
  int64_t last_step_ = 0;
  int64_t skipped_steps_ = 0;
};

// Reads a number as JsonLine writes it.
double number_at(std::string_view text, bool f32) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const char* const end = text.data() + text.size();
  if (text.starts_with("\"Infinity\"")) return kInfinite;
  if (text.starts_with("\"-Infinity\"")) return -kInfinite;
  double value = kNoNumber;
  if (float narrow = 0; f32 && std::from_chars(text.data(), end, narrow).ec == std::errc())
    value = narrow;
  else if (!f32)
    (void)std::from_chars(text.data(), end, value);  // "NaN", and null of older logs, do not set it
  return computed(value);
}

// Returns the values of a row after its step, without the timing.
std::vector<double> values_of(std::string_view rest, bool f32) {
  std::vector<double> values;
  rest = rest.substr(0, rest.find(", \"timing\""));
  for (size_t at = rest.find(": "); at != std::string_view::npos; at = rest.find(": ", at + 1))
    values.push_back(number_at(rest.substr(at + 2), f32));
  return values;
}

EpochResult epoch_of(const Line& line) {
  EpochResult epoch;
  const auto value = [&](std::string_view name) {
    const std::string key = cat("\"", name, "\": ");
    const size_t at = line.rest.find(key);
    if (at == std::string_view::npos) return kNoNumber;
    return number_at(line.rest.substr(at + key.size()), false);
  };
  epoch.epoch = static_cast<uint32_t>(line.epoch);
  epoch.step = static_cast<uint64_t>(line.step);
  epoch.loss = value("loss");
  epoch.accuracy = value("accuracy");
  epoch.val_loss = value("val_loss");
  epoch.val_accuracy = value("val_accuracy");
  epoch.seconds = value("seconds");
  epoch.samples_per_second = value("samples_per_second");
  return epoch;
}

Result<Bytes> read_log(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const bool exists, files.exists(path));
  return exists ? read_file(files, path, kMaxFileBytes) : Bytes();
}

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns a new file with these rows. It is written under another name and renamed over the old
// file while it is open, so that one of both exists at any moment.
Result<std::unique_ptr<WritableFile>> write_anew(Files& files, const std::string& path,
                                                 const std::vector<std::string_view>& rows) {
  const std::string fresh = path + ".tmp";
  LEAT_ASSIGN_OR_RETURN(const bool leftover, files.exists(fresh));
  if (leftover) LEAT_RETURN_IF_ERROR(files.remove(fresh));
  LEAT_ASSIGN_OR_RETURN(auto file, files.create(fresh));
  Status status;
  for (const std::string_view piece : rows) {
    if (status.ok()) status = file->append(bytes_of(piece));
  }
  if (status.ok() && !rows.empty()) status = file->sync();  // the old rows were synced, too
  if (status.ok()) status = files.rename(fresh, path);
  if (status.ok()) return file;
  (void)files.remove(fresh);  // report the first failure
  return status.while_doing(cat("writing '", path, "'"));
}

LoggedMetrics parse_rows(std::string_view text, int64_t after_step, bool f32) {
  LoggedMetrics logged;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const Line line = line_of(text.substr(0, end));
    text.remove_prefix(end + 1);
    if (line.epoch > 0 || line.step <= logged.last_step) continue;
    logged.last_step = line.step;
    if (line.step > after_step)
      logged.tail.push_back({line.step, values_of(line.rest, f32), is_skipped(line)});
  }
  return logged;
}

std::string text_of(const std::pair<int64_t, int64_t>& steps) {
  return steps.first == steps.second ? std::to_string(steps.first)
                                     : cat(steps.first, " to ", steps.second);
}

}  // namespace

int64_t MetricsLoss::missing_rows() const {
  int64_t rows = 0;
  for (const auto& [first, last] : missing) rows += last - first + 1;
  return rows;
}

std::string MetricsLoss::text() const {
  constexpr size_t kMostRanges = 8;
  std::vector<std::string> texts;
  std::vector<std::string> ranges;
  for (const auto& steps : missing) {
    if (ranges.size() < kMostRanges) ranges.push_back(text_of(steps));
  }
  if (ranges.size() < missing.size()) ranges.push_back("and more");
  if (missing_rows() == 1)
    texts.push_back(cat("1 row is missing: of step ", ranges[0]));
  else if (!missing.empty())
    texts.push_back(cat(missing_rows(), " rows are missing: of steps ", join(ranges, ", ")));
  if (changed_until > 0)
    texts.push_back(
        cat("some of the rows up to step ", changed_until, " are not those that were written"));
  return join(texts, "; ");
}

Result<MetricsExtent> read_metrics_extent(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_log(files, path));
  const Kept kept(text_of(bytes), std::numeric_limits<int64_t>::max());
  MetricsExtent extent;
  extent.last_step = kept.last_step();
  for (const Line& line : kept.epochs()) extent.epochs.emplace(line.epoch, line.step);
  return extent;
}

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
    const int64_t first = line_of(text.substr(0, text.find('\n'))).step;
    if (whole || (first > 0 && first <= after_step + 1)) return parse_rows(text, after_step, f32);
  }
}

Result<std::unique_ptr<MetricsLog>> MetricsLog::open(Files& files, const std::string& path,
                                                     int64_t last_step,
                                                     const std::optional<MetricsDigest>& expected) {
  Bytes old;
  if (last_step > 0) {
    LEAT_ASSIGN_OR_RETURN(old, read_log(files, path));
  }
  const std::string_view text = text_of(old);
  const Kept kept(text, last_step);
  Result<std::unique_ptr<WritableFile>> file = unimplemented("rows go");
  if (!text.empty() && kept.is(text)) file = files.append_to(path, text.size());
  if (!file.ok()) file = write_anew(files, path, kept.pieces());
  LEAT_RETURN_IF_ERROR(file.status());
  std::unique_ptr<MetricsLog> log(new MetricsLog(files, directory_of(path)));
  log->file_ = std::move(*file);
  log->last_step_ = kept.last_step();
  log->skipped_steps_ = kept.skipped_steps();
  log->loss_.missing = kept.missing();
  const size_t first = kept.epochs().size() - std::min(kept.epochs().size(), kMostEpochs);
  for (size_t i = first; i < kept.epochs().size(); ++i)
    log->epochs_.push_back(epoch_of(kept.epochs()[i]));
  for (const std::string_view piece : kept.pieces()) {
    log->crc_ = crc32c(bytes_of(piece), log->crc_);
    log->bytes_ += piece.size();
  }
  if (expected && last_step > 0) log->compare(text, *expected);
  return log;
}

// Compares the rows with the digest in a checkpoint. `text` is the file as it was found. If rows
// are missing that the checkpoint had, the digest differs for that reason, and no row counts as
// changed.
void MetricsLog::compare(std::string_view text, const MetricsDigest& expected) {
  loss_.changed_until = expected.changed_until;
  if (text.size() >= expected.bytes &&
      crc32c(bytes_of(text.substr(0, expected.bytes))) == expected.crc32c)
    return;
  int64_t missing = std::max<int64_t>(0, expected.step - last_step_);
  for (const auto& [first, last] : loss_.missing)
    missing += std::max<int64_t>(0, std::min(last, expected.step) - first + 1);
  if (missing <= expected.missing) loss_.changed_until = expected.step;
}

Status MetricsLog::append(int64_t step, std::span<const StepMetric> metrics,
                          std::optional<double> samples_per_second) {
  expect_rows_until(step - 1);
  line_.clear();
  line_.add("step", step);
  last_step_ = step;
  for (const StepMetric& metric : metrics) {
    const auto add = [&](auto value) {
      line_.add(metric.name, value);
      if (metric.name == kSkipped && value != 0) ++skipped_steps_;
    };
    std::visit(add, metric.value);
  }
  if (samples_per_second) {
    timing_.clear();
    line_.add("timing", timing_.add("samples_per_second", *samples_per_second));
  }
  const size_t buffered = add_line();
  if (step == marked_.step) marked_ = digest();
  return buffered >= kBufferBytes ? flush() : Status();
}

Status MetricsLog::append(const EpochResult& epoch) {
  line_.clear();
  line_.add("epoch", int64_t{epoch.epoch}).add("step", epoch.step);
  const auto add = [](JsonLine& line, std::string_view name, double value) {
    if (is_known(value)) line.add(name, value);
  };
  add(line_, "loss", epoch.loss);
  add(line_, "accuracy", epoch.accuracy);
  add(line_, "val_loss", epoch.val_loss);
  add(line_, "val_accuracy", epoch.val_accuracy);
  timing_.clear();
  add(timing_, "seconds", epoch.seconds);
  add(timing_, "samples_per_second", epoch.samples_per_second);
  line_.add("timing", timing_);
  add_line();
  epochs_.push_back(epoch);
  if (epochs_.size() > kMostEpochs) epochs_.pop_front();
  const std::lock_guard lock(writing_);
  return hand_over();
}

void MetricsLog::expect_rows_until(int64_t step) {
  if (step <= last_step_) return;
  auto& missing = loss_.missing;
  if (!missing.empty() && missing.back().second == last_step_)
    missing.back().second = step;
  else
    missing.emplace_back(last_step_ + 1, step);
  last_step_ = step;
}

MetricsDigest MetricsLog::digest() const {
  return {last_step_, bytes_, crc_, loss_.missing_rows(), loss_.changed_until};
}

std::optional<MetricsDigest> MetricsLog::digest_at(int64_t step) const {
  if (step == marked_.step && marked_.bytes > 0) return marked_;
  return step == last_step_ ? std::optional(digest()) : std::nullopt;
}

// Appends the line to the buffer and returns the buffer's size.
size_t MetricsLog::add_line() {
  const std::string& text = line_.text();
  bytes_ += text.size();
  crc_ = crc32c(bytes_of(text), crc_);
  const std::lock_guard lock(buffering_);
  buffer_ += text;
  return buffer_.size();
}

// Writes all rows to the file. REQUIRES: writing_ is held.
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
  if (!lock.owns_lock()) return {};  // the thread that writes, or the next flush, takes these rows
  return hand_over();
}

LoggedMetrics MetricsLog::unwritten(int64_t after_step, bool f32) {
  const std::lock_guard writing(writing_);
  const std::lock_guard buffering(buffering_);
  return parse_rows(pending_ + buffer_, after_step, f32);
}

// Like write(), but a full disk is not an error while there is room in memory. REQUIRES: writing_
// is held.
Status MetricsLog::hand_over() {
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
    // A file whose sync failed cannot be trusted, even if the disk was only full: a new attempt
    // must write a new file. The torn row has open() do that.
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

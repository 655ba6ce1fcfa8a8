#include "daemon/metrics/metrics_log.h"

#include <algorithm>
#include <span>

#include "daemon/metrics/metrics_lines.h"
#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A few hundred rows. When the master dies, the next one takes the rows that were not written from
// the hosts, which remember far more rows than that: see Commits::rows_of().
constexpr size_t kBufferBytes = 16 << 10;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Writes a new file with these rows beside the old one, and renames it over the old one while it is
// open: at every moment one of the two has the name.
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
  if (status.ok() && !rows.empty()) status = file->sync();  // as the old file is
  if (status.ok()) status = files.rename(fresh, path);
  if (status.ok()) return file;
  (void)files.remove(fresh);  // the first failure is the one that counts
  return status.while_doing(cat("writing '", path, "'"));
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

Result<std::unique_ptr<MetricsLog>> MetricsLog::open(Files& files, const std::string& path,
                                                     int64_t last_step,
                                                     const std::optional<MetricsDigest>& expected) {
  Bytes old;
  if (last_step > 0) {
    LEAT_ASSIGN_OR_RETURN(old, read_metrics_file(files, path));
  }
  const std::string_view text(reinterpret_cast<const char*>(old.data()), old.size());
  // The lines are pieces of `text`, which must live as long as they do.
  const KeptLines kept(text, last_step);
  Result<std::unique_ptr<WritableFile>> file = unimplemented("rows go");
  // If all rows stay, the log goes on in the old file. Otherwise, or if the disk cannot do that, a
  // new file replaces it.
  if (!text.empty() && kept.keeps_all_of(text)) file = files.append_to(path, text.size());
  if (!file.ok()) file = write_anew(files, path, kept.pieces());
  LEAT_RETURN_IF_ERROR(file.status());
  std::unique_ptr<MetricsLog> log(new MetricsLog(files, directory_of(path), std::move(*file)));
  log->last_step_ = kept.last_step();
  log->skipped_steps_ = kept.skipped_steps();
  log->validations_ = static_cast<int64_t>(kept.validations().size());
  if (!kept.validations().empty()) log->validated_ = kept.validations().back().step;
  log->loss_.missing = kept.missing();
  const size_t first = kept.epochs().size() - std::min(kept.epochs().size(), kMostEpochs);
  for (size_t i = first; i < kept.epochs().size(); ++i)
    log->epochs_.push_back(kept.epochs()[i].epoch_result());
  for (const std::string_view piece : kept.pieces()) {
    log->crc_ = crc32c(bytes_of(piece), log->crc_);
    log->bytes_ += piece.size();
  }
  if (expected && last_step > 0) log->compare(text, *expected);
  return log;
}

// Compares the rows with those that a checkpoint knows of. `text` is the file as it was found. If
// rows are missing that the checkpoint has, that explains why the digest differs.
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
  // A gap before this row counts as lost rows.
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
    // The timing is the last key, because readers cut a row there.
    line_.add("timing", timing_.add("samples_per_second", *samples_per_second));
  }
  const size_t buffered = add_line();
  // The checkpoint of this step is begun later, when the log has more rows.
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
  for (const NamedNumber& each : epoch.more) add(line_, each.name, each.value);
  timing_.clear();
  add(timing_, "seconds", epoch.seconds);
  add(timing_, "samples_per_second", epoch.samples_per_second);
  line_.add("timing", timing_);
  add_line();
  epochs_.push_back(epoch);
  if (epochs_.size() > kMostEpochs) epochs_.pop_front();
  return writer_.write_through();
}

Status MetricsLog::append_validation(std::span<const StepMetric> metrics) {
  if (validated_ == last_step_) return {};
  line_.clear();
  line_.add("validation", ++validations_).add("step", last_step_);
  for (const StepMetric& metric : metrics)
    std::visit([&](auto value) { line_.add(metric.name, value); }, metric.value);
  validated_ = last_step_;
  add_line();
  return writer_.write_through();
}

void MetricsLog::expect_rows_until(int64_t step) {
  if (step <= last_step_) return;
  auto& missing = loss_.missing;
  // Extends the last range if it ends right here.
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

// Returns the bytes that wait to be written.
size_t MetricsLog::add_line() {
  const std::string& text = line_.text();
  bytes_ += text.size();
  crc_ = crc32c(bytes_of(text), crc_);
  return writer_.add(text);
}

LoggedMetrics MetricsLog::unwritten(int64_t after_step, bool f32) {
  return parse_rows(writer_.unwritten(), after_step, f32);
}

}  // namespace leat

// Reads logs of metrics that exist.
#include <algorithm>
#include <limits>

#include "daemon/metrics/metrics_extent.h"
#include "daemon/metrics/metrics_lines.h"
#include "daemon/metrics/metrics_log.h"

namespace leat {
namespace {

constexpr uint64_t kTailBytes = 256 << 10;  // read first: a few thousand rows
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<Bytes> read_metrics_file(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const bool exists, files.exists(path));
  return exists ? read_file(files, path, kMaxFileBytes) : Bytes();
}

Result<MetricsExtent> read_metrics_extent(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_metrics_file(files, path));
  // By the same rule as MetricsLog::open(), without a limit.
  const KeptLines kept(text_of(bytes), std::numeric_limits<int64_t>::max());
  MetricsExtent extent;
  extent.last_step = kept.last_step();
  for (const MetricsLine& line : kept.epochs()) extent.epochs.emplace(line.epoch, line.step);
  for (const MetricsLine& line : kept.validations()) extent.validations.insert(line.step);
  return extent;
}

Result<std::vector<EpochResult>> read_epochs(Files& files, const std::string& path,
                                             int64_t last_step) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_metrics_file(files, path));
  const KeptLines kept(text_of(bytes), last_step);
  std::vector<EpochResult> results;
  for (const MetricsLine& line : kept.epochs()) results.push_back(line.epoch_result());
  return results;
}

Result<std::vector<EpochResult>> read_validations(Files& files, const std::string& path,
                                                  int64_t last_step) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_metrics_file(files, path));
  const KeptLines kept(text_of(bytes), last_step);
  std::vector<EpochResult> results;
  for (const MetricsLine& line : kept.validations()) results.push_back(line.epoch_result());
  return results;
}

Result<LoggedMetrics> read_metrics(Files& files, const std::string& path, int64_t after_step,
                                   bool f32) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_metrics_file(files, path));
  return parse_rows(text_of(bytes), after_step, f32);
}

Result<LoggedMetrics> read_last_metrics(Files& files, const std::string& path, int64_t after_step,
                                        bool f32) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  // Reads a longer piece of the end until it reaches back to the wanted rows.
  for (uint64_t length = kTailBytes;; length *= 4) {
    Bytes bytes(static_cast<size_t>(std::min(length, file->size())));
    LEAT_RETURN_IF_ERROR(file->read(file->size() - bytes.size(), bytes));
    std::string_view text = text_of(bytes);
    const bool whole = bytes.size() == file->size();
    // The piece begins in the middle of a line, which does not count.
    if (!whole) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    const int64_t first = MetricsLine::parse(text.substr(0, text.find('\n'))).step;
    if (whole || (first > 0 && first <= after_step + 1)) return parse_rows(text, after_step, f32);
  }
}

}  // namespace leat

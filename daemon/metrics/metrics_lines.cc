#include "daemon/metrics/metrics_lines.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <string>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kSkippedOne = "\"skipped\": 1,";  // another key always follows

// Removes `key` and the number after it from the front of `text`. Returns the number; 0 if the text
// does not begin so.
int64_t take_number(std::string_view& text, std::string_view key) {
  if (!text.starts_with(key)) return 0;
  int64_t number = 0;
  const char* const begin = text.data() + key.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Reads a number as JsonLine writes it.
double number_at(std::string_view text, bool f32) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const char* const end = text.data() + text.size();
  if (text.starts_with("\"Infinity\"")) return kInfinite;
  if (text.starts_with("\"-Infinity\"")) return -kInfinite;
  // A float is parsed as a float: its shortest decimal read as a double would be another number.
  double value = kNoNumber;
  if (float narrow = 0; f32 && std::from_chars(text.data(), end, narrow).ec == std::errc())
    value = narrow;
  else if (!f32)
    (void)std::from_chars(text.data(), end, value);  // "NaN", and null of older logs, leave it
  return computed(value);
}

// The values of a row after its step, without the timing.
std::vector<double> values_of(std::string_view rest, bool f32) {
  std::vector<double> values;
  rest = rest.substr(0, rest.find(", \"timing\""));
  for (size_t at = rest.find(": "); at != std::string_view::npos; at = rest.find(": ", at + 1))
    values.push_back(number_at(rest.substr(at + 2), f32));
  return values;
}

// The numbers of an epoch that EpochResult has a field for.
constexpr std::string_view kOwnNumbers[] = {"loss", "accuracy", "val_loss", "val_accuracy"};

// The numbers of a row after its step, without the timing. Names have no escapes.
std::vector<NamedNumber> named_numbers(std::string_view rest) {
  constexpr std::string_view kBetween = "\": ";
  std::vector<NamedNumber> numbers;
  rest = rest.substr(0, rest.find(", \"timing\""));
  for (size_t begin = rest.find(", \""); begin != std::string_view::npos;) {
    begin += 3;
    const size_t end = rest.find(kBetween, begin);
    if (end == std::string_view::npos) break;
    numbers.push_back({std::string(rest.substr(begin, end - begin)),
                       number_at(rest.substr(end + kBetween.size()), false)});
    begin = rest.find(", \"", end);
  }
  return numbers;
}

}  // namespace

MetricsLine MetricsLine::parse(std::string_view text) {
  MetricsLine line;
  if (!text.ends_with('}')) return line;
  line.epoch = take_number(text, "{\"epoch\": ");
  if (line.epoch == 0) line.validation = take_number(text, "{\"validation\": ");
  // The key of such a row comes first, so its step has a comma before it.
  const bool first = line.epoch == 0 && line.validation == 0;
  const int64_t step = take_number(text, first ? "{\"step\": " : ", \"step\": ");
  if (step < 1 || (text[0] != ',' && text[0] != '}')) return {};
  line.step = step;
  line.rest = text;
  return line;
}

bool MetricsLine::is_skipped() const {
  return is_of_step() && rest.find(kSkippedOne) != std::string_view::npos;
}

EpochResult MetricsLine::epoch_result() const {
  EpochResult result;
  const auto value = [&](std::string_view name) {
    const std::string key = cat("\"", name, "\": ");
    const size_t at = rest.find(key);
    if (at == std::string_view::npos) return kNoNumber;
    return number_at(rest.substr(at + key.size()), false);
  };
  for (const NamedNumber& each : named_numbers(rest)) {
    const auto* const known = std::find(std::begin(kOwnNumbers), std::end(kOwnNumbers), each.name);
    if (known == std::end(kOwnNumbers)) result.more.push_back(each);
  }
  result.epoch = static_cast<uint32_t>(epoch);
  result.step = static_cast<uint64_t>(step);
  result.loss = value("loss");
  result.accuracy = value("accuracy");
  result.val_loss = value("val_loss");
  result.val_accuracy = value("val_accuracy");
  result.seconds = value("seconds");
  result.samples_per_second = value("samples_per_second");
  return result;
}

KeptLines::KeptLines(std::string_view text, int64_t last_step) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const MetricsLine line = MetricsLine::parse(text.substr(0, end));
    // Rows are in order, so nothing after this one is kept. A line that is no row has step 0, so it
    // does not end the search.
    if (line.step > last_step) break;
    if (takes(line)) take(text.substr(0, end + 1), line);
    text.remove_prefix(end + 1);
  }
}

bool KeptLines::keeps_all_of(std::string_view text) const {
  return pieces_.empty() ? text.empty() : pieces_.size() == 1 && pieces_[0].size() == text.size();
}

bool KeptLines::takes(const MetricsLine& line) const {
  // The row of a step that comes twice, or out of order, is left out: the first one counts.
  if (line.is_of_step()) return line.step > last_step_;
  if (line.step != last_step_ || line.step == 0) return false;
  // A step is validated once.
  return line.validation == 0 || validations_.empty() || validations_.back().step < line.step;
}

// Extends the last piece if `text` follows it directly.
void KeptLines::take(std::string_view text, const MetricsLine& line) {
  if (line.step > last_step_ + 1) missing_.emplace_back(last_step_ + 1, line.step - 1);
  last_step_ = line.step;
  if (line.epoch > 0) epochs_.push_back(line);
  if (line.validation > 0) validations_.push_back(line);
  if (line.is_skipped()) ++skipped_steps_;
  const bool continues =
      !pieces_.empty() && pieces_.back().data() + pieces_.back().size() == text.data();
  if (continues)
    pieces_.back() = {pieces_.back().data(), pieces_.back().size() + text.size()};
  else
    pieces_.push_back(text);
}

LoggedMetrics parse_rows(std::string_view text, int64_t after_step, bool f32) {
  LoggedMetrics logged;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const MetricsLine line = MetricsLine::parse(text.substr(0, end));
    text.remove_prefix(end + 1);
    if (!line.is_of_step() || line.step <= logged.last_step) continue;
    logged.last_step = line.step;
    if (line.step > after_step)
      logged.tail.push_back({line.step, values_of(line.rest, f32), line.is_skipped()});
  }
  return logged;
}

}  // namespace leat

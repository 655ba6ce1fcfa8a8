#include "daemon/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "daemon/base/number_text.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kBarWidth = 30;
constexpr size_t kNarrowBar = 10;  // the least while an epoch runs
constexpr size_t kLeastBar = 5;
constexpr double kMeaningful = 0.1;  // seconds: a shorter time says little about a speed
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);

// Formats numbers as printf() does; the text is cut after 63 bytes.
template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

// The mean time of the steps that were timed. Steps of an earlier life of the job are not among
// them.
double seconds_per_step(const EpochStanding& standing) {
  return standing.steps_timed > 0 ? standing.seconds / static_cast<double>(standing.steps_timed)
                                  : 0;
}

// Returns "234/469", with the step padded to the width of the steps.
std::string count_of(const EpochStanding& standing) {
  const std::string steps = std::to_string(standing.steps);
  std::string step = std::to_string(standing.step);
  step.insert(0, steps.size() - std::min(steps.size(), step.size()), ' ');
  return cat(step, "/", steps);
}

// False right after the begin of an epoch, when a time or a speed would be a division by 0.
bool is_timed(const EpochStanding& standing) {
  return standing.steps_timed > 0 && standing.seconds > 0;
}

// The parts of a line, each with the space or dash before it, so that a part may be left out.
std::string step_time(const EpochStanding& standing) {
  return is_timed(standing) ? cat(" ", format_step_time(seconds_per_step(standing))) : "";
}

std::string sample_rate(const EpochStanding& standing) {
  if (!is_timed(standing)) return "";
  return cat(" - ", format("%.0f", standing.samples_per_second), " samples/s");
}

// Returns the time that the steps took; "" if it is unknown.
std::string time_taken(const EpochStanding& standing) {
  return is_timed(standing) ? " " + format_seconds(standing.seconds) : "";
}

// Returns "count [bar] rest" with a bar from `least` columns to kBarWidth; nothing if there is no
// room.
std::optional<std::string> with_bar(const EpochStanding& standing, const std::string& rest,
                                    size_t columns, size_t least) {
  const std::string count = count_of(standing);
  const size_t taken = count.size() + std::string_view(" []").size() + rest.size();
  if (columns < taken + least) return std::nullopt;
  const auto width = static_cast<int64_t>(std::min(kBarWidth, columns - taken));
  return cat(count, " ", format_bar(standing.step, standing.steps, width), rest);
}

}  // namespace

std::string format_seconds(double seconds) {
  // Rounded before it is split, so that 59.9 s are "1:00" and not "60s".
  const auto whole = static_cast<long long>(std::max(0.0, std::round(seconds)));
  if (whole < 60) return format("%llds", whole);
  if (whole < 3600) return format("%lld:%02lld", whole / 60, whole % 60);
  return format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_step_time(double seconds) {
  // The limits are those at which the next unit rounds to 1, so that no "1000us" is shown.
  if (seconds < 0.9995e-3) return format("%.0fus/step", seconds * 1e6);
  if (seconds < 0.9995) return format("%.0fms/step", seconds * 1e3);
  return format("%.1fs/step", seconds);
}

std::string format_bar(int64_t step, int64_t steps, int64_t width) {
  const double part = static_cast<double>(step) / static_cast<double>(std::max<int64_t>(steps, 1));
  const auto filled =
      std::clamp(static_cast<int64_t>(part * static_cast<double>(width)), int64_t{0}, width);
  // The arrow is a part of the filled columns. A full bar has none.
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < width) {
    if (filled > 0) bar.back() = '>';
    bar.append(static_cast<size_t>(width - filled), '.');
  }
  return "[" + bar + "]";
}

std::string format_value(double value) { return number_text(value); }

std::string format_values(std::span<const NamedValue> values) {
  std::string text;
  for (const NamedValue& value : values) {
    text += cat(" - ", value.name, ": ", format_value(value.value));
  }
  return text;
}

std::string format_running(const EpochStanding& standing, std::span<const NamedValue> values,
                           size_t columns) {
  // The texts of the line, empty while the time is too short to say anything.
  const bool measured = is_timed(standing) && standing.seconds >= kMeaningful;
  const double left =
      seconds_per_step(standing) * static_cast<double>(standing.steps - standing.step);
  const std::string eta = measured ? " ETA " + format_seconds(left) : "";
  const std::string time = measured ? step_time(standing) : "";
  const std::string rate = measured ? sample_rate(standing) : "";
  const std::string shown = format_values(values);
  // First the bar shrinks, down to kNarrowBar. If that is not enough, the line is tried without the
  // rate.
  for (const std::string& speed : {cat(eta, time, rate), cat(eta, time)}) {
    if (auto line = with_bar(standing, speed + shown, columns, kNarrowBar)) return *line;
  }
  const std::string count = count_of(standing);
  // Then the bar goes, and after it the time of a step.
  for (const std::string& speed : {cat(eta, time), eta}) {
    const std::string line = cat(count, speed, shown);
    if (line.size() <= columns) return line;
  }
  // At last the times go, and one value after the other from the end.
  for (size_t most = values.size(); most > 1; --most) {
    const std::string line = cat(count, format_values(values.first(most)));
    if (line.size() <= columns) return line;
  }
  return cat(count, format_values(values.first(std::min<size_t>(values.size(), 1))));
}

std::string format_done(const EpochStanding& standing, std::span<const NamedValue> values,
                        size_t columns) {
  const std::string rest =
      cat(time_taken(standing), step_time(standing), sample_rate(standing), format_values(values));
  return with_bar(standing, rest, columns, kLeastBar).value_or(count_of(standing) + rest);
}

std::string format_plain(const EpochStanding& standing, std::span<const NamedValue> values) {
  const std::string taken = time_taken(standing);
  return cat("Epoch ", standing.epoch, "/", standing.epochs, " - ", standing.step, "/",
             standing.steps, taken.empty() ? "" : " -", taken, step_time(standing),
             sample_rate(standing), format_values(values));
}

ProgressLine::ProgressLine(std::ostream& out, const Clock& clock, bool redraw, int width)
    : out_(out), clock_(clock), redraw_(redraw), width_(width) {}

void ProgressLine::begin_epoch(int64_t epoch, int64_t epochs, int64_t steps, int64_t first_step,
                               int64_t samples_per_step, std::optional<Clock::Steady> at) {
  break_line();
  standing_ = {};
  standing_.epoch = epoch;
  standing_.epochs = epochs;
  standing_.step = first_step;
  standing_.steps = steps;
  first_step_ = first_step;
  samples_per_step_ = samples_per_step;
  begun_ = at.value_or(clock_.steady());
  // In the past, so that the first update() draws at once.
  drawn_at_ = clock_.steady() - kRedrawEvery;
  if (redraw_) out_ << "Epoch " << epoch << "/" << epochs << "\n" << std::flush;
}

void ProgressLine::update(int64_t step, std::span<const NamedValue> values,
                          std::optional<Clock::Steady> at) {
  const auto now = clock_.steady();
  standing_.step = step;
  // The speed is the mean since the begin of the epoch, over the steps that were done since then.
  standing_.steps_timed = step - first_step_;
  standing_.seconds = std::chrono::duration<double>(at.value_or(now) - begun_).count();
  const double samples = static_cast<double>(standing_.steps_timed * samples_per_step_);
  standing_.samples_per_second = standing_.seconds > 0 ? samples / standing_.seconds : 0;
  if (!redraw_ || now - drawn_at_ < kRedrawEvery) return;
  drawn_at_ = now;
  draw(format_running(standing_, values, columns()));
}

void ProgressLine::end_epoch(std::span<const NamedValue> values) {
  if (!redraw_) {
    out_ << format_plain(standing_, values) << "\n" << std::flush;
    return;
  }
  // The final line may be shorter than the one in place, so that is erased first.
  if (drawn_ > 0) out_ << "\r" << std::string(drawn_, ' ') << "\r";
  drawn_ = 0;
  out_ << format_done(standing_, values, columns()) << "\n" << std::flush;
}

void ProgressLine::break_line() {
  if (drawn_ > 0) out_ << "\n" << std::flush;
  drawn_ = 0;
}

// Replaces the line in place. Spaces erase the rest of a longer line.
void ProgressLine::draw(const std::string& line) {
  std::string shown = line.substr(0, columns());
  const size_t wide = shown.size();
  if (wide < drawn_) shown.append(drawn_ - wide, ' ');
  out_ << "\r" << shown << std::flush;
  drawn_ = wide;
}

}  // namespace leat

#include "daemon/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int64_t kBarWidth = 30;
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

double seconds_per_step(const EpochStanding& standing) {
  return standing.steps_timed > 0 ? standing.seconds / static_cast<double>(standing.steps_timed)
                                  : 0;
}

// "234/469 [====>...]", the step as wide as the steps.
std::string count_and_bar(const EpochStanding& standing) {
  const std::string steps = std::to_string(standing.steps);
  std::string step = std::to_string(standing.step);
  step.insert(0, steps.size() - std::min(steps.size(), step.size()), ' ');
  return cat(step, "/", steps, " ", format_bar(standing.step, standing.steps));
}

std::string speed(const EpochStanding& standing) {
  return cat(format_step_time(seconds_per_step(standing)), " - ",
             format("%.0f", standing.images_per_second), " images/s");
}

}  // namespace

std::string format_seconds(double seconds) {
  const auto whole = static_cast<long long>(std::max(0.0, std::round(seconds)));
  if (whole < 60) return format("%llds", whole);
  if (whole < 3600) return format("%lld:%02lld", whole / 60, whole % 60);
  return format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_step_time(double seconds) {
  if (seconds < 0.9995e-3) return format("%.0fus/step", seconds * 1e6);
  if (seconds < 0.9995) return format("%.0fms/step", seconds * 1e3);
  return format("%.1fs/step", seconds);
}

std::string format_bar(int64_t step, int64_t steps) {
  const double part = static_cast<double>(step) / static_cast<double>(std::max<int64_t>(steps, 1));
  const auto filled = std::clamp(static_cast<int64_t>(part * kBarWidth), int64_t{0}, kBarWidth);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < kBarWidth) {
    if (filled > 0) bar.back() = '>';
    bar.append(static_cast<size_t>(kBarWidth - filled), '.');
  }
  return "[" + bar + "]";
}

std::string format_value(double value) {
  const bool small = value != 0 && std::fabs(value) < 1e-3;
  return format(small ? "%.4e" : "%.4f", value);
}

std::string format_values(std::span<const NamedValue> values) {
  std::string text;
  for (const NamedValue& value : values) {
    text += cat(" - ", value.name, ": ", format_value(value.value));
  }
  return text;
}

std::string format_running(const EpochStanding& standing, std::span<const NamedValue> values) {
  const double left =
      seconds_per_step(standing) * static_cast<double>(standing.steps - standing.step);
  return cat(count_and_bar(standing), " ETA ", format_seconds(left), " ", speed(standing),
             format_values(values));
}

std::string format_done(const EpochStanding& standing, std::span<const NamedValue> values) {
  return cat(count_and_bar(standing), " ", format_seconds(standing.seconds), " ", speed(standing),
             format_values(values));
}

std::string format_plain(const EpochStanding& standing, std::span<const NamedValue> values) {
  return cat("Epoch ", standing.epoch, "/", standing.epochs, " - ", standing.step, "/",
             standing.steps, " - ", format_seconds(standing.seconds), " ", speed(standing),
             format_values(values));
}

ProgressLine::ProgressLine(std::ostream& out, const Clock& clock, bool redraw, int width)
    : out_(out), clock_(clock), redraw_(redraw), width_(width) {}

void ProgressLine::begin_epoch(int64_t epoch, int64_t epochs, int64_t steps, int64_t first_step,
                               int64_t images_per_step) {
  break_line();
  standing_ = {};
  standing_.epoch = epoch;
  standing_.epochs = epochs;
  standing_.step = first_step;
  standing_.steps = steps;
  first_step_ = first_step;
  images_per_step_ = images_per_step;
  begun_ = clock_.steady();
  drawn_at_ = begun_ - kRedrawEvery;
  if (redraw_) out_ << "Epoch " << epoch << "/" << epochs << "\n" << std::flush;
}

void ProgressLine::update(int64_t step, std::span<const NamedValue> values) {
  const auto now = clock_.steady();
  standing_.step = step;
  standing_.steps_timed = step - first_step_;
  standing_.seconds = std::chrono::duration<double>(now - begun_).count();
  const double images = static_cast<double>(standing_.steps_timed * images_per_step_);
  standing_.images_per_second = standing_.seconds > 0 ? images / standing_.seconds : 0;
  if (!redraw_ || now - drawn_at_ < kRedrawEvery) return;
  drawn_at_ = now;
  draw(format_running(standing_, values));
}

void ProgressLine::end_epoch(std::span<const NamedValue> values) {
  if (!redraw_) {
    out_ << format_plain(standing_, values) << "\n" << std::flush;
    return;
  }
  if (drawn_ > 0) out_ << "\r" << std::string(drawn_, ' ') << "\r";
  drawn_ = 0;
  out_ << format_done(standing_, values) << "\n" << std::flush;
}

void ProgressLine::break_line() {
  if (drawn_ > 0) out_ << "\n" << std::flush;
  drawn_ = 0;
}

// A line as wide as the terminal would wrap, and could not be redrawn: it is cut.
void ProgressLine::draw(const std::string& line) {
  const size_t room = width_ > 1 ? static_cast<size_t>(width_ - 1) : 1;
  std::string shown = line.substr(0, room);
  const size_t columns = shown.size();
  if (columns < drawn_) shown.append(drawn_ - columns, ' ');
  out_ << "\r" << shown << std::flush;
  drawn_ = columns;
}

}  // namespace leat

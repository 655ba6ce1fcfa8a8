// The progress of a training run, shown to people in the style of Keras:
//
//   Epoch 1/5
//   469/469 [==============================] 12s 25ms/step - 5012 samples/s - loss: 0.5123 - ...
//
// On a terminal the second line is redrawn in place, at most ten times a second, and fits the
// width. Otherwise each epoch is one plain line, printed when it ends. The format_ functions are
// pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/clock.h"

namespace leat {

// A metric to show: "loss", 0.5123.
struct NamedValue {
  std::string_view name;
  double value = 0;
};

// The progress of an epoch.
struct EpochStanding {
  int64_t epoch = 1;        // from 1
  int64_t epochs = 1;       // number of epochs
  int64_t step = 0;         // steps of this epoch that are done
  int64_t steps = 1;        // number of its steps
  double seconds = 0;       // the time of `steps_timed` of them
  int64_t steps_timed = 0;  // 0: the time is unknown
  double samples_per_second = 0;
};

// Returns "7s", "1:05" or "2:00:09".
std::string format_seconds(double seconds);
// Returns "850us/step", "25ms/step" or "1.5s/step".
std::string format_step_time(double seconds);
// Returns "[=========>....................]", with `width` columns between the brackets. The arrow
// stands at the share of the steps that are done; without steps the bar is empty.
std::string format_bar(int64_t step, int64_t steps, int64_t width);
// Returns the value in the form of number_text().
std::string format_value(double value);
// Returns " - loss: 0.5123 - accuracy: 0.8121".
std::string format_values(std::span<const NamedValue> values);

// Returns the line below "Epoch 1/5" while the epoch runs, with the time that is left. If `columns`
// are too few, the bar shrinks first. Then the line loses the samples per second, the bar, the time
// of a step, the time that is left, and the last values, in this order. The first value, the loss,
// always stays, even if the line is too long then. The line has no times and speeds for the first
// tenth of a second.
std::string format_running(const EpochStanding& standing, std::span<const NamedValue> values,
                           size_t columns);
// Returns the line when the epoch is done, with the time that it took and all values. The bar is as
// wide as possible, and missing if there is no room.
std::string format_done(const EpochStanding& standing, std::span<const NamedValue> values,
                        size_t columns);
// Returns the only line of an epoch if nothing is redrawn.
std::string format_plain(const EpochStanding& standing, std::span<const NamedValue> values);

// Writes the lines of a run. Threads: one. `out` and `clock` must outlive it. The sequence is
// begin_epoch(), update() as often as wanted, end_epoch(); break_line() at any time.
class ProgressLine {
 public:
  // `redraw`: out is a terminal with `width` columns.
  ProgressLine(std::ostream& out, const Clock& clock, bool redraw, int width);

  // The epoch begins, now or at an earlier time `at`. `first_step` steps of it were done before.
  void begin_epoch(int64_t epoch, int64_t epochs, int64_t steps, int64_t first_step,
                   int64_t samples_per_step, std::optional<Clock::Steady> at = {});
  // `step` steps of the epoch are done, now or at an earlier time `at`. Cheap if nothing is drawn.
  void update(int64_t step, std::span<const NamedValue> values,
              std::optional<Clock::Steady> at = {});
  // Writes the epoch's last line, with the time until the last update(), which does not include
  // evaluation.
  void end_epoch(std::span<const NamedValue> values);
  // Ends a line that is being redrawn, so that something else can be printed.
  void break_line();

 private:
  void draw(const std::string& line);
  // The columns that a line may have. A line as wide as the terminal would wrap, and could not be
  // redrawn.
  size_t columns() const { return width_ > 1 ? static_cast<size_t>(width_ - 1) : 1; }

  std::ostream& out_;
  const Clock& clock_;
  const bool redraw_;
  const int width_;
  EpochStanding standing_;
  int64_t first_step_ = 0;
  int64_t samples_per_step_ = 0;
  Clock::Steady begun_{};
  Clock::Steady drawn_at_{};
  size_t drawn_ = 0;  // columns of the line in place; 0: none
};

}  // namespace leat

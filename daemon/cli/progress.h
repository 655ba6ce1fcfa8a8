// How a training run tells people where it stands, in the manner of Keras:
//
//   Epoch 1/5
//   469/469 [==============================] 12s 25ms/step - 5012 samples/s - loss: 0.5123 - ...
//
// On a terminal the second line is redrawn in place, at most ten times a second, and fits its
// width; otherwise an epoch is one plain line when it ends. The format_ functions are pure.
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

// A metric as shown: "loss", 0.5123.
struct NamedValue {
  std::string_view name;
  double value = 0;
};

// Where an epoch stands.
struct AssemblyStanding {
  int64_t epoch = 1;        // from 1
  int64_t epochs = 1;       // of so many
  int64_t step = 0;         // steps of this epoch that are done
  int64_t steps = 1;        // of so many
  double seconds = 0;       // spent on `steps_timed` of them
  int64_t steps_timed = 0;  // 0: nobody has seen when they were done
  double samples_per_second = 0;
};

// "7s", "1:05", "2:00:09".
std::string format_seconds(double seconds);
// "850us/step", "25ms/step", "1.5s/step".
std::string format_step_time(double seconds);
// "[=========>....................]", so wide between the brackets.
std::string format_bar(int64_t step, int64_t steps, int64_t width);
// Four decimals, or an exponent for what would read 0.0000.
std::string format_value(double value);
// " - loss: 0.5123 - accuracy: 0.8121"
std::string format_values(std::span<const NamedValue> values);

// The line below "Epoch 1/5" while the epoch runs, with the time that is left, in at most `columns`
// if it can be. The bar shrinks first; then the samples a second, the bar, the time of a step, and
// the time that is left go, in this order; then the last values. The first value, the loss, stays.
// There is no speed before it has been measured for a while.
std::string format_running(const AssemblyStanding& standing, std::span<const NamedValue> values,
                           size_t columns);
// ... when it is done, with the time it took: all of it, with a bar as wide as there is room for...
std::string format_done(const AssemblyStanding& standing, std::span<const NamedValue> values,
                        size_t columns);
// ... and the one line of an epoch where nothing is redrawn.
std::string format_plain(const AssemblyStanding& standing, std::span<const NamedValue> values);

// Writes the lines of a run. Threads: one. `out` and `clock` must outlive it.
class ProgressLine {
 public:
  // `redraw`: out is a terminal, `width` columns wide.
  ProgressLine(std::ostream& out, const Clock& clock, bool redraw, int width);

  // The clock of the epoch starts, now or at an earlier moment. `first_step` steps of it had been
  // done by then.
  void begin_epoch(int64_t epoch, int64_t epochs, int64_t steps, int64_t first_step,
                   int64_t samples_per_step, std::optional<Clock::Steady> at = {});
  // `step` steps of the epoch are done, now or at an earlier moment, which is the time they took.
  // Cheap when nothing is drawn.
  void update(int64_t step, std::span<const NamedValue> values,
              std::optional<Clock::Steady> at = {});
  // The epoch's last line, of the time up to the last update(): evaluation is not in it.
  void end_epoch(std::span<const NamedValue> values);
  // Ends a line that is being redrawn, so that something else can be printed.
  void break_line();

 private:
  void draw(const std::string& line);
  // Columns that a line may have: one as wide as the terminal would wrap, and could not be redrawn.
  size_t columns() const { return width_ > 1 ? static_cast<size_t>(width_ - 1) : 1; }

  std::ostream& out_;
  const Clock& clock_;
  const bool redraw_;
  const int width_;
  AssemblyStanding standing_;
  int64_t first_step_ = 0;
  int64_t samples_per_step_ = 0;
  Clock::Steady begun_{};
  Clock::Steady drawn_at_{};
  size_t drawn_ = 0;  // columns of the line in place; 0: none
};

}  // namespace leat

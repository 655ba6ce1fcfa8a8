#include "daemon/cli/progress.h"

#include <sstream>

#include "tests/catch.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

TEST_CASE("durations, step times and values are short and never rounded to nothing") {
  CHECK(format_seconds(0) == "0s");
  CHECK(format_seconds(11.6) == "12s");
  CHECK(format_seconds(59.6) == "1:00");
  CHECK(format_seconds(65) == "1:05");
  CHECK(format_seconds(7209) == "2:00:09");
  CHECK(format_seconds(-1) == "0s");
  CHECK(format_step_time(0.00085) == "850us/step");
  CHECK(format_step_time(0.0254) == "25ms/step");
  CHECK(format_step_time(0.0009999) == "1ms/step");
  CHECK(format_step_time(0.9999) == "1.0s/step");
  CHECK(format_step_time(1.46) == "1.5s/step");
  CHECK(format_value(0.51234) == "0.5123");
  CHECK(format_value(0) == "0.0000");
  CHECK(format_value(0.00012345) == "1.2345e-04");
  CHECK(format_value(-3) == "-3.0000");
}

TEST_CASE("the bar fills from left to right") {
  CHECK(format_bar(0, 10, 30) == "[..............................]");
  CHECK(format_bar(5, 10, 30) == "[==============>...............]");
  CHECK(format_bar(9, 10, 30) == "[==========================>...]");
  CHECK(format_bar(10, 10, 30) == "[==============================]");
  CHECK(format_bar(5, 10, 10) == "[====>.....]");
  CHECK(format_bar(11, 10, 30) == "[==============================]");
}

EpochStanding halfway() {
  EpochStanding standing;
  standing.epoch = 1;
  standing.epochs = 5;
  standing.step = 50;
  standing.steps = 100;
  standing.seconds = 1.25;
  standing.steps_timed = 50;
  standing.samples_per_second = 5120.4;
  return standing;
}

TEST_CASE("the three lines of an epoch are as documented") {
  const NamedValue values[] = {{"loss", 0.5123}, {"accuracy", 0.8121}};
  EpochStanding standing = halfway();
  CHECK(format_running(standing, values, 120) ==
        " 50/100 [==============>...............] ETA 1s 25ms/step - 5120 samples/s - loss: 0.5123 "
        "- accuracy: 0.8121");
  standing.step = 100;
  standing.steps_timed = 100;
  standing.seconds = 2.5;
  CHECK(format_done(standing, values, 120) ==
        "100/100 [==============================] 3s 25ms/step - 5120 samples/s - loss: 0.5123 - "
        "accuracy: 0.8121");
  CHECK(format_plain(standing, values) ==
        "Epoch 1/5 - 100/100 - 3s 25ms/step - 5120 samples/s - loss: 0.5123 - accuracy: 0.8121");
}

TEST_CASE("in a narrow terminal the bar shrinks first, and the loss is always seen") {
  const NamedValue values[] = {{"loss", 0.5123}, {"accuracy", 0.8121}, {"val_loss", 0.6}};
  const EpochStanding standing = halfway();
  const std::span<const NamedValue> two(values, 2);
  CHECK(format_running(standing, two, 100) ==
        " 50/100 [==========>...........] ETA 1s 25ms/step - 5120 samples/s - loss: 0.5123 - "
        "accuracy: 0.8121");
  CHECK(format_running(standing, two, 79) ==
        " 50/100 [========>.........] ETA 1s 25ms/step - loss: 0.5123 - accuracy: 0.8121");
  CHECK(format_running(standing, two, 59) ==
        " 50/100 ETA 1s 25ms/step - loss: 0.5123 - accuracy: 0.8121");
  CHECK(format_running(standing, two, 50) == " 50/100 ETA 1s - loss: 0.5123 - accuracy: 0.8121");
  CHECK(format_running(standing, values, 60) ==
        " 50/100 - loss: 0.5123 - accuracy: 0.8121 - val_loss: 0.6000");
  CHECK(format_running(standing, values, 41) == " 50/100 - loss: 0.5123 - accuracy: 0.8121");
  CHECK(format_running(standing, values, 10) == " 50/100 - loss: 0.5123");
  for (size_t columns = 22; columns < 140; ++columns) {
    const std::string line = format_running(standing, values, columns);
    CAPTURE(columns, line);
    CHECK(line.size() <= columns);
    CHECK_THAT(line, Catch::Contains(" - loss: 0.5123"));
  }
}

TEST_CASE("nothing of an epoch's last line is lost in a narrow terminal") {
  const NamedValue loss[] = {{"loss", 0.5123}};
  const EpochStanding standing = halfway();
  CHECK(format_done(standing, loss, 70) ==
        " 50/100 [======>........] 1s 25ms/step - 5120 samples/s - loss: 0.5123");
  CHECK(format_done(standing, loss, 40) == " 50/100 1s 25ms/step - 5120 samples/s - loss: 0.5123");
}

TEST_CASE("steps that were not timed have no speed") {
  const NamedValue loss[] = {{"loss", 0.5}};
  ManualClock clock;
  std::ostringstream out;
  ProgressLine progress(out, clock, true, 80);
  // The first report comes after 20 steps, from a process that needs 67 us for it.
  progress.begin_epoch(1, 1, 40, 20, 32);
  clock.advance(std::chrono::microseconds(67));
  progress.update(20, loss);
  CHECK(out.str() == "Epoch 1/1\n\r20/40 [==============>...............] - loss: 0.5000");
  clock.advance(milliseconds(400));
  progress.update(30, loss, clock.steady() - milliseconds(100));
  CHECK_THAT(out.str(), Catch::EndsWith(" ETA 0s 30ms/step - 1066 samples/s - loss: 0.5000"));
}

TEST_CASE("without redraws an epoch is one line") {
  ManualClock clock;
  std::ostringstream out;
  ProgressLine progress(out, clock, false, 80);
  const NamedValue loss[] = {{"loss", 1.5}};
  progress.begin_epoch(1, 1, 4, 0, 32);
  for (int step = 1; step <= 4; ++step) {
    clock.advance(milliseconds(500));
    progress.update(step, loss);
  }
  clock.advance(milliseconds(9000));  // an evaluation
  progress.end_epoch(loss);
  CHECK(out.str() == "Epoch 1/1 - 4/4 - 2s 500ms/step - 64 samples/s - loss: 1.5000\n");
}

TEST_CASE("a terminal's line is redrawn at most ten times a second, and erased at the end") {
  ManualClock clock;
  std::ostringstream out;
  ProgressLine progress(out, clock, true, 60);
  const NamedValue loss[] = {{"loss", 1.5}};
  progress.begin_epoch(2, 3, 100, 0, 10);
  for (int step = 1; step <= 21; ++step) {
    clock.advance(milliseconds(10));
    progress.update(step, loss);
  }
  progress.end_epoch(loss);
  // Drawn after steps 1, 11 and 21, 59 columns wide. One step of 10 ms is too short for a speed.
  CHECK(out.str() ==
        "Epoch 2/3\n"
        "\r  1/100 [..............................] - loss: 1.5000"
        "\r 11/100 [>................] ETA 1s 10ms/step - loss: 1.5000"
        "\r 21/100 [==>..............] ETA 1s 10ms/step - loss: 1.5000"
        "\r                                                           \r"
        " 21/100 0s 10ms/step - 1000 samples/s - loss: 1.5000\n");
}

TEST_CASE("a resumed epoch is timed by its own steps") {
  ManualClock clock;
  std::ostringstream out;
  ProgressLine progress(out, clock, false, 80);
  progress.begin_epoch(1, 1, 100, 90, 10);
  clock.advance(milliseconds(100));
  progress.update(100, {});
  progress.end_epoch({});
  CHECK(out.str() == "Epoch 1/1 - 100/100 - 0s 10ms/step - 1000 samples/s\n");
}

TEST_CASE("a line in place is ended before something else is printed") {
  ManualClock clock;
  std::ostringstream out;
  ProgressLine progress(out, clock, true, 200);
  progress.begin_epoch(1, 1, 1, 0, 1);
  progress.break_line();
  CHECK(out.str() == "Epoch 1/1\n");
  progress.update(0, {});
  progress.break_line();
  progress.break_line();
  CHECK(out.str() == "Epoch 1/1\n\r0/1 [..............................]\n");
}

}  // namespace
}  // namespace leat

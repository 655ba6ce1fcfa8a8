// The numbers of a training as tables and as curves.
#include <cmath>

#include "daemon/curves/axis.h"
#include "daemon/curves/compare_runs.h"
#include "daemon/curves/event_file.h"
#include "daemon/curves/growing_curves.h"
#include "daemon/curves/metrics_table.h"
#include "daemon/curves/svg_plot.h"
#include "daemon/curves/text_plot.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr const char* kLog = R"({"step": 1, "loss": 2.5, "timing": {"samples_per_second": 10}}
{"step": 2, "loss": "NaN", "learning_rate": 0.5}
{"step": 3, "loss": 1.5, "learning_rate": 0.25}
{"epoch": 1, "step": 3, "loss": 2, "val_loss": 1.75}
{"step": 3, "loss": 1.25}
no row
{"step": 0, "loss": 7}
{"step": 4, "lo)";

TEST_CASE("the rows of a log of metrics become a table") {
  const MetricsTable table = parse_metrics(kLog);
  CHECK(table.of_steps.names ==
        std::vector<std::string>{"loss", "samples_per_second", "learning_rate"});
  CHECK(table.of_steps.steps == std::vector<int64_t>{1, 2, 3});
  CHECK(table.of_steps.epochs == std::vector<int64_t>{0, 0, 0});
  CHECK(table.of_steps.values[0][0] == 2.5);
  CHECK(table.of_steps.values[0][1] == 10);
  CHECK(std::isnan(table.of_steps.values[1][0]));
  // The second row of step 3 takes the place of the first one.
  CHECK(table.of_steps.values[2][0] == 1.25);
  CHECK(std::isnan(table.of_steps.values[2][2]));
  CHECK(table.of_epochs.names == std::vector<std::string>{"loss", "val_loss"});
  CHECK(table.of_epochs.epochs == std::vector<int64_t>{1});
  CHECK(table.of_epochs.steps == std::vector<int64_t>{3});
  CHECK(table.unreadable == 3);
  CHECK(parse_metrics("").of_steps.size() == 0);
}

TEST_CASE(
    "the evaluations between epochs have rows of their own, and their curve has all of them") {
  const MetricsTable table = parse_metrics(R"({"step": 2, "loss": 1.5}
{"validation": 1, "step": 2, "val_loss": 1.25, "test_loss": 3}
{"step": 3, "loss": 1}
{"validation": 2, "step": 3, "val_loss": 0.5, "test_loss": 2}
{"epoch": 1, "step": 3, "loss": 1.25, "val_loss": 0.5}
)");
  CHECK(table.unreadable == 0);
  CHECK(table.of_steps.names == std::vector<std::string>{"loss"});
  CHECK(table.of_steps.values[1][0] == 1);
  CHECK(table.of_epochs.values[0][0] == 1.25);
  CHECK(table.of_validations.steps == std::vector<int64_t>{2, 3});
  CHECK(must(curve_of(table, "val_loss")).values == std::vector<double>{1.25, 0.5});
  CHECK(must(curve_of(table, "test_loss")).steps == std::vector<double>{2, 3});
}

TEST_CASE("a curve has the finite numbers of a metric") {
  const MetricsTable table = parse_metrics(kLog);
  const Curve loss = must(curve_of(table, "loss"));
  CHECK(loss.steps == std::vector<double>{1, 3});
  CHECK(loss.values == std::vector<double>{2.5, 1.25});
  const Curve validation = must(curve_of(table, "val_loss"));
  CHECK(validation.steps == std::vector<double>{3});
  CHECK(curve_of(table, "los").status().message() ==
        "metric: expected one of loss, samples_per_second, learning_rate, val_loss, received "
        "'los' (did you mean 'loss'?)");
}

TEST_CASE("a smooth curve has the means of neighbours") {
  Curve curve{"", {1, 2, 3, 4}, {0, 4, 8, 0}};
  smooth(curve, 0);
  CHECK(curve.values == std::vector<double>{0, 4, 8, 0});
  smooth(curve, 1);
  CHECK(curve.values == std::vector<double>{2, 4, 4, 4});
  Curve none;
  smooth(none, 3);
  CHECK(none.values.empty());
}

TEST_CASE("a thinned curve keeps its least and greatest values") {
  Curve curve;
  for (int i = 0; i < 1000; ++i) {
    curve.steps.push_back(i);
    curve.values.push_back(i == 617 ? 50 : i == 618 ? -50 : i % 7);
  }
  const Curve thin = thinned(curve, 20);
  CHECK(thin.values.size() <= 40);
  CHECK(std::is_sorted(thin.steps.begin(), thin.steps.end()));
  CHECK(std::count(thin.values.begin(), thin.values.end(), 50) == 1);
  CHECK(std::count(thin.values.begin(), thin.values.end(), -50) == 1);
  CHECK(thinned(curve, 500).values == curve.values);
}

TEST_CASE("the ticks of an axis are round numbers within it") {
  const auto near = [](const Axis& axis, std::vector<double> ticks) {
    REQUIRE(axis.ticks.size() == ticks.size());
    for (size_t i = 0; i < ticks.size(); ++i) CHECK(axis.ticks[i] == Approx(ticks[i]));
  };
  near(make_axis(0, 1, 5), {0, 0.2, 0.4, 0.6, 0.8, 1});
  near(make_axis(0.013, 0.047, 3), {0.02, 0.04});
  near(make_axis(1, 1407, 5), {500, 1000});
  near(make_axis(-3, 3, 3), {-2, 0, 2});
  const Axis flat = make_axis(5, 5, 4);
  CHECK(flat.least < 5);
  CHECK(flat.greatest > 5);
  CHECK(flat.place(5) == Approx(0.5));
  CHECK(make_axis(-1e300, 1e300, 4).ticks.size() < 10);
  CHECK(tick_text(0.25) == "0.25");
  CHECK(tick_text(120000) == "120000");
  CHECK(tick_text(3e-5) == "3e-05");
}

TEST_CASE("a curve is drawn in the terminal") {
  const std::vector<Curve> down{{"run", {0, 10}, {1, 0}}};
  const std::string drawn = text_plot(down, {.columns = 30, .lines = 4}, false);
  CHECK(drawn ==
        "1 ┤⠉⠒⠒⠤⢄⣀⡀\n"
        "  │      ⠈⠉⠒⠒⠤⢄⣀⡀\n"
        "  │             ⠈⠉⠑⠒⠤⠤⣀⡀\n"
        "0 ┤                    ⠈⠉⠑⠒⠤⠤⣀\n"
        "  └┬─────────────────────────┬\n"
        "   0                        10\n");
}

TEST_CASE("several curves have letters, or colours") {
  const std::vector<Curve> two{{"one", {0, 10}, {1, 1}}, {"two", {0, 10}, {0, 0}}};
  const std::string plain = text_plot(two, {.columns = 40, .lines = 5}, false);
  CHECK_THAT(plain, Catch::Contains("1 ┤aaaa"));
  CHECK_THAT(plain, Catch::Contains("0 ┤bbbb"));
  CHECK_THAT(plain, Catch::EndsWith("  a  one\n  b  two\n"));
  const std::string colored = text_plot(two, {.columns = 40, .lines = 5}, true);
  CHECK_THAT(colored, Catch::Contains("\x1b[34m"));
  CHECK_THAT(colored, Catch::Contains("\x1b[31m"));
}

TEST_CASE("a plot without points is an empty area") {
  const std::vector<Curve> none{{"run", {}, {}}};
  CHECK_THAT(text_plot(none, {}, false), Catch::Contains("0 ┤\n"));
  CHECK_THAT(text_plot({}, {.columns = 1, .lines = 1}, false), Catch::Contains("└"));
  CHECK_THAT(svg_plot(none, "nothing"), Catch::EndsWith("</svg>\n"));
}

TEST_CASE("a picture names its curves, and escapes their names") {
  const std::vector<Curve> two{{"a<b", {0, 10}, {1, 3}}, {"c&\"d", {0, 20}, {2, 0}}};
  const std::string svg = svg_plot(two, "loss & more");
  CHECK_THAT(svg, Catch::StartsWith("<svg xmlns="));
  CHECK_THAT(svg, Catch::Contains(">loss &amp; more</text>"));
  CHECK_THAT(svg, Catch::Contains("<title>a&lt;b</title>"));
  CHECK_THAT(svg, Catch::Contains(">c&amp;&quot;d</text>"));
  // The first point of the first curve is at the left; the greatest value is at the top.
  CHECK_THAT(svg, Catch::Contains("points=\"64.0,282.7 424.0,36.0\""));
  CHECK(svg == svg_plot(two, "loss & more"));
}

TEST_CASE("the curves of a growing log have the means of neighbouring rows") {
  GrowingCurve curve(4);
  for (int i = 1; i <= 8; ++i) curve.add(i, i);
  CHECK(curve.curve("").values == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  curve.add(9, 9);  // more than 2 * 4 points: each stands for two rows
  CHECK(curve.curve("").steps == std::vector<double>{2, 4, 6, 8, 9});
  CHECK(curve.curve("").values == std::vector<double>{1.5, 3.5, 5.5, 7.5, 9});
  curve.add(10, 11);
  CHECK(curve.curve("").values.back() == 10);
  // A training that goes on from step 6 does the steps behind it again.
  curve.add(7, 70);
  CHECK(curve.curve("").steps == std::vector<double>{2, 4, 6, 7});
  curve.add(8, std::nan(""));
  CHECK(curve.curve("").values.back() == 70);
}

TEST_CASE("a growing log is taken in pieces that end anywhere") {
  const std::string log = kLog;
  for (const size_t piece : {1u, 7u, 1000u}) {
    GrowingCurves curves;
    for (size_t at = 0; at < log.size(); at += piece) curves.add(log.substr(at, piece));
    REQUIRE(curves.of_steps().size() == 3);
    CHECK(curves.of_steps()[1].label == "loss");
    CHECK(curves.of_steps()[1].steps == std::vector<double>{1, 3});
    CHECK(curves.of_steps()[1].values == std::vector<double>{2.5, 1.25});
    REQUIRE(curves.of_epochs().size() == 2);
    CHECK(curves.of_epochs()[1].label == "val_loss");
  }
  GrowingCurves long_line;
  for (int i = 0; i < 100; ++i) long_line.add(std::string(10000, 'x'));
  long_line.add("\n{\"step\": 1, \"loss\": 2}\n");
  CHECK(long_line.of_steps().size() == 1);
}

TEST_CASE("validations between epochs have curves of their own") {
  const std::string log =
      "{\"step\": 1, \"loss\": 3}\n{\"validation\": 1, \"step\": 1, \"val_loss\": 4}\n"
      "{\"step\": 2, \"loss\": 2}\n{\"validation\": 2, \"step\": 2, \"val_loss\": 3}\n"
      "{\"epoch\": 1, \"step\": 2, \"loss\": 2.5, \"val_loss\": 3}\n";
  GrowingCurves curves;
  curves.add(log);
  REQUIRE(curves.of_epochs().size() == 2);
  CHECK(curves.of_epochs()[0].label == "loss");
  CHECK(curves.of_epochs()[1].label == "val_loss");
  CHECK(curves.of_epochs()[1].steps == std::vector<double>{1, 2});
  CHECK(curves.of_epochs()[1].values == std::vector<double>{4, 3});
  EventFile file(0);
  file.add_numbers(parse_metrics(log));
  const std::string events = file.bytes();
  const auto times = [&](const std::string& tag) {
    size_t count = 0;
    for (size_t at = 0; (at = events.find(tag, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(times("validation/loss") == 2);
  CHECK(times("epoch/loss") == 1);
}

TEST_CASE("two job files differ in some keys") {
  const auto keys = must(compare_job_files("a: 1\nb: {c: [1, 2], d: x}\ne: 5\n",
                                           "a: 1\nb: {c: [1, 3], d: x}\nf: {g: yes}\n"));
  REQUIRE(keys.size() == 3);
  CHECK(keys[0].key == "b.c");
  CHECK(keys[0].first == "[1, 2]");
  CHECK(keys[0].second == "[1, 3]");
  CHECK(keys[1].key == "e");
  CHECK(keys[1].second.empty());
  CHECK(keys[2].key == "f.g");
  CHECK(keys[2].first.empty());
  CHECK_THAT(compare_job_files("a: [", "a: 1").status().message(),
             Catch::StartsWith("the first job file:"));
}

TEST_CASE("the best epoch has the least loss, or the greatest of another metric") {
  const MetricsTable table = parse_metrics(
      "{\"epoch\": 1, \"step\": 5, \"val_loss\": 3, \"val_accuracy\": 0.5}\n"
      "{\"epoch\": 2, \"step\": 10, \"val_loss\": 2, \"val_accuracy\": 0.75, \"seconds\": 1}\n"
      "{\"epoch\": 3, \"step\": 15, \"val_loss\": \"NaN\", \"val_accuracy\": 0.25}\n");
  const std::vector<MetricSummary> all = summarize(table);
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "val_loss");
  CHECK(all[0].best == 2);
  CHECK(all[0].best_epoch == 2);
  CHECK(std::isnan(all[0].last));
  CHECK(all[1].best == 0.75);
  CHECK(all[1].best_epoch == 2);
  CHECK(all[1].last == 0.25);
  CHECK(less_is_better("val_rmse"));
  CHECK_FALSE(less_is_better("f1"));
}

}  // namespace
}  // namespace leat

// The curves of a training that goes on, in bounded memory: its log of metrics is read as it grows.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/curves/metrics_table.h"

namespace leat {

// A curve of at most 2 * `most` points. Once there are more, neighbours become one point, their
// mean: each point then stands for twice as many rows.
class GrowingCurve {
 public:
  explicit GrowingCurve(size_t most) : most_(most) {}
  // Adds a row. Rows at `step` and later ones are taken back, since a training that recovers does
  // these steps again. Numbers that are not finite are left out.
  void add(double step, double value);
  // The point of several rows is at the last one's step.
  Curve curve(const std::string& label) const;

 private:
  struct Point {
    double step = 0, sum = 0;
    int64_t rows = 0;
  };
  void halve();

  size_t most_;
  int64_t rows_of_point_ = 1;
  std::vector<Point> points_;
};

// The curves of a job, as far as its log has been read.
struct CurvesView {
  std::vector<Curve> of_steps, of_epochs;  // by name
  bool whole = false;                      // the log was read to its end at least once
};

// The curves of one log.
class GrowingCurves {
 public:
  // `most_points` of each curve; metrics beyond the first `kMostMetrics` are left out.
  static constexpr size_t kMostMetrics = 64;
  explicit GrowingCurves(size_t most_points = 500) : most_points_(most_points) {}

  // Takes the text that follows what it took before. A last line without its end waits for the
  // rest.
  void add(std::string_view text);
  // The curves of the rows of steps, and those of rows of epochs and validations, each in the order
  // of names.
  std::vector<Curve> of_steps() const { return curves(steps_); }
  std::vector<Curve> of_epochs() const;

 private:
  using Curves = std::map<std::string, GrowingCurve>;
  void add_rows(const MetricsRows& rows, Curves& to) const;
  static std::vector<Curve> curves(const Curves& from);

  size_t most_points_;
  std::string unfinished_;
  Curves steps_, epochs_, validations_;
};

}  // namespace leat

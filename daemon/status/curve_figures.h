// Draws the curves of jobs for their pages: one small picture for each metric, with that of the
// validation in the same axes.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/curves/growing_curves.h"

namespace leat {

// A step at which something happened, which the pictures mark by a line.
struct CurveMark {
  double step = 0;
  std::string text;  // what a pointer on the line shows
};

// The curves of one of several jobs.
struct ComparedJob {
  std::string job;
  CurvesView view;
};

// The jobs that are drawn over each other at most; each has a colour of its own.
inline constexpr size_t kMostCompared = 6;

// The HTML of the part "curves" of a page, in the page's colours; without curves it says so.
std::string curve_figures(const CurvesView& view, std::span<const CurveMark> marks = {});
// The same of several jobs over each other, with a legend; the validation is dashed. REQUIRES: at
// most kMostCompared.
std::string compared_figures(std::span<const ComparedJob> jobs);

}  // namespace leat

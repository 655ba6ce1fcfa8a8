// Draws the curves of a job for its page: one small picture for each metric, with that of the
// validation in the same axes.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "daemon/curves/growing_curves.h"

namespace leat {

// The HTML of the part "curves" of a page, in the page's colours; without curves it says so.
std::string curve_figures(const CurvesView& view);

}  // namespace leat

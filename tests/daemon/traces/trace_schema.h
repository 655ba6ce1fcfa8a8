// Checks a trace in Chrome's format.
#pragma once

#include <cstddef>
#include <string>

namespace leat {

struct TraceFacts {
  size_t slices = 0, arrows = 0, processes = 0;
};

// Requires an object with traceEvents in the order of their times; each event has its phase, times
// that are not negative, process and thread; each arrow has one beginning and one end, which does
// not come before it, and each of them lies in a slice of its thread.
TraceFacts check_trace(const std::string& text);

}  // namespace leat

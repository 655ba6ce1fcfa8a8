// GridSample: a value read at places between its elements. X is [N,C,sizes...] with one to three
// sizes, the grid [N,places...,sizes]; a place has its coordinates from the last axis to the first,
// from -1 to 1.
//
// Source: ONNX's operator reference, GridSample-22, and its reference implementation.
#pragma once

#include "devices/base/status.h"
#include "ops/elements/grid_taps.h"
#include "ops/graph/attrs.h"
#include "ops/graph/kernel.h"

namespace leat {

// The message of an error has no subject.
Result<GridSampleSpec> grid_sample_spec(const Attrs& attrs);
// The spec of a GridSample, or of its gradient, whose shapes fit; X is input `x`, and the grid
// follows it.
Result<GridSampleSpec> grid_sample_spec_of(const KernelSetup& setup, int x);

}  // namespace leat

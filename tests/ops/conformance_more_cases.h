// Parts of the table of conformance cases that have a file of their own.
#pragma once

#include <vector>

#include "tests/ops/conformance.h"

namespace leat::testing {

// Products of one column or one row.
void add_product_cases(std::vector<ConformanceCase>& cases);
// Determinants, Fourier transforms, caches of sequences, and bits of numbers.
void add_signal_cases(std::vector<ConformanceCase>& cases);
// Regions of interest, windows that read at places which an operand moves, resized images and files
// of images, and distances of sequences.
void add_region_cases(std::vector<ConformanceCase>& cases);

}  // namespace leat::testing

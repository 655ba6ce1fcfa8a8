// A comparison of the variables of two checkpoints: which ones differ, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_store.h"

namespace leat {

// The difference of one variable between two checkpoints.
struct VariableDifference {
  // type: dtype or shape differ, so no elements are compared.
  enum class Kind : uint8_t { only_first, only_second, type, elements };
  std::string name;
  Kind kind = Kind::elements;
  std::string first = {}, second = {};  // for kind type: dtype and shape
  // For kind elements: the number of elements whose bytes differ, and the number of all elements.
  int64_t differing = 0;
  int64_t of = 0;
  int64_t index = 0;                         // of the first differing element, row-major
  double first_value = 0, second_value = 0;  // its values
  double largest = 0;                        // absolute difference; NaN if one side is NaN
};

// Returns the differences by name; none if all bytes are equal. Bytes are compared, not values: 0
// and -0 differ, and a NaN is equal to a NaN of the same bits.
std::vector<VariableDifference> compare(const Variables& first, const Variables& second);

// Returns a line for people: "layer0/w: 3 of 97 elements differ, the first at 5: 1.5 and 1.25; by
// 0.25 at most"
std::string describe(const VariableDifference& difference);

}  // namespace leat

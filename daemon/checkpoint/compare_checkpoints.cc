#include "daemon/checkpoint/compare_checkpoints.h"

#include <cmath>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

using Kind = VariableDifference::Kind;

std::string type_of(const Tensor& value) {
  return cat(dtype_name(value.dtype()), value.shape().to_string());
}

// REQUIRES: both have the same dtype and shape.
VariableDifference compare_elements(const std::string& name, const Tensor& a, const Tensor& b) {
  VariableDifference out;
  out.name = name;
  out.of = a.elements();
  const size_t size = dtype_size(a.dtype());
  const auto* left = static_cast<const std::byte*>(a.raw());
  const auto* right = static_cast<const std::byte*>(b.raw());
  // Bytes are compared, not values: 0 and -0 differ, and a NaN equals itself.
  for (int64_t i = 0; i < out.of; ++i, left += size, right += size) {
    if (std::memcmp(left, right, size) == 0) continue;
    if (out.differing++ == 0) {
      out.index = i;
      out.first_value = a.at(i);
      out.second_value = b.at(i);
    }
    const double by = std::abs(a.at(i) - b.at(i));
    // Once it is NaN it stays NaN, since no number is greater.
    if (std::isnan(by) || by > out.largest) out.largest = by;
  }
  return out;
}

}  // namespace

std::vector<VariableDifference> compare(const Variables& first, const Variables& second) {
  std::vector<VariableDifference> out;
  const auto add = [&](VariableDifference difference) { out.push_back(std::move(difference)); };
  auto a = first.begin();
  auto b = second.begin();
  // Both maps are in the order of names, so one pass over both finds the names that one side lacks.
  while (a != first.end() || b != second.end()) {
    if (b == second.end() || (a != first.end() && a->first < b->first)) {
      add({.name = a++->first, .kind = Kind::only_first});
    } else if (a == first.end() || b->first < a->first) {
      add({.name = b++->first, .kind = Kind::only_second});
    } else {
      const auto& [name, left] = *a++;
      const Tensor& right = b++->second;
      // Elements of other types or shapes have no partners, so only the types are told.
      if (type_of(left) != type_of(right)) {
        add({.name = name, .kind = Kind::type, .first = type_of(left), .second = type_of(right)});
      } else if (!left.identical(right)) {
        add(compare_elements(name, left, right));
      }
    }
  }
  return out;
}

std::string describe(const VariableDifference& d) {
  switch (d.kind) {
    case Kind::only_first:
      return cat(d.name, ": in the first alone");
    case Kind::only_second:
      return cat(d.name, ": in the second alone");
    case Kind::type:
      return cat(d.name, ": ", d.first, " and ", d.second);
    case Kind::elements:
      break;
  }
  return cat(d.name, ": ", d.differing, " of ", d.of, " elements differ, the first at ", d.index,
             ": ", shortest(d.first_value), " and ", shortest(d.second_value), "; by ",
             shortest(d.largest), " at most");
}

}  // namespace leat

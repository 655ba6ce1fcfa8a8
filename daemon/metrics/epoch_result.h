// The result of an epoch, and the encoding of numbers that are not there.
//
// Threads: values.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// Stands for a number that is not there. A NaN that a training computed is another one, and is
// shown: see computed().
inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// Compares the bits, since a NaN is equal to no number.
inline bool is_known(double value) {
  return !std::isnan(value) || std::bit_cast<uint64_t>(value) != std::bit_cast<uint64_t>(kNoNumber);
}

// Returns `value`, changed if it is a NaN so that is_known() is true.
inline double computed(double value) {
  constexpr uint64_t kComputedNaN = std::bit_cast<uint64_t>(kNoNumber) | 1;
  return std::isnan(value) ? std::bit_cast<double>(kComputedNaN) : value;
}

// A number with its name in metrics.jsonl: "val_f1". The bits of a NaN count: see computed().
struct NamedNumber {
  std::string name;
  double value = kNoNumber;
  bool operator==(const NamedNumber& other) const {
    return name == other.name &&
           std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
  }
};

// All numbers are kNoNumber until they are known; a job without accuracy or validation never knows
// these.
struct EpochResult {
  // Counts from 1; 0: no epoch has ended.
  uint32_t epoch = 0;
  // The steps of the job that are done at the end of the epoch.
  uint64_t step = 0;
  // The means over the steps of the epoch that were not skipped.
  double loss = kNoNumber;
  double accuracy = kNoNumber;
  // Of the validation after the epoch.
  double val_loss = kNoNumber;
  double val_accuracy = kNoNumber;
  // These two depend on timing. They are of the part of the epoch that the last attempt trained.
  double seconds = kNoNumber;  // spent training
  double samples_per_second = kNoNumber;
  // The job's other metrics, in its order.
  std::vector<NamedNumber> more = {};

  // The number of that name, such as "val_loss" or one of `more`; kNoNumber if there is none.
  double number(std::string_view name) const;
};

inline double EpochResult::number(std::string_view name) const {
  if (name == "loss") return loss;
  if (name == "accuracy") return accuracy;
  if (name == "val_loss") return val_loss;
  if (name == "val_accuracy") return val_accuracy;
  for (const NamedNumber& each : more) {
    if (each.name == name) return each.value;
  }
  return kNoNumber;
}

// The number of epochs that a job remembers.
inline constexpr size_t kMostEpochs = 100;

}  // namespace leat

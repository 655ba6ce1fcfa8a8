// The result of an epoch, and the representation of numbers that are unknown.
//
// Threads: values.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace leat {

// The value of a number that is unknown. A training may compute another NaN, which is known and
// shown: see computed().
inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// True unless the value is kNoNumber.
inline bool is_known(double value) {
  return !std::isnan(value) || std::bit_cast<uint64_t>(value) != std::bit_cast<uint64_t>(kNoNumber);
}

// Returns `value` as a known number: a NaN becomes one that differs from kNoNumber.
inline double computed(double value) {
  constexpr uint64_t kComputedNaN = std::bit_cast<uint64_t>(kNoNumber) | 1;
  return std::isnan(value) ? std::bit_cast<double>(kComputedNaN) : value;
}

// The metrics of one epoch. A value may be unknown.
struct EpochResult {
  uint32_t epoch = 0;       // from 1; 0: no epoch has ended
  uint64_t step = 0;        // steps of the job that are done
  double loss = kNoNumber;  // mean over the epoch's steps, like accuracy
  double accuracy = kNoNumber;
  double val_loss = kNoNumber;  // of the validation after the epoch
  double val_accuracy = kNoNumber;
  // The two values below depend on timing. They belong to the part of the epoch that the last
  // attempt trained.
  double seconds = kNoNumber;  // of training
  double samples_per_second = kNoNumber;
};

// The number of a job's last epochs that are kept.
inline constexpr size_t kMostEpochs = 100;

}  // namespace leat

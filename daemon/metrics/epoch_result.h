// The result of an epoch, and the encoding of numbers that are not there.
//
// Threads: values.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace leat {

// Stands for a number that is not there. A NaN that a training computed is another one, and is
// shown: see computed().
inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

inline bool is_known(double value) {
  return !std::isnan(value) || std::bit_cast<uint64_t>(value) != std::bit_cast<uint64_t>(kNoNumber);
}

// Returns `value`, changed if it is a NaN so that is_known() is true.
inline double computed(double value) {
  constexpr uint64_t kComputedNaN = std::bit_cast<uint64_t>(kNoNumber) | 1;
  return std::isnan(value) ? std::bit_cast<double>(kComputedNaN) : value;
}

struct EpochResult {
  uint32_t epoch = 0;       // from 1; 0: none has ended
  uint64_t step = 0;        // steps of the job that are done
  double loss = kNoNumber;  // mean over the epoch's steps, as accuracy
  double accuracy = kNoNumber;
  double val_loss = kNoNumber;  // of the validation after it
  double val_accuracy = kNoNumber;
  // These two depend on timing. They are of the part of the epoch that the last attempt trained.
  double seconds = kNoNumber;  // spent training
  double samples_per_second = kNoNumber;
};

// The number of epochs that a job remembers.
inline constexpr size_t kMostEpochs = 100;

}  // namespace leat

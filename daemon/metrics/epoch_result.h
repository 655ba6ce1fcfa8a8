// The result of an epoch, and how a number that a training computed is told from one that is not
// there.
//
// Threads: values.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace leat {

// There is no number. A training may compute another NaN, which is one to be shown: computed().
inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

inline bool is_known(double value) {
  return !std::isnan(value) || std::bit_cast<uint64_t>(value) != std::bit_cast<uint64_t>(kNoNumber);
}

// `value`, so that it is known: whatever NaN it is.
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
  // These two depend on timing: of the part of the epoch that the last attempt trained.
  double seconds = kNoNumber;  // spent training
  double samples_per_second = kNoNumber;
};

// A job's last epochs are remembered, so many of them.
inline constexpr size_t kMostEpochs = 100;

}  // namespace leat

// The order of the rows of a training: a function of the seed and the epoch alone, so that any
// number of workers, and a job that goes on after a stop, have the same one.
#pragma once

#include <cstdint>

#include "devices/base/philox.h"

namespace leat {

// The record at a position of the endless sequence of epochs, each in an order of its own. Calls
// with ascending positions compute one permutation per epoch. `stream`: orders of other streams
// have nothing in common with it; 0 is that of all rows, and shard + 1 that of a shard's own.
// Threads: one.
class EpochOrder {
 public:
  // REQUIRES: count is at least 1.
  EpochOrder(int64_t count, bool shuffle, uint64_t seed, uint32_t stream = 0)
      : count_(count),
        shuffle_(shuffle),
        seed_(seed),
        stream_(stream),
        order_(static_cast<uint64_t>(count), 0) {}

  int64_t record(int64_t position) {
    const int64_t epoch = position / count_, place = position % count_;
    if (!shuffle_) return place;
    if (epoch != epoch_) {
      // Positions of a tile ascend, so a new permutation is made only when a tile crosses into
      // another epoch.
      order_ = Permutation(static_cast<uint64_t>(count_), key(static_cast<uint64_t>(epoch)));
      epoch_ = epoch;
    }
    return static_cast<int64_t>(order_(static_cast<uint64_t>(place)));
  }

 private:
  // The key of an epoch's permutation follows from the seed, the epoch and the stream alone, so a
  // restart sees the same order.
  uint64_t key(uint64_t epoch) const {
    constexpr uint32_t kTag =
        0x45504f43;  // "EPOC": separates these numbers from others drawn with this seed
    const auto words =
        philox({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32), kTag, stream_},
               {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    return uint64_t{words[1]} << 32 | words[0];
  }

  const int64_t count_;
  const bool shuffle_;
  const uint64_t seed_;
  const uint32_t stream_;
  int64_t epoch_ = -1;
  Permutation order_;
};

}  // namespace leat

// Engines whose weights are packed in blocks of 16 output channels: [blocks][taps][16], where a tap
// is an element of the kernel over all input channels of a group.
#pragma once

#include "ops/cpu/conv_engine.h"

namespace leat {

class BlockedWeightsConv : public ConvEngine {
 public:
  bool packs() const override { return true; }
  size_t packed_bytes() const override {
    return static_cast<size_t>(outputs_ * taps_) * sizeof(float);
  }
  int slices() const override { return 1; }
  Range slice(int) const override { return {0, outputs_ * taps_}; }
  bool pack(const void* weights, void* packed, int) const override {
    copy(static_cast<const float*>(weights), static_cast<float*>(packed), true);
    return true;
  }
  bool unpack(const void* packed, void* weights, int) const override {
    copy(static_cast<const float*>(packed), static_cast<float*>(weights), false);
    return true;
  }

 protected:
  // `turned`: the taps are packed in the opposite order. REQUIRES: outputs % 16 == 0.
  BlockedWeightsConv(int64_t outputs, int64_t taps, bool turned)
      : outputs_(outputs), taps_(taps), turned_(turned) {}

 private:
  // Copies between [outputs][taps] and the packed weights.
  void copy(const float* from, float* to, bool packs) const {
    constexpr int64_t kLanes = 16;
    for (int64_t o = 0; o < outputs_; ++o) {
      for (int64_t t = 0; t < taps_; ++t) {
        const int64_t at = turned_ ? taps_ - 1 - t : t, plain = o * taps_ + t;
        const int64_t packed = (o / kLanes * taps_ + at) * kLanes + o % kLanes;
        to[packs ? packed : plain] = from[packs ? plain : packed];
      }
    }
  }

  const int64_t outputs_, taps_;
  const bool turned_;
};

}  // namespace leat

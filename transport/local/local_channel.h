// local://: both partitions live in this process, and a push is one copy into the consumer's slot.
// The other direction has a channel of its own.
#pragma once

#include "transport/channel.h"

namespace leat::local {

// Owns nothing. Threads: as Channel says.
class LocalChannel : public Channel {
 public:
  // `destination` is the receiver's table. It outlives the channel.
  explicit LocalChannel(SlotTable& destination) : destination_(&destination) {}

  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    return destination_->deliver(edge, turn, data, bytes);
  }
  Timeline& credit(uint32_t edge) override { return destination_->edge(edge).retired; }
  void abort(const Status& cause) override { destination_->abort(cause); }

 private:
  SlotTable* destination_;
};

}  // namespace leat::local

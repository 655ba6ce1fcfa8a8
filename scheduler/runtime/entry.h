// The entries that a step of a program runs through, and what they wait for.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core/device.h"
#include "scheduler/plan/plan.h"
#include "transport/channel.h"
#include "transport/slots.h"

namespace leat {

// The connections of one partition to the others. The host gives them to the program.
struct Exchange {
  SlotTable* slots = nullptr;  // for incoming values; null if there are none
  // By partition of the plan; null where nothing is sent. If all that comes from a partition is
  // given back over the channel to it, retired values are reported together.
  std::vector<Channel*> channels;
};

// A wait of an entry before it may start: in turn t, until the timeline is at t + 1 - lag.
struct Await {
  Timeline* timeline = nullptr;
  uint64_t lag = 0;
  uint32_t instruction = kNone;  // the instruction whose value it is, for people
};

// One entry of a step: `tiles` pieces, each of which runs one phase of one kernel, which may do the
// work of several instructions (joins.h), or the row phases of a whole chain. A bundle is a row of
// other entries, all cheap and at least one of them a transfer, that one thread runs in order: the
// values that it sends to one peer travel in one frame.
struct Entry {
  enum class Kind : uint8_t { kernel, send, receive, retire, fetch, bundle };
  Kind kind = Kind::kernel;
  bool may_block = false;   // may have to wait for another run: the thread that advances runs it
  bool cheap = false;       // costs less than handing it to another thread
  bool commits = false;     // decides whether the step's writes, which follow it, are made
  bool reads_rows = false;  // reads rows of a data set, by itself or first in a chain
  bool in_place = false;    // send: the value stays as it is until the channel has sent() it
  int phase = 0;            // -1: each member's row phase
  // Tiles [first_tile, first_tile + tiles) of the phase. If an operand comes or goes in pieces,
  // an entry has the tiles of one piece.
  uint32_t first_tile = 0, tiles = 1;
  // The members [first, last), run in order for each tile: bound kernels of the program's
  // KernelTable, or, of a bundle, EntryList::bundled.
  uint32_t first = 0, last = 0;
  uint32_t instruction = 0;
  uint32_t edge = kNone;
  Channel* channel = nullptr;      // send: to the reader; retire: to the sender, or null
  std::vector<Channel*> channels;  // bundle: those of all its members
  std::vector<Await> awaits;
  // The entries that must be done before, of the same step and of the step before. They follow from
  // the bytes that entries touch, so that reused memory is ordered like data.
  std::vector<uint32_t> after, after_previous;
};

// The entries of a step in order, with what a run needs to know of them as a whole.
struct EntryList {
  std::vector<Entry> entries;
  std::vector<Entry> bundled;  // the members of bundles
  // The entry that decides a step, and the end of the range [commit, commit_end) in which nothing
  // waits for anything outside. kNone if the partition does not commit.
  uint32_t commit = kNone, commit_end = kNone;
  // The timelines that values sent in place raise when their bytes have left, with the sends. A
  // turn is over when all of them have come to it.
  struct Sent {
    Timeline* timeline;
    uint32_t instruction;
  };
  std::vector<Sent> sent;
};

}  // namespace leat

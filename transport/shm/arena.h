// Receive slots in memory that a peer on the same machine can write. To send a value is to write it
// there and to publish its number.
//
// The receiver makes the arena, a sealed memory file, and gives it to the sender. The layout
// follows from the edges alone, which both ends know. Every field has one writer:
//
//       0 8  "LEATSHM1"             written once by the receiver; the sender compares all three
//       8 8  size of the file
//      16 8  checksum of the edges
//      64    for each edge, 2 cache lines of counters:
//              published   the number of values written, by the sender
//              retired     the number of values retired, by the receiver
//   page..   for each edge, kSlotDepth slots, each on pages of its own
//
// The peer is a process of the same run. It can spoil the values that it is there to send, at any
// time, and nothing else: its counters are judged like those that come over a wire, and the file
// cannot be cut short while it is mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/io/descriptor.h"
#include "transport/link.h"

namespace leat::shm {

// The processes that can write to a memory file: all that map it, or its maker alone.
enum class Writers : uint8_t { all, this_mapping };

// A memory file of this or another process, mapped for reading and writing. The last reference
// unmaps it and closes the descriptor.
// Threads: any; the owner orders the accesses to the bytes.
class MemoryFile {
 public:
  // A new file of zeros. Its pages are allocated and its size is sealed. `name` is for /proc alone.
  // resource_exhausted if there is no memory.
  static Result<std::shared_ptr<MemoryFile>> create(const char* name, size_t bytes,
                                                    Writers writers = Writers::all);
  // Maps a peer's file. invalid_argument unless it is sealed and has this size.
  static Result<std::shared_ptr<MemoryFile>> open(Descriptor file, size_t bytes,
                                                  std::string_view peer);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  int descriptor() const { return file_.get(); }

 private:
  MemoryFile(Descriptor file, std::byte* data, size_t size)
      : file_(std::move(file)), data_(data), size_(size) {}
  static Result<std::shared_ptr<MemoryFile>> map(Descriptor file, size_t bytes);

  Descriptor file_;
  std::byte* data_;
  size_t size_;
};

// The slots of one direction of a link, in the process that made them or in its peer.
// Threads: any; the link orders the accesses.
class Arena {
 public:
  // Makes an arena for these edges. resource_exhausted if there is no memory.
  static Result<Arena> create(const std::vector<LinkEdge>& edges);
  // Opens the peer's arena. invalid_argument if it was not made for the same edges.
  static Result<Arena> open(Descriptor file, const std::vector<LinkEdge>& edges,
                            std::string_view peer);
  // The size of an arena for these edges.
  static size_t bytes_for(const std::vector<LinkEdge>& edges);

  // Opens the edges in the table, with their slots in this arena. The slots keep the arena mapped.
  void open_slots(SlotTable& slots) const;

  // The counters of the i-th edge. In a peer's arena any process may change them at any time.
  std::atomic<uint64_t>& published(size_t i) const { return *counter(i, 0); }
  std::atomic<uint64_t>& retired(size_t i) const { return *counter(i, 1); }
  // The slot of the i-th edge for `turn`.
  std::byte* slot(size_t i, uint64_t turn) const;
  int descriptor() const { return file_->descriptor(); }

 private:
  Arena(std::shared_ptr<MemoryFile> file, std::vector<LinkEdge> edges);
  std::atomic<uint64_t>* counter(size_t i, size_t which) const;

  std::shared_ptr<MemoryFile> file_;
  std::vector<LinkEdge> edges_;
  // The place of each edge's first slot.
  std::vector<size_t> offsets_;
};

}  // namespace leat::shm

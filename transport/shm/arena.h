// Receive slots in memory that a peer on the same host can write: to send a value is to write it
// there and to publish its number.
//
// The receiver makes the arena, a sealed memory file, and gives it to the sender. Its layout
// follows from the edges alone, which both know; every field has one writer:
//
//   header                    magic, size and a checksum of the edges: what the peer compares
//   for each edge, 2 lines    published: values written, by the sender | retired, by the receiver
//   for each edge, its slots  kSlotDepth of them, each on a page of its own
//
// The peer is a process of the same run: it can spoil the values that it is there to send, at any
// time, and nothing else. Counters that it writes are judged like those that come over a wire, and
// the file cannot be cut short under its readers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/io/descriptor.h"
#include "transport/link.h"

namespace leat::shm {

// Who may write to a memory file: whoever maps it, or its maker alone.
enum class Writers : uint8_t { all, this_mapping };

// A memory file of this or another process, mapped for reading and writing.
class MemoryFile {
 public:
  // A new one of zeros, its pages there and its size sealed.
  static Result<std::shared_ptr<MemoryFile>> create(const char* name, size_t bytes,
                                                    Writers writers = Writers::all);
  // A peer's. invalid_argument unless it is sealed and has this size.
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

class Arena {
 public:
  // An arena for these edges. resource_exhausted if there is no memory.
  static Result<Arena> create(const std::vector<LinkEdge>& edges);
  // The peer's, for the same edges.
  static Result<Arena> open(Descriptor file, const std::vector<LinkEdge>& edges,
                            std::string_view peer);
  // What an arena for these edges takes.
  static size_t bytes_for(const std::vector<LinkEdge>& edges);

  // Opens the edges in the table, with their slots here.
  void open_slots(SlotTable& slots) const;

  // By place among the edges.
  std::atomic<uint64_t>& published(size_t i) const { return *counter(i, 0); }
  std::atomic<uint64_t>& retired(size_t i) const { return *counter(i, 1); }
  std::byte* slot(size_t i, uint64_t turn) const;
  int descriptor() const { return file_->descriptor(); }

 private:
  Arena(std::shared_ptr<MemoryFile> file, std::vector<LinkEdge> edges);
  std::atomic<uint64_t>* counter(size_t i, size_t which) const;

  std::shared_ptr<MemoryFile> file_;
  std::vector<LinkEdge> edges_;
  std::vector<size_t> offsets_;  // of each edge's first slot
};

}  // namespace leat::shm

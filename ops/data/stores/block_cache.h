// Blocks of files of stores that were read a while ago. Private to ops/data.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "devices/base/files.h"

namespace leat {

// At most so many bytes of blocks; the one that was used the longest time ago goes first.
// Threads: any.
class BlockCache {
 public:
  using Block = std::shared_ptr<const Bytes>;
  explicit BlockCache(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  // A number for a file: no two have the same. A file that is opened again gets another one, so
  // that no block of an older content is found.
  uint64_t new_file();
  // Null if the block is not there. The caller may keep it for as long as it likes: its bytes count
  // here only until it is removed.
  Block find(uint64_t file, uint64_t index);
  // Keeps the block, unless there is one of that place already or it alone has too many bytes.
  void put(uint64_t file, uint64_t index, Block block);
  // Of the blocks that are kept now.
  uint64_t bytes() const;

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  struct Entry {
    Block block;
    std::list<Key>::iterator used;
  };
  const uint64_t most_bytes_;
  mutable std::mutex mutex_;
  std::map<Key, Entry> blocks_;
  std::list<Key> used_;  // the last used is the first
  uint64_t bytes_ = 0, files_ = 0;
};

}  // namespace leat

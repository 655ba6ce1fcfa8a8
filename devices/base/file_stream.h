// The bytes of a file one after the other, decompressed if it is a gzip file: what a small file
// can become is never held, or inflated, beyond what its reader asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Closed when destroyed. Threads: one.
class FileStream {
 public:
  virtual ~FileStream() = default;
  // Fills `out` with the bytes that come next, and returns how many: fewer only where the file ends
  // or is damaged, and the damage is the error of every later call. A gzip file's CRC and length
  // are checked by the call that finds its end.
  virtual Result<size_t> read(std::span<std::byte> out) = 0;
  // Of all that can be read, if that is known before: the file is not compressed.
  virtual std::optional<uint64_t> size() const = 0;
  // No more than so many bytes come out: the size, or what so much compressed data holds at most.
  virtual uint64_t most_bytes() const = 0;
};

// The errors are those of Files, and invalid_argument for damaged or cut gzip data, of which one or
// more members follow each other.
Result<std::unique_ptr<FileStream>> open_stream(Files& files, const std::string& path);

}  // namespace leat

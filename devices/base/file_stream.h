// The bytes of a file one after the other, decompressed if it is a gzip file. The stream never
// holds or inflates more than its reader asks for, however much a small file could become.
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

// One open file that is read from its beginning to its end. Its destructor closes the file.
// Threads: one.
class FileStream {
 public:
  virtual ~FileStream() = default;
  // Fills `out` with the next bytes and returns their number. The number is smaller than `out` only
  // at the end of the file and before damage. Every later call returns the damage as its error. The
  // call that reaches the end of a gzip member checks its CRC and length.
  virtual Result<size_t> read(std::span<std::byte> out) = 0;
  // The number of all bytes, if it is known beforehand, which means that the file is not
  // compressed.
  virtual std::optional<uint64_t> size() const = 0;
  // An upper bound of the bytes that come out: the size, or the most that so much compressed data
  // can hold.
  virtual uint64_t most_bytes() const = 0;
};

// Opens `path`, and looks at its first two bytes to tell a gzip file, which may have several
// members. The errors are those of Files, and invalid_argument for gzip data that is damaged or
// cut. `files` is not used after the stream has ended.
Result<std::unique_ptr<FileStream>> open_stream(Files& files, const std::string& path);

}  // namespace leat

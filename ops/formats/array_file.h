// A file of one array on disk, plain or gzip, read from its beginning: the header first, and then
// no more than it says. Private to ops/formats, but for dataset.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "devices/base/file_stream.h"
#include "devices/core/tensor.h"
#include "ops/formats/array_header.h"

namespace leat {

// The parts of a format that differ from the others'.
struct ArrayFormat {
  // Of the first bytes of a file, longest_header of them if it has so many.
  Result<ArrayHeader> (*parse_header)(std::span<const std::byte> bytes, std::string_view subject);
  uint64_t longest_header;
  bool big_endian;
};

// Threads: one.
class ArrayFile {
 public:
  // Reads the header. invalid_argument if it is none, or the file cannot hold what it says: a plain
  // one has another size, a compressed one is too small to become so large. resource_exhausted if
  // header and elements are more than `limit` bytes.
  static Result<ArrayFile> open(Files& files, const std::string& path, const ArrayFormat& format,
                                uint64_t limit);
  const ArrayHeader& header() const { return header_; }
  // The next elements, in the file's order, as many as fit. REQUIRES: a multiple of the element's
  // size, and no more than there are left.
  Status read(std::span<std::byte> out);
  // Checks that nothing comes after the elements. REQUIRES: all of them were read.
  Status expect_end();
  // The array, all of it, in C's order. REQUIRES: nothing was read.
  Result<Tensor> read_all();

 private:
  ArrayFile(std::string path, std::unique_ptr<FileStream> stream)
      : path_(std::move(path)), stream_(std::move(stream)) {}
  Status read_header(const ArrayFormat& format);
  Status check_room(uint64_t limit) const;

  std::string path_;
  std::unique_ptr<FileStream> stream_;
  bool big_endian_ = false;
  ArrayHeader header_;
  Bytes start_;            // what was read with the header
  size_t start_at_ = 0;    // what of it was given out
  uint64_t elements_ = 0;  // bytes of them that were given out
};

}  // namespace leat

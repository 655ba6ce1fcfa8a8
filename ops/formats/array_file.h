// A file of one array on disk, plain or gzip. It is read from its beginning: the header first, and
// then no more bytes than the header declares. Private to ops/formats and dataset.cc.
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

// The properties of a format of such files.
struct ArrayFormat {
  // Parses the first bytes of a file: longest_header bytes, or the whole file if it is shorter.
  Result<ArrayHeader> (*parse_header)(std::span<const std::byte> bytes, std::string_view subject);
  uint64_t longest_header;
  bool big_endian;
};

// Threads: one.
class ArrayFile {
 public:
  // Reads the header. invalid_argument if it is no header, or if the file cannot contain what the
  // header declares: a plain file has another size, or a compressed one is too small to inflate to
  // that size. resource_exhausted if header and elements are more than `limit` bytes.
  static Result<ArrayFile> open(Files& files, const std::string& path, const ArrayFormat& format,
                                uint64_t limit);
  const ArrayHeader& header() const { return header_; }
  // Reads the next elements, in the file's order, to fill `out`. REQUIRES: out.size() is a multiple
  // of the element's size, and that many bytes are left.
  Status read(std::span<std::byte> out);
  // Checks that the file ends after the elements. REQUIRES: all elements were read.
  Status expect_end();
  // Reads the whole array, in C's order. REQUIRES: no elements were read.
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
  Bytes start_;            // the bytes that were read with the header
  size_t start_at_ = 0;    // how many of them were returned
  uint64_t elements_ = 0;  // bytes of elements that were returned
};

}  // namespace leat

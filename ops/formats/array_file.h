// A file of one array on disk, plain or gzip. It is read from its beginning: the header first, and
// then no more bytes than the header declares. Private to ops/formats and dataset.cc.
//
//   LEAT_ASSIGN_OR_RETURN(ArrayFile file, ArrayFile::open(files, path, npy_format(), kNpyBytes));
//   std::vector<std::byte> piece(file.header().shape.elements() * 4);   // or less, piece by piece
//   LEAT_RETURN_IF_ERROR(file.read(piece));
//   LEAT_RETURN_IF_ERROR(file.expect_end());
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

// The properties of a format of such files: idx_format() and npy_format().
struct ArrayFormat {
  // Parses the first bytes of a file: longest_header bytes, or the whole file if it is shorter.
  // `subject` is the path, which begins the messages.
  Result<ArrayHeader> (*parse_header)(std::span<const std::byte> bytes, std::string_view subject);
  uint64_t longest_header;
  // The elements in the file; read() returns them in the order of the machine.
  bool big_endian;
};

// One open file, which is closed by the destructor. An error ends its use. Every call reads from
// the file system and blocks for as long as that takes; a Files of read_within() bounds the time.
// Threads: one.
class ArrayFile {
 public:
  // Reads the header. invalid_argument if it is no header, or if the file cannot contain what the
  // header declares: a plain file has another size, or a compressed one is too small to inflate to
  // that size. resource_exhausted if header and elements are more than `limit` bytes. Nothing of
  // the declared size is allocated here.
  static Result<ArrayFile> open(Files& files, const std::string& path, const ArrayFormat& format,
                                uint64_t limit);
  const ArrayHeader& header() const { return header_; }
  // True if the elements are in the file as they are in memory, one after the other.
  bool is_plain() const {
    return stream_->size().has_value() && !header_.fortran_order &&
           (!big_endian_ || dtype_size(header_.dtype) == 1);
  }
  // Reads the next elements, in the file's order, to fill `out`. invalid_argument if a compressed
  // file ends before, is damaged, or holds a boolean other than 0 and 1. REQUIRES: out.size() is a
  // multiple of the element's size, and that many bytes are left by the header.
  Status read(std::span<std::byte> out);
  // Checks that the file ends after the elements, and with it the checksum of a gzip file.
  // invalid_argument if there is more. REQUIRES: all elements were read.
  Status expect_end();
  // Reads the whole array, in C's order, and checks the end. An array in Fortran's order needs the
  // memory twice for a moment. REQUIRES: no elements were read.
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

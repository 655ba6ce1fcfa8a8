// NPY, numpy's file of one array, versions 1, 2 and 3.
//
//   byte 0   "\x93NUMPY"           byte 6   major, minor     byte 8   header size, little-endian:
//   then     the header, a Python literal such as                     u16 (version 1), u32 (2, 3)
//            {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and spaces
//   then     the elements
//
// The literal is read by a parser of exactly that form. Object arrays are pickles, which can run
// code: they are refused. So are big-endian and structured arrays; bfloat16 has no name in numpy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "devices/base/files.h"
#include "devices/core/tensor.h"
#include "ops/formats/array_file.h"
#include "ops/formats/array_header.h"

namespace leat {

inline constexpr uint64_t kNpyBytes = uint64_t{16} << 30;  // the default limit of a file, inflated
inline constexpr uint64_t kNpyHeaderBytes = 65'535;        // of the literal

// How such a file is read, whole or in pieces: see ArrayFile.
const ArrayFormat& npy_format();

// The header of a file. Its size is checked, too; of a compressed one, that it can be.
Result<ArrayHeader> read_npy_header(Files& files, const std::string& path);

// `subject` begins the messages: the file's name. Arrays in Fortran's order are brought to C's. The
// elements must end where the bytes end.
Result<Tensor> parse_npy(std::span<const std::byte> bytes, std::string_view subject);
// The file, plain or gzip.
Result<Tensor> read_npy(Files& files, const std::string& path, uint64_t limit = kNpyBytes);

// Version 1, as numpy itself writes it. unimplemented for bfloat16.
Result<Bytes> format_npy(const Tensor& tensor);
// Atomically: see write_file_atomically.
Status write_npy(Files& files, const std::string& path, const Tensor& tensor);

}  // namespace leat

// NPY, numpy's file of one array, versions 1, 2 and 3.
//
//   byte 0   "\x93NUMPY"           byte 6   major, minor     byte 8   header size, little-endian:
//   then     the header, a Python literal such as                     u16 (version 1), u32 (2, 3)
//            {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and spaces
//   then     the elements
//
// The parser of the literal accepts exactly that form. Object arrays are pickles, which can run
// code: the reader refuses them. It also refuses big-endian and structured arrays. numpy has no
// name for bfloat16.
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

// The format for ArrayFile, which reads a file whole or in pieces.
const ArrayFormat& npy_format();

// Reads a file, plain or gzip. Arrays in Fortran's order are converted to C's. The elements must
// end where the file ends.
Result<Tensor> read_npy(Files& files, const std::string& path, uint64_t limit = kNpyBytes);

// The beginning of such a file, of version 1 as numpy itself writes it; the elements follow.
// unimplemented for bfloat16.
Result<std::string> npy_header(DType dtype, const Shape& shape);
// Header and elements. unimplemented for bfloat16.
Result<Bytes> format_npy(const Tensor& tensor);
// Writes the file atomically: see write_file_atomically.
Status write_npy(Files& files, const std::string& path, const Tensor& tensor);

}  // namespace leat

// IDX, the format of MNIST and its relatives.
//
//   byte 0  0, 0       byte 4           byte 4 + 4 rank
//   byte 2  type       rank sizes,      elements, row-major,
//   byte 3  rank       u32 big-endian   big-endian
//
// Types: 0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32, 0x0e f64.
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

inline constexpr uint64_t kIdxBytes = uint64_t{8} << 30;  // the default limit of a file, inflated

// The format for ArrayFile, which reads a file whole or in pieces.
const ArrayFormat& idx_format();

// Reads a file, plain or gzip. The elements must end where the file ends. Errors are those of
// ArrayFile: invalid_argument for a file of another format, resource_exhausted above `limit` bytes.
Result<Tensor> read_idx(Files& files, const std::string& path, uint64_t limit = kIdxBytes);

}  // namespace leat

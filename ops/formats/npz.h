// NPZ, numpy's file of several arrays: a zip archive of uncompressed NPY files (npy.h).
//
//   for each array   a local header, "NAME.npy", the NPY file
//   then             the central directory: where each local header begins, its size and CRC-32
//   then             its end, in the form of 64 bits and in that of 32
//
// All sizes are in the 64-bit fields that zip has for large files, and every date is the first one
// of zip (1980-01-01): equal arrays give equal bytes.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/formats/array_entry.h"
#include "ops/formats/array_header.h"

namespace leat {

// One array of an NPZ file.
struct NpzMember {
  std::string name;    // without ".npy"
  ArrayHeader header;  // header.offset counts from the beginning of the NPZ file
};
inline constexpr size_t kNpzArrays = size_t{1} << 16;  // that a file may have

// Reads the directory of an NPZ file and the headers of its arrays, in the order of the directory;
// members of other names are left out. invalid_argument for a file that is no zip archive or is
// damaged, for an array that does not fill its member, and for a name that is there twice;
// unimplemented for a compressed or encrypted member: numpy.savez() compresses nothing. At most
// 64 MiB of directory and kNpzArrays arrays are read.
Result<std::vector<NpzMember>> read_npz_directory(const ReadableFile& file);
// Reads the elements of a member, in C's order. resource_exhausted if there is no memory.
Result<Tensor> read_npz_member(const ReadableFile& file, const NpzMember& member);

// Passes the bytes of the file to `take`, in order, until it fails. unimplemented for an element
// type that numpy lacks, invalid_argument for a name of more than 65,000 bytes; `take` gets nothing
// in these cases.
Status format_npz(const std::map<std::string, Tensor>& arrays, const TakeBytes& take);
// The same for arrays that are not in memory. It asks twice for the elements of each: first for
// their checksum, which is in front of them. internal if the two differ in their number.
Status format_npz(std::span<const ArrayEntry> arrays, const ArrayElements& elements,
                  const TakeBytes& take);

}  // namespace leat

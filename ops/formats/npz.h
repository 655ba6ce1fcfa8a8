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

#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

// Passes the bytes of the file to `take`, in order, until it fails. unimplemented for an element
// type that numpy lacks, invalid_argument for a name of more than 65,000 bytes; `take` gets nothing
// in these cases.
Status format_npz(const std::map<std::string, Tensor>& arrays,
                  const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace leat

// NPZ, numpy's file of several arrays: a zip archive of NPY files (npy.h), none of them compressed.
//
//   for each array   a local header, "NAME.npy", the NPY file
//   then             the central directory: where each local header begins, its size and CRC-32
//   then             its end, in the form of 64 bits and in that of 32
//
// All sizes are in the 64-bit fields that zip has for large files, and every date is zip's first:
// equal arrays are equal bytes.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

// Gives the file's bytes to `take`, in order, until it fails. unimplemented for an element type
// that numpy has not, invalid_argument for a name of more than 65,000 bytes; nothing is given then.
Status format_npz(const std::map<std::string, Tensor>& arrays,
                  const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace leat

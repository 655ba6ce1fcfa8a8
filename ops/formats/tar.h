// Tar archives: where the files in them are. Reads ustar, and what GNU tar and pax add for long
// names and large sizes.
//
//   one header of 512 bytes for each file       then its bytes, filled up to a multiple of 512
//     0    name (100)           156  kind: '0' a file, 'L' a long name, 'x' records of pax ...
//     124  size (12, octal, or 80 and a big-endian number)     345  prefix of the name (155)
//     148  checksum (8, octal): the sum of the header's bytes, with blanks in its own place
//   at the end a header of zeros
//
// Nothing is unpacked, so that links, devices and names such as "../x" lead nowhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A regular file in an archive.
struct TarMember {
  std::string name;
  uint64_t offset = 0, size = 0;  // of its bytes in the archive
};

// A name may have so many bytes.
inline constexpr uint64_t kTarName = 4096;

// Passes the members to `take` in the order of the archive, until it fails; links, folders and
// devices are left out. It reads headers only. The archive ends with a header of zeros or with the
// file. invalid_argument, with the path and the header's offset, for damage: a wrong checksum, a
// size that is no number or goes beyond the file, a name that is too long. unimplemented for a
// compressed archive and for sparse files.
Status read_tar(const ReadableFile& archive, const std::function<Status(TarMember)>& take);

}  // namespace leat

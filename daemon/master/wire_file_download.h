// A file of the master's machine that a peer reads. Includes Cap'n Proto: for .cc files.
#pragma once

#include <kj/async.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "transport/rpc/common.capnp.h"

namespace leat {

// Reads the bytes [offset, offset + size) of an open file, on a thread that may wait for the disk.
using ReadOnDisk = std::function<kj::Promise<Result<Bytes>>(
    std::shared_ptr<const ReadableFile> file, uint64_t offset, uint64_t size)>;

// Offers the file for the peer to read, piece by piece. File and permit are released when the peer
// drops the capability. Threads: the loop's.
wire::Download::Client offer_file(std::shared_ptr<const ReadableFile> file, ReadOnDisk read,
                                  std::shared_ptr<void> permit);

}  // namespace leat

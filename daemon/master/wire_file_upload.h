// An upload that goes to disk as it comes. Includes Cap'n Proto: for .cc files.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "daemon/base/task_thread.h"
#include "daemon/jobs/blobs.h"
#include "devices/base/status.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/loop.h"

namespace leat {

struct FileUploadParts {
  RpcLoop& loop;     // both outlive the upload
  TaskThread& disk;  // where all is done that waits for the disk
  BlobInfo info;
  std::chrono::milliseconds silence;  // from one byte to the next
  // Makes the file, on that thread, when its first byte has come.
  std::function<Result<std::unique_ptr<ArrivingBlob>>()> begin;
  std::shared_ptr<void> permit;  // given back when the upload is over, however it ends
};

// Its receiving end. It holds one write at a time in memory: the next is taken when that is on its
// way to the disk. The file is removed when the peer drops the capability, when no byte has come
// for `silence`, and when what comes is not what was told. Threads: the loop's.
wire::Upload::Client receive_file(FileUploadParts parts);

}  // namespace leat

// An upload that is written to disk as it arrives. Includes Cap'n Proto: for .cc files.
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
  TaskThread& disk;  // does all work that waits for the disk
  BlobInfo info;
  std::chrono::milliseconds silence;  // the longest time between two bytes
  // Makes the file, on the thread `disk`, when the first byte has arrived.
  std::function<Result<std::unique_ptr<ArrivingBlob>>()> begin;
  std::shared_ptr<void> permit;  // released when the upload ends in any way
  // Called on the loop before the file is finished, which fails with its error; may be empty.
  std::function<Status()> valid = {};
};

// The receiving end of an upload. It holds one write in memory at a time, and takes the next one
// when that is handed to the disk thread. It removes the file if the peer drops the capability, if
// no byte arrives for `silence`, or if the content is not the announced one. Threads: the loop's.
wire::Upload::Client receive_file(FileUploadParts parts);

}  // namespace leat

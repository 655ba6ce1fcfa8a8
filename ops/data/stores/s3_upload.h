// Writing to S3 and stores with its protocol. Private to ops/data.
#pragma once

#include <memory>
#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/data/stores/store_requests.h"

namespace leat {

// An object that is written from its beginning to its end. Readers see it, whole, once close() has
// returned ok, and then the store keeps it; an object of that key is replaced at that moment. A
// small object is one request; a larger one goes in parts (a multipart upload), of which one is in
// memory. sync() is unimplemented: a store keeps no part of an object.
// A destructor without close() gives the upload up. If the process dies, the store has parts that
// no reader sees, until its own rule for incomplete uploads removes them.
Result<std::unique_ptr<WritableFile>> open_s3_upload(std::shared_ptr<StoreParts> parts,
                                                     const std::string& path);

// Removes an object. Ok if there is none, as in S3. Both need a path of S3.
Status remove_s3(StoreParts& parts, const std::string& path);

}  // namespace leat

// Requests to stores, repeated until they succeed, fail for good, or take too long. Private to
// ops/data.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "devices/base/status.h"
#include "ops/data/stores/block_cache.h"
#include "ops/data/stores/store_files.h"
#include "ops/data/stores/url_client.h"

namespace leat {

// The parts that all files of a file system share. Threads: any.
struct StoreParts {
  explicit StoreParts(StoreOptions given);
  StoreOptions options;
  std::unique_ptr<UrlClient> client;
  BlockCache cache;
};

// The time for one request, and for all of them that serve one purpose.
struct StoreTimes {
  std::chrono::milliseconds request, patience;
  bool heeds_stop = true;  // false: StoreOptions::stopped counts for nothing
};

// Makes a request, and again after a failure that may pass, until the patience ends. `use` judges
// an answer: `unavailable` asks for another one. Errors name `path`. cancelled if
// StoreOptions::stopped became true. Blocks.
Status ask_store(StoreParts& parts, const std::string& path, const StoreTimes& times,
                 const std::function<UrlRequest()>& request, uint64_t most_bytes,
                 const std::function<Status(UrlAnswer)>& use);

bool is_missing(long status);

// The error of an answer to a reading request whose status is none that was asked for.
Status error_of_status(long status, bool is_s3);
// The same for a request that writes to S3. The store's own words are in the answer.
Status error_of_write(const UrlAnswer& answer);

// Refuses the body of a good answer that is longer than what was asked for.
Status check_whole(const UrlAnswer& answer, uint64_t most_bytes);

// "" if the answer has no such header. `name`: in small letters.
std::string header_of(const UrlAnswer& answer, const std::string& name);

}  // namespace leat

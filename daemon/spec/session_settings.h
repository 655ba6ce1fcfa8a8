// The settings of a session. Sessions in this process and sessions on a cluster share them.
//
// Threads: values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace leat {

struct SessionSettings {
  std::string name = "session";  // for people
  std::string strategy = "single";
  int shards = 1;
  uint64_t seed = 0;
  // Plans that are kept, at most 1,024: a new shape or signature pushes out the one that was unused
  // for longest.
  size_t plans = 64;
  std::chrono::milliseconds timeout = std::chrono::minutes(1);  // of a step without a deadline
  // Not 0: the session is a lasting one (docs/session.md), which only a cluster has, and saves its
  // variables after so many steps.
  uint32_t save_every = 0;
  // A lasting session ends when it had no client for so long.
  std::chrono::milliseconds keep = std::chrono::hours(1);
  bool lasts() const { return save_every > 0; }
};

// The request of a client for a session on a cluster.
struct SessionOpening {
  std::string request_id;    // chosen by the client; a repeated one is the same request
  uint32_t num_workers = 1;  // to lease
  SessionSettings settings = {};
  uint32_t gpus = 0;  // 0 or 1: that each worker opens
  // The owner, which the master knows by the client's token; not in the message.
  std::string user = {};
  std::string by = {};  // the client, for the audit log; not in the message either
};

}  // namespace leat

// Decides how fast one address may open new connections. No I/O, and no clock of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace leat {

// A bucket of tokens for each address. It begins with `burst` tokens, gains `per_second`, and pays
// one for each connection. At most `addresses` addresses are remembered, and all others share one
// bucket, so that an attacker with many addresses costs no memory.
// Threads: one at a time.
class ConnectionRate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A rate of 0 admits every connection.
  ConnectionRate(double per_second, double burst, size_t addresses = 4096)
      : per_second_(per_second), burst_(burst), max_addresses_(addresses) {}

  // Whether a connection from `address` is taken now. If so, its token is gone.
  bool admit(const std::string& address, Time now) {
    if (per_second_ <= 0) return true;
    Bucket& bucket = find(address, now);
    bucket.tokens = refilled(bucket, now);
    bucket.since = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }
  // The number of buckets.
  size_t addresses() const { return buckets_.size(); }

 private:
  // The tokens at the time `since`.
  struct Bucket {
    double tokens;
    Time since;
  };

  // The tokens of the bucket now.
  double refilled(const Bucket& bucket, Time now) const {
    const double seconds = std::chrono::duration<double>(now - bucket.since).count();
    return std::min(burst_, bucket.tokens + seconds * per_second_);
  }
  // The bucket of an address. Makes room by forgetting full buckets, which are like new ones.
  Bucket& find(const std::string& address, Time now) {
    const auto found = buckets_.find(address);
    if (found != buckets_.end()) return found->second;
    if (buckets_.size() >= max_addresses_) {
      std::erase_if(buckets_,
                    [&](const auto& entry) { return refilled(entry.second, now) >= burst_; });
    }
    const std::string& key = buckets_.size() >= max_addresses_ ? shared_ : address;
    return buckets_.try_emplace(key, Bucket{burst_, now}).first->second;
  }

  const double per_second_;
  const double burst_;
  const size_t max_addresses_;
  // The key of the shared bucket: "", which is no address.
  const std::string shared_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace leat

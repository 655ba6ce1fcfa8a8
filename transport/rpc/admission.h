// How fast new connections of one address are taken. No I/O, no clock of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace leat {

// A bucket of tokens for each address: `burst` at first, `per_second` more, one for each
// connection. Remembers at most `addresses` of them; more than that share one bucket.
// Threads: one at a time.
class ConnectionRate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `per_second` of 0 admits everything.
  ConnectionRate(double per_second, double burst, size_t addresses = 4096)
      : per_second_(per_second), burst_(burst), max_addresses_(addresses) {}

  bool admit(const std::string& address, Time now) {
    if (per_second_ <= 0) return true;
    Bucket& bucket = find(address, now);
    bucket.tokens = refilled(bucket, now);
    bucket.since = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }
  size_t addresses() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens;
    Time since;
  };

  double refilled(const Bucket& bucket, Time now) const {
    const double seconds = std::chrono::duration<double>(now - bucket.since).count();
    return std::min(burst_, bucket.tokens + seconds * per_second_);
  }
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
  const std::string shared_;  // "": no address is called so
  std::map<std::string, Bucket> buckets_;
};

}  // namespace leat

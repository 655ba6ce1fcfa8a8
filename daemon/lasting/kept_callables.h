// The callables of a lasting session. They keep their numbers when the session is made anew on
// other hosts, where the inner session gives them others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/lasting/session_log.h"
#include "devices/base/status.h"

namespace leat {

// Threads: one at a time.
class KeptCallables {
 public:
  // `session` begins the messages: "session 's'".
  explicit KeptCallables(std::string session) : session_(std::move(session)) {}

  const std::vector<LoggedCallable>& all() const { return all_; }  // ids 1, 2, 3, ...
  void set(std::vector<LoggedCallable> all) { all_ = std::move(all); }
  CallableId next() const { return all_.size() + 1; }
  // REQUIRES: the callable has the id next().
  void add(LoggedCallable callable) { all_.push_back(std::move(callable)); }

  // The numbers of the inner session.
  void forget_inner() { inner_.clear(); }
  void set_inner(CallableId id, CallableId inner) { inner_[id] = inner; }
  // failed_precondition if it was released, invalid_argument for a number that was never given.
  Result<CallableId> inner(CallableId id) const;

  // Also of one that was released. invalid_argument as above.
  Result<Signature> signature(CallableId id) const;
  // The signature of the step's callable, or the step's own.
  Result<Signature> signature_of(const LoggedStep& step) const;
  // REQUIRES: inner(id) is ok.
  void release(CallableId id) {
    all_[id - 1].released = true;
    inner_.erase(id);
  }

 private:
  const std::string session_;
  std::vector<LoggedCallable> all_;
  std::map<CallableId, CallableId> inner_;
};

}  // namespace leat

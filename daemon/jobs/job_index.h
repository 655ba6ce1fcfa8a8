// The jobs of a table, by number, by id and by the request that submitted them, with its user.
//
// Threads: one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "daemon/jobs/cluster_job.h"
#include "devices/base/status.h"

namespace leat {

class JobIndex {
 public:
  using Jobs = std::map<uint64_t, std::unique_ptr<ClusterJob>>;

  ClusterJob& add(std::unique_ptr<ClusterJob> job);
  // Removes the job. Its id is free again, unless it was forgotten: its folder may still exist
  // then.
  void erase(const ClusterJob& job, bool forgotten);

  const Jobs& all() const { return jobs_; }
  ClusterJob& at(uint64_t number) const { return *jobs_.at(number); }
  // Null if there is none.
  ClusterJob* find(uint64_t number) const;
  ClusterJob* find(std::string_view id) const;
  ClusterJob* of_request(std::string_view user, std::string_view request_id) const;
  // A visible job by its id or a prefix of no other. failed_precondition if there is none,
  // invalid_argument, with their ids, if there are several.
  Result<ClusterJob*> look_up(std::string_view prefix) const;
  bool is_taken(const std::string& id) const {
    return ids_.contains(id) || forgotten_.contains(id);
  }

 private:
  Jobs jobs_;
  std::map<std::string, uint64_t, std::less<>> ids_;
  std::map<std::string, uint64_t, std::less<>> requests_;  // by request_key()
  std::set<std::string> forgotten_;                        // ids
};

}  // namespace leat

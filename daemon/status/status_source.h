// What the status endpoint shows: a master answers from a snapshot that it keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/events.h"
#include "daemon/jobs/membership.h"
#include "daemon/status/metrics_text.h"
#include "devices/base/status.h"

namespace leat {

// The master itself. Times are milliseconds of Unix time.
struct ClusterView {
  std::string name;          // of the cluster; may be empty
  std::string id;            // of its journal, 32 hexadecimal digits
  std::string version;       // of the master's program
  uint64_t generation = 0;   // starts of a master on this journal
  uint64_t epoch = 0;        // changes of the membership
  int64_t started_ms = 0;    // this master
  int64_t now_ms = 0;        // when this was asked
  std::string rpc_address;   // "127.0.0.1:17461"
  std::string http_address;  // of the status endpoint itself
  Status journal;            // why the last write of the journal failed
};

struct NodeView {
  WorkerView worker;
  std::string job;  // the id of the job that leases it; "" if none does
};

// A line of what the runners of a job said.
struct LogLine {
  int64_t at_ms = 0;
  std::string worker;
  std::string text;  // without its newline; any bytes
};

// The lines of a job count up from 0; old ones may have been dropped.
struct LogPage {
  uint64_t first = 0;  // the number of lines.front(), or of the line to come
  std::vector<LogLine> lines;
  uint64_t end = 0;       // one past the newest line that there is
  bool complete = false;  // the job has ended: no line comes after `end`
};

// Threads: any, several at once. Every call answers at once, from memory: it waits for no journal,
// no disk and no peer.
class StatusSource {
 public:
  virtual ~StatusSource() = default;

  virtual ClusterView cluster() const = 0;
  // In the order of their submission.
  virtual std::vector<JobView> jobs() const = 0;
  // By its id or a prefix of no other. failed_precondition if there is none, invalid_argument, with
  // their ids, if there are several.
  virtual Result<JobView> job(std::string_view id) const = 0;
  // By name; those that were lost too.
  virtual std::vector<NodeView> nodes() const = 0;
  // At most `most` lines from the first that is kept and not before `from`; none yet is ok. Errors
  // as of job().
  virtual Result<LogPage> log(std::string_view id, uint64_t from, size_t most) const = 0;

  // Why no job could be taken now ("the journal: ..."); ok if one could.
  virtual Status ready() const = 0;
  // More for /metrics than follows from the views.
  virtual std::vector<Metric> metrics() const { return {}; }
};

}  // namespace leat

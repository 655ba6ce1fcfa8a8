// The views of a cluster that clients and the status endpoint show: values, copied out of the
// master's tables. JobView is in daemon/jobs/events.h.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/jobs/events.h"
#include "daemon/jobs/membership.h"
#include "devices/base/status.h"

namespace leat {

// The master itself. Times are milliseconds of Unix time.
struct ClusterView {
  std::string name;          // of the cluster; may be empty
  std::string id;            // of its journal, 32 hexadecimal digits
  std::string version;       // of the master's program
  uint64_t generation = 0;   // starts of a master on this journal
  uint64_t membership = 0;   // changes of the set of workers
  int64_t started_ms = 0;    // this master
  int64_t now_ms = 0;        // when this was asked
  std::string rpc_address;   // "127.0.0.1:17461"
  std::string http_address;  // of the status endpoint itself
  Status journal;            // why the last write of the journal failed
};

struct NodeView {
  WorkerView worker;
  std::string job;                     // the id of the job that leases it; "" if none does
  std::vector<std::string> jobs = {};  // all of them, if several share it; `job` is the first
};

// A line that a runner of a job wrote.
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

}  // namespace leat

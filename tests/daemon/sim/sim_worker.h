// A worker's machine as the master and its peers see it: the worker's process and its runners'.
// daemon/worker and daemon/runner use threads, sockets and child processes; here events model the
// same behaviour, which daemon/wire/cluster.capnp describes.
//
// Threads: one.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/leases.h"
#include "devices/base/status.h"
#include "tests/daemon/sim/network.h"
#include "tests/daemon/sim/tiny_job.h"
#include "transport/link_fault.h"

namespace leat::sim {

class SimMaster;
class SimWorker;
class Cluster;

// One process of a job. It steps with its peers from one fence to the next.
class SimRunner {
 public:
  struct Setup {  // the setup of a run
    uint64_t run = 0;
    uint64_t assembly = 0;
    uint64_t step = 0;
    std::vector<SimRunner*> peers;       // by task
    std::vector<uint64_t> incarnations;  // of the peers
  };
  using Reply = std::function<void(const Status&)>;

  SimRunner(Cluster& cluster, SimWorker& worker, std::string job, uint64_t assembly, uint64_t task);

  // The calls of the master. Replies are called on the runner's side.
  void connect(Setup setup, Reply reply);
  void extend(uint64_t limit);
  // As Runner.hold of daemon/wire/cluster.capnp.
  uint64_t hold();
  void fence(uint64_t limit);
  void write(const Weights& weights, uint64_t step);
  void release();
  void advance(uint64_t assembly, uint64_t task);
  // Faults: the next value that it sends to a peer arrives damaged; a connection to a peer is lost.
  void corrupt() { corrupts_ = true; }
  void lose_link();

  Process process;
  SimWorker& worker;
  const std::string job;
  const TinyJob& tiny;
  uint64_t assembly;
  uint64_t task;
  const uint64_t incarnation;
  EndPtr master;  // its connection to the master
  // Whether the master has seated or refused it. Without a seat it looks for a master for a while.
  bool was_seated = false, refused = false;
  Ms alone_since = -1, refused_since = -1;

  // The job's variables, and the number of steps that they have made.
  Weights weights;
  uint64_t step = 0;
  bool whole = false;  // false before the first write, and between the writes of a step
  uint64_t turns = 0;  // for the pulse
  bool steps() const { return step < limit_ && connected(); }
  bool waits() const;  // whether it waits for values of its peers

 private:
  struct Arrival {
    EndPtr end;
    uint64_t assembly, from, incarnation;
  };
  bool connected() const { return setup_.run != 0 && links_.size() + 1 == setup_.peers.size(); }
  void dial(uint64_t peer, uint64_t run);
  void arrived(Arrival arrival);
  void take(const Arrival& arrival);
  void linked(uint64_t peer, EndPtr end);
  struct Part {
    uint64_t from, step;
    Weights weights;
    bool damaged = false;  // its checksum does not match its bytes
  };
  void received(uint64_t assembly, const Part& part);
  void begin_step();
  void try_apply();
  void failed(const std::string& how);
  void link_failed(uint64_t peer, LinkFault fault, const std::string& how);

  Cluster& cluster_;
  Setup setup_;
  uint64_t limit_ = 0;
  Reply connecting_;
  std::map<uint64_t, EndPtr> links_;  // by task
  std::vector<Arrival> arrivals_;     // connections that came before connect()
  // The parts that were received or computed for the open steps, by step and then by task.
  std::map<uint64_t, std::map<uint64_t, Weights>> parts_;
  uint64_t aborted_ = 0;  // the run whose end a peer has announced
  bool applying_ = false;
  bool corrupts_ = false;
};

// The worker of one machine, with its runners.
class SimWorker {
 public:
  SimWorker(Cluster& cluster, int machine);

  void boot();
  void kill();
  // Its live runner, or null.
  SimRunner* runner() const;
  bool is_member() const { return member_; }
  void kill_runner(const std::string& how);

  // The calls of the master.
  void start(const std::string& job, uint64_t assembly, uint64_t task);
  void stop(const std::string& job, uint64_t assembly, Ms grace, Task gone);
  Status advance(const std::string& job, uint64_t assembly);

  Process process;
  const int machine;
  const std::string name;
  uint64_t incarnation = 0;  // 0: the next membership is one of a new process
  std::vector<std::unique_ptr<SimRunner>> runners;  // the live ones

  void registered(const Status& status);
  // Reports an ending to the master. Without a master, keeps the news for the one that comes back.
  void tell_master(Task task);
  const EndPtr& control() const { return control_; }
  void seat(SimRunner& runner);

 private:
  void join();
  void leave(bool counted_out);
  void unseated(SimRunner& runner);
  void beat();
  void keep_alive();
  void lost(const std::string& why, bool counted_out);
  void watch_runners();
  void end_runner(SimRunner& runner, const std::string& how, bool tell);

  Cluster& cluster_;
  EndPtr control_, heart_;
  EndPtr hearts_;                        // the other end of heart_
  std::map<uint64_t, Ms> silent_since_;  // runners without a pulse, by incarnation
  std::vector<std::unique_ptr<SimRunner>> graves_;
  bool member_ = false;
  uint64_t memberships_ = 0;
  Ms alone_since_ = 0;  // valid unless it is a member
  std::vector<Task> news_;
  uint64_t sequence_ = 0;
  Ms pause_ = 100;
};

}  // namespace leat::sim

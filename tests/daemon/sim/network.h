// Connections between processes, as TCP offers them: what is sent on one arrives in order or not at
// all, connections overtake each other, and what a cut holds up arrives late. An end sees that its
// peer has died or hung up. It does not see that the peer is stopped, and it sees a cut only
// because the peer acknowledges nothing.
//
// Threads: one.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/daemon/sim/world.h"

namespace leat::sim {

class Network;

// One end of a connection. Its owner is a process, and the end serves one life of that process.
class End : public std::enable_shared_from_this<End> {
 public:
  // Runs `task` at the other end, unless the connection has ended by then.
  void send(Task task);
  // Closes the connection. The other end hears of it after everything that was sent.
  void close();
  bool is_open() const { return open_; }
  // True if the connection ended because the peer did not acknowledge what this end sent.
  bool timed_out() const { return timed_out_; }
  Task on_closed;  // not called for this end's own close()

 private:
  friend class Network;
  void arrive(Task task);
  void time_out_unless(const std::function<bool()>& well);
  void lost();

  Network* network_ = nullptr;
  const Process* owner_ = nullptr;
  uint64_t life_ = 0;
  int machine_ = 0;
  std::weak_ptr<End> other_;
  bool open_ = true, timed_out_ = false;
  Ms last_ = 0;            // the arrival time of the last task that was sent here
  std::deque<Task> held_;  // tasks that a cut holds up
};
using EndPtr = std::shared_ptr<End>;

// All connections, and the cuts between machines.
class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  World& world() { return world_; }
  // Makes a connection between two live processes. Null if the path is cut in either direction.
  std::pair<EndPtr, EndPtr> connect(const Process& from, int machine, const Process& to, int at);
  bool is_cut(int from, int to) const { return cuts_.contains({from, to}); }
  void cut(int from, int to) { cuts_.insert({from, to}); }
  void heal(int from, int to);
  // Ends the connections of a process that has died.
  void died(const Process& process);

  Ms slowest = 5;  // the longest time that a message takes without a cut

 private:
  friend class End;
  World& world_;
  std::set<std::pair<int, int>> cuts_;
  std::vector<std::weak_ptr<End>> ends_;
};

}  // namespace leat::sim

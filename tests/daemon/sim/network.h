// Connections between processes, as TCP gives them: what is sent on one comes in order or not at
// all, connections overtake each other, and what a cut holds up comes late. Who dies or hangs up is
// seen by the other end; who is stopped is not, and who is cut off is only by what is not
// acknowledged.
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

// One end of a connection. It is its owner's as long as that lives.
class End : public std::enable_shared_from_this<End> {
 public:
  // Has `task` happen at the other end, unless the connection is gone by then.
  void send(Task task);
  // The other end hears of it after all that was sent.
  void close();
  bool is_open() const { return open_; }
  // What this end sent was not acknowledged: that was its end.
  bool timed_out() const { return timed_out_; }
  Task on_closed;  // not by close() of this end

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
  Ms last_ = 0;            // when the last thing that was sent here arrives
  std::deque<Task> held_;  // by a cut on the way here
};
using EndPtr = std::shared_ptr<End>;

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  World& world() { return world_; }
  // A new connection of two that live; null if the way is cut either way.
  std::pair<EndPtr, EndPtr> connect(const Process& from, int machine, const Process& to, int at);
  bool is_cut(int from, int to) const { return cuts_.contains({from, to}); }
  void cut(int from, int to) { cuts_.insert({from, to}); }
  void heal(int from, int to);
  // The process has died: its connections end.
  void died(const Process& process);

  Ms slowest = 5;  // that a message takes, unless it is held up

 private:
  friend class End;
  World& world_;
  std::set<std::pair<int, int>> cuts_;
  std::vector<std::weak_ptr<End>> ends_;
};

}  // namespace leat::sim

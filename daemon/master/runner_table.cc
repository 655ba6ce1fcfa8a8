#include <algorithm>
#include <limits>

#include "daemon/master/wire_runner_table.h"
#include "daemon/remote/wire_remote_host.h"
#include "devices/base/text.h"
#include "transport/rpc/hello.h"

namespace leat {

// Fills the token with nonces; its 32 bytes are a whole number of them.
RunnerToken random_token() {
  RunnerToken token;
  for (auto at = token.begin(); at != token.end();) {
    const Nonce part = random_nonce();
    at = std::copy(part.begin(), part.end(), at);
  }
  return token;
}

bool equal(const RunnerToken& a, const RunnerToken& b) {
  // All bytes are compared. A loop that stops at the first difference would tell the caller, by its
  // time, how many bytes of a guess are right.
  uint8_t differences = 0;
  for (size_t i = 0; i < a.size(); ++i) differences |= static_cast<uint8_t>(a[i] ^ b[i]);
  return differences == 0;
}

std::string text_of(const RunnerPlace& place) {
  return cat("task ", place.task, " of job '", place.job, "', assembly ", place.assembly);
}

void RunnerTable::note(const std::string& worker, const std::string& job) {
  constexpr size_t kMost = 256;
  auto& jobs = jobs_[worker];
  std::erase(jobs, job);
  jobs.push_back(job);
  if (jobs.size() > kMost) jobs.pop_front();
}

bool RunnerTable::had(const std::string& worker, const std::string& job) const {
  const auto found = jobs_.find(worker);
  return found != jobs_.end() &&
         std::find(found->second.begin(), found->second.end(), job) != found->second.end();
}

RunnerTable::Slot* RunnerTable::find(const RunnerPlace& place) {
  const auto found = slots_.find(place);
  return found != slots_.end() ? &found->second : nullptr;
}

// A runner that is moved gets its place in the new assembly before it has stopped to report about
// the old one. So the slot of a report is found by `from`, and not by the assembly of its place.
RunnerTable::Slots::iterator RunnerTable::locate(const WorkerRef& worker, const std::string& job,
                                                 uint64_t assembly) {
  // The places are in the order of job, assembly and task, so those of a job lie next to each
  // other.
  for (auto at = slots_.lower_bound({job, 0, 0}); at != slots_.end(); ++at) {
    if (at->first.job != job) break;
    if (at->second.worker == worker && at->second.from <= assembly) return at;
  }
  return slots_.end();
}

RunnerTable::Slot* RunnerTable::find(const WorkerRef& worker, const std::string& job,
                                     uint64_t assembly) {
  const auto found = locate(worker, job, assembly);
  return found != slots_.end() ? &found->second : nullptr;
}

const RunnerPlace* RunnerTable::place_of(uint64_t connection) const {
  const auto seat = seats_.find(connection);
  return seat != seats_.end() ? &seat->second : nullptr;
}

RunnerTable::Slot* RunnerTable::of_connection(uint64_t connection) {
  const RunnerPlace* const place = place_of(connection);
  // Another runner may have the place by now; the connection of the slot tells one from the other.
  Slot* const slot = place != nullptr ? find(*place) : nullptr;
  return slot != nullptr && slot->connection == connection ? slot : nullptr;
}

uint64_t RunnerTable::newest_assembly(const std::string& job) const {
  constexpr auto kBehind = std::numeric_limits<uint32_t>::max();
  auto at = slots_.upper_bound({job, std::numeric_limits<uint64_t>::max(), kBehind});
  if (at == slots_.begin()) return 0;
  --at;
  return at->first.job == job ? at->first.assembly : 0;
}

Status RunnerTable::is_in(uint64_t connection, uint64_t assembly) {
  if (of_connection(connection) == nullptr)
    return failed_precondition("expected a runner whose assembly goes on");
  const RunnerPlace* const place = place_of(connection);
  // A runner that is to end may live on beside the runners of the next assembly.
  const uint64_t newest = newest_assembly(place->job);
  if (place->assembly == assembly && newest == assembly) return {};
  return failed_precondition(cat("expected a step of assembly ", newest,
                                 ", the newest of the job, received one of assembly ", assembly));
}

Result<std::shared_ptr<RemoteHost>> RunnerTable::runner(const RunnerPlace& place) {
  const Slot* const slot = find(place);
  if (slot != nullptr && slot->runner != nullptr) return slot->runner;
  return unavailable(cat("the runner of ", text_of(place), " is gone"));
}

void RunnerTable::seat(const RunnerPlace& place, uint64_t connection) {
  slots_.at(place).connection = connection;
  seats_[connection] = place;
}

RunnerTable::Slot& RunnerTable::move(const WorkerRef& worker, const RunnerPlace& to) {
  // The node itself changes its key, so that the slot, its token and its capability stay as they
  // are.
  auto moved = slots_.extract(locate(worker, to.job, to.assembly));
  moved.key() = to;
  Slot& slot = slots_.insert(std::move(moved)).position->second;
  seats_[slot.connection] = to;
  return slot;
}

void RunnerTable::fail(const std::string& job, uint64_t assembly, const Status& cause) {
  // The slots stay: their runners live until their workers report that they have ended.
  for (auto at = slots_.lower_bound({job, assembly, 0}); at != slots_.end(); ++at) {
    if (at->first.job != job || at->first.assembly != assembly) return;
    if (at->second.runner != nullptr) at->second.runner->lost(cause);
  }
}

void RunnerTable::remove(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                         const Status& cause) {
  const auto found = locate(worker, job, assembly);
  if (found == slots_.end()) return;
  if (found->second.runner != nullptr) found->second.runner->lost(cause);
  slots_.erase(found);
}

std::vector<uint64_t> RunnerTable::remove(const WorkerRef& worker, const Status& cause) {
  // A slot without a capability is of a runner that is only expected, so there is nothing to close.
  std::vector<uint64_t> connections;
  std::erase_if(slots_, [&](const auto& each) {
    const Slot& slot = each.second;
    if (slot.worker != worker) return false;
    if (slot.runner != nullptr) slot.runner->lost(cause);
    if (slot.wire != nullptr) connections.push_back(slot.connection);
    return true;
  });
  return connections;
}

// The rpc thread calls it when the master stops. Threads that wait for a runner get the cause.
void RunnerTable::clear(const Status& cause) {
  for (auto& [place, slot] : slots_) {
    if (slot.runner != nullptr) slot.runner->lost(cause);
  }
  slots_.clear();
  seats_.clear();
}

}  // namespace leat

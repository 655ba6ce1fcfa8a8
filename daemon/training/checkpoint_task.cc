#include "daemon/training/checkpoint_task.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <future>

#include "daemon/base/background.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/set_aside.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// 32 hexadecimal digits. Nobody can guess the name of a temporary folder with them in it, so a host
// that finds that folder sees the master's disk.
Result<std::string> random_token() {
  std::array<uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()))
    return to_hex(bytes);
  return internal_error("random numbers: expected 16 bytes of the system");
}

// Calls one(0) to one(count - 1) at once. Returns the first failure by index.
template <typename F>
Status all_at_once(size_t count, const F& one) {
  // The caller's thread does the first call itself.
  std::vector<std::future<Status>> others;
  for (size_t i = 1; i < count; ++i) others.push_back(std::async(std::launch::async, one, i));
  Status first = count > 0 ? one(size_t{0}) : Status();
  for (auto& other : others) {
    const Status status = other.get();
    if (first.ok()) first = status;
  }
  return first;
}

// The host does not see the master's disk, or cannot write there: the master then reads its part.
// Any other error, such as a full disk, would come again on the way through the master.
bool left_to_master(Code code) {
  return code == Code::failed_precondition || code == Code::unimplemented ||
         code == Code::invalid_argument;
}

Status write_share(CheckpointWriter& writer, size_t index, HostHandle& worker, int64_t step,
                   bool hosts_write, const std::stop_token& stop) {
  if (hosts_write) {
    auto part = worker.write_snapshot(step, writer.place(index), stop);
    if (part.ok()) return writer.wrote_part(index, *std::move(part));
    if (!left_to_master(part.status().code())) return part.status();
  }
  // The bytes go from the host to the file piece by piece.
  return writer.fill_part(
      index, [&](const TakeBytes& take) { return worker.read_snapshot(step, take, stop); });
}

}  // namespace

std::vector<CheckpointShare> share_out(const std::vector<HostHandle*>& workers,
                                       const std::map<std::string, std::set<std::string>>& holds,
                                       const std::map<std::string, uint64_t>& bytes) {
  struct Item {
    uint64_t bytes = 0;
    std::string name;
    std::vector<size_t> holders;
  };
  // Each variable with the hosts that hold it. The map orders them by name, so that equal jobs give
  // equal shares.
  std::map<std::string, Item> items;
  for (size_t w = 0; w < workers.size(); ++w) {
    const auto here = holds.find(workers[w]->task());
    if (here == holds.end()) continue;
    for (const std::string& name : here->second) {
      const auto size = bytes.find(name);
      items[name].bytes = size == bytes.end() ? 0 : size->second;
      items[name].name = name;
      items[name].holders.push_back(w);
    }
  }
  // The largest variable first, each to the holder that has the fewest bytes so far. Among equals
  // the first host wins, so the result depends on nothing else.
  std::vector<Item> ordered;
  for (auto& [name, item] : items) ordered.push_back(std::move(item));
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Item& a, const Item& b) { return a.bytes > b.bytes; });
  std::vector<CheckpointShare> shares(workers.size());
  std::vector<uint64_t> load(workers.size(), 0);
  for (const Item& item : ordered) {
    const size_t least = *std::min_element(item.holders.begin(), item.holders.end(),
                                           [&](size_t a, size_t b) { return load[a] < load[b]; });
    load[least] += item.bytes;
    shares[least].names.push_back(item.name);
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    // The names were in the order of the sizes; a part has them in the order of names.
    shares[w].worker = workers[w];
    std::sort(shares[w].names.begin(), shares[w].names.end());
  }
  std::erase_if(shares, [](const CheckpointShare& share) { return share.names.empty(); });
  if (shares.empty()) shares.push_back({workers[0], {}});
  return shares;
}

Result<std::unique_ptr<CheckpointTask>> CheckpointTask::begin(CheckpointOrder order) {
  std::unique_ptr<CheckpointTask> task(new CheckpointTask(std::move(order)));
  if (!task->order_.taken) LEAT_RETURN_IF_ERROR(task->take_snapshots());
  // Only writing is left, which may take as long as the disk needs while the steps continue.
  task->thread_ = std::jthread([task = task.get()](const std::stop_token& stop) {
    ::pthread_setname_np(::pthread_self(), "checkpoint");
    work_in_background();
    auto outcome = task->write(stop);
    const std::lock_guard lock(task->mutex_);
    task->outcome_.emplace(std::move(outcome));
    task->changed_.notify_all();
  });
  return task;
}

CheckpointTask::~CheckpointTask() = default;  // the thread is told to stop, and joined

bool CheckpointTask::done() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

// The thread ends in bounded time: each call to a host has a deadline. Only the disk can delay it.
Result<Manifest> CheckpointTask::outcome() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return outcome_.has_value(); });
  return *outcome_;
}

Status CheckpointTask::take_snapshots() {
  return all_at_once(order_.shares.size(), [&](size_t i) {
    const CheckpointShare& share = order_.shares[i];
    return order_.lends ? share.worker->lend_snapshot(order_.job, step(), share.names)
                        : share.worker->take_snapshot(order_.job, step(), share.names);
  });
}

Result<Manifest> CheckpointTask::write(const std::stop_token& stop) {
  Files& files = *order_.files;
  LEAT_ASSIGN_OR_RETURN(const std::string token, random_token());
  // A file may stand where the folder belongs.
  LEAT_ASSIGN_OR_RETURN(set_aside_, make_way_for_folder(files, order_.folder));
  LEAT_RETURN_IF_ERROR(files.make_directories(order_.folder));
  // The space of interrupted checkpoints is needed for this one.
  LEAT_RETURN_IF_ERROR(remove_leftovers(files, order_.folder));
  LEAT_ASSIGN_OR_RETURN(auto writer, CheckpointWriter::begin(files, order_.folder, step(),
                                                             order_.shares.size(), token));
  LEAT_RETURN_IF_ERROR(all_at_once(order_.shares.size(), [&](size_t i) {
    return write_share(*writer, i, *order_.shares[i].worker, step(), order_.hosts_write, stop);
  }));
  // The order matters: the parts, then what must be on the disk before the manifest, then the
  // manifest by commit(), and only then may older checkpoints go.
  LEAT_RETURN_IF_ERROR(order_.first());
  Manifest whole = order_.manifest;
  if (order_.metrics && whole.metrics && whole.provenance) {
    // A log that cannot be read is told of when the job goes on; it costs no checkpoint.
    auto hash = order_.metrics->until(whole.metrics->bytes);
    if (hash.ok()) whole.provenance->metrics_sha256 = *std::move(hash);
  }
  LEAT_ASSIGN_OR_RETURN(Manifest manifest, writer->commit(std::move(whole), order_.key.get()));
  tidied_ = prune_checkpoints(files, order_.folder, order_.keep);
  return manifest;
}

}  // namespace leat

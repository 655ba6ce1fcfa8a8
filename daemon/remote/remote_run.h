// One partition of a run on a runner, as the master drives it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_handle.h"
#include "daemon/remote/remote_run_state.h"

namespace leat {

// Calls go out in the order in which they are made here. What returns nothing does not wait for an
// answer: an error fails the run, on all of its runners.
class RemoteRun final : public PartitionRun {
 public:
  // Sends the partition. `data_root`: the data set's name.
  RemoteRun(std::shared_ptr<RemoteRunState> state, std::shared_ptr<AssemblyRuns> assembly,
            std::shared_ptr<const Bytes> plan, std::string data_root);
  ~RemoteRun() override;

  Status prepared() override;
  Endpoint endpoint() const override;
  void connect(std::span<const Endpoint> peers, const RunOptions& options) override;
  Status connected() override;
  Status feed(uint32_t i, const Tensor& value) override;
  void extend(uint64_t limit) override;
  Result<uint64_t> hold() override;
  void fence(uint64_t limit) override;
  bool snapshot_in_passing(uint64_t step, const std::vector<std::string>& names) override;
  uint64_t window() const override { return state_->rows.window(); }
  void renumber(uint64_t step) override;
  Timeline& finished() override { return state_->finished; }
  const void* fetched(uint32_t i, uint64_t step) override;
  void abort(const Status& cause) override;
  void release() override;
  void stop() override;
  std::string waits_for() override;
  std::string profile() override;

 private:
  // Feeds that go with the next extend(). The rest went before.
  struct SmallFeed {
    uint32_t index;
    Tensor value;
  };

  const std::shared_ptr<RemoteRunState> state_;
  const std::shared_ptr<AssemblyRuns> assembly_;
  const std::string data_root_;
  std::vector<SmallFeed> feeds_;
  bool released_ = false;
};

}  // namespace leat

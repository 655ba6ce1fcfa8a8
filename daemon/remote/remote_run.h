// One partition of a run on a runner, as the master drives it.
//
//   made         the plan is on its way to the runner, which reserves memory and opens slots
//   connect()    the runner dials its peers and makes the kernels
//   extend()     it steps, up to the limit; it reports finished steps and their fetches by itself
//   release()    its memory is given back, after the last step or abort()
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_handle.h"
#include "daemon/remote/remote_run_state.h"

namespace leat {

// Sends its calls in the order in which the caller makes them. Functions that return nothing do not
// wait for an answer: an error fails the run on all of its runners. Threads: as PartitionRun says.
class RemoteRun final : public PartitionRun {
 public:
  // Sends the partition to the runner. `plan` has the bytes that the runner gets; they stay
  // until they are sent. `data_root` is the name of the data set.
  RemoteRun(std::shared_ptr<RemoteRunState> state, std::shared_ptr<AssemblyRuns> assembly,
            std::shared_ptr<const Bytes> plan, std::string data_root);
  ~RemoteRun() override;

  // The functions of PartitionRun. Those that wait have deadlines: 60 s for prepared() and feed(),
  // 30 s for connected(), 10 s for hold() and stop(), and 2 s for waits_for().
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
  InputNumbers input() const override {
    return {1e-6 * static_cast<double>(state_->reports.input_wait_us.load()),
            state_->reports.steps_ahead.load()};
  }
  const void* fetched(uint32_t i, uint64_t step) override;
  void abort(const Status& cause) override;
  void release() override;
  void stop() override;
  std::string waits_for() override;
  std::string profile() override;

 private:
  // A feed that is sent with the next extend(). Larger feeds are sent at once.
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

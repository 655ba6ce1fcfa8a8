// The files that the job's graphs save, in the job's folder on the master's machine. Includes Cap'n
// Proto: for .cc files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ops/data/saved_files.h"
#include "transport/rpc/client.h"
#include "transport/rpc/loop.h"

namespace leat {

// A call takes 120 s at most while there is a master. If the master is lost, the call waits for the
// next one: a step that saves is then whole, and no worker loses it. The runner ends if no master
// comes in time. A file is in memory as a whole while it travels.
class MasterFiles final : public SavedFiles {
 public:
  // `loop` outlives it, and all kernels that have it.
  explicit MasterFiles(RpcLoop& loop);
  ~MasterFiles() override;

  // Sets the function that returns the assembly of the steps that save now. Before the first step.
  void stamp_with(std::function<uint64_t()> assembly) { assembly_ = std::move(assembly); }
  // Sets the connection on which this runner is registered; null: there is none now.
  void use(std::shared_ptr<RpcClient> master);
  // Ends the calls that wait for a master, and all later ones, with `unavailable`. REQUIRES: the
  // loop has stopped, and the executor of the runs that called still exists.
  void stop();

  void write(const std::string& path, const SafeTensors& content,
             std::function<void(Status)> done) override;
  void open(const std::string& path, std::function<void(Opened)> done) override;

 private:
  class Calls;
  const std::shared_ptr<Calls> calls_;
  std::function<uint64_t()> assembly_;
};

}  // namespace leat

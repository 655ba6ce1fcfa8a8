// Kernels that update one variable, and join those of others: the calls of all of them lie as a
// table in memory of the device, and few launches do what it says. LEAT_GPU_PLAIN=joined keeps them
// apart.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "devices/cuda/plain_ways.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/variable.h"
#include "ops/graph/joinable_kernel.h"

namespace leat::cuda {

// An update as its factory knows it. The functions may be called as often as there are steps.
template <typename Call>
struct Update {
  std::function<Call(const KernelContext&)> call;
  std::function<cudaError_t(const Call&, cudaStream_t)> launch;
  std::function<cudaError_t(const CallTable<Call>&, cudaStream_t)> launch_all;
  // Equal for updates that one launch_all does. REQUIRES: another one for each type of call.
  std::string key;
  size_t workspace = 0;  // in bytes
};

template <typename Call>
class UpdateKernel final : public Kernel, public JoinableKernel {
 public:
  UpdateKernel(const KernelSetup& setup, Update<Call> update)
      : update_(std::move(update)),
        device_(*setup.device),
        subject_(setup.subject),
        key_(goes_plain_way("joined") ? "" : update_.key),
        alone_(make_cuda_kernel(
            setup,
            [this](const KernelContext& context, cudaStream_t stream) {
              return update_.launch(update_.call(context), stream);
            },
            update_.workspace)) {}

  bool repeats() const override { return alone_->repeats(); }
  size_t workspace_bytes() const override { return alone_->workspace_bytes(); }
  Progress run(KernelContext& context, int phase, int tile) override {
    return alone_->run(context, phase, tile);
  }

  const std::string& join_key() const override { return key_; }
  Result<Joined> join(std::span<const Member> members) const override;

 private:
  // The memory of the joined kernel. Buffers go with the last copy of it.
  struct Tables {
    std::vector<std::shared_ptr<Buffer>> buffers;
    CallTable<Call> table;  // without `calls`, which differ by parity
  };

  const Update<Call> update_;
  Device& device_;
  const std::string subject_, key_;
  const std::unique_ptr<Kernel> alone_;
};

template <typename Call>
Result<JoinableKernel::Joined> UpdateKernel<Call>::join(std::span<const Member> members) const {
  KernelSetup setup;
  setup.device = &device_;
  setup.subject = cat(subject_, " and ", members.size() - 1, " more");
  const size_t parities = members[0].contexts.size();
  std::vector<std::vector<Call>> calls(parities);
  std::vector<CallChunk> chunks;
  for (const Member& member : members) {
    // Equal keys say that the types are equal.
    const auto& update = static_cast<const UpdateKernel&>(member.kernel).update_;
    const int64_t parts = update.call(member.contexts[0]).chunks();
    if (parts == 0) continue;  // a variable without elements
    const auto index = static_cast<uint32_t>(calls[0].size());
    for (int64_t part = 0; part < parts; ++part)
      chunks.push_back({index, static_cast<uint32_t>(part)});
    for (size_t parity = 0; parity < parities; ++parity)
      calls[parity].push_back(update.call(member.contexts[parity]));
  }
  Tables tables;
  Joined joined;
  const auto copied = [&](const auto& list) -> Result<std::byte*> {
    LEAT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> copy,
                          copy_of(setup, list.data(), list.size() * sizeof(list[0])));
    tables.buffers.push_back(copy);
    return static_cast<std::byte*>(copy->data());
  };
  for (const std::vector<Call>& list : calls) {
    LEAT_ASSIGN_OR_RETURN(std::byte * at, copied(list));
    joined.workspaces.push_back(at);
  }
  LEAT_ASSIGN_OR_RETURN(std::byte * at, copied(chunks));
  tables.table.call_count = static_cast<int64_t>(calls[0].size());
  tables.table.chunks = reinterpret_cast<const CallChunk*>(at);
  tables.table.chunk_count = static_cast<int64_t>(chunks.size());
  joined.kernel = make_cuda_kernel(setup, [tables = std::move(tables), all = update_.launch_all](
                                              const KernelContext& context, cudaStream_t stream) {
    CallTable<Call> table = tables.table;
    table.calls = reinterpret_cast<const Call*>(context.workspace);
    return all(table, stream);
  });
  return joined;
}

template <typename Call>
std::unique_ptr<Kernel> make_update(const KernelSetup& setup, Update<Call> update) {
  return std::make_unique<UpdateKernel<Call>>(setup, std::move(update));
}

}  // namespace leat::cuda

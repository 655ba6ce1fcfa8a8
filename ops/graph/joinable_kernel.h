// Kernels that can do in one piece, by fewer launches, what each does by itself.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"

namespace leat {

// The second base of a Kernel of one phase and one tile that writes to variables alone and needs no
// scratch memory. A program
// joins such kernels where none of them touches what another one writes.
class JoinableKernel {
 public:
  struct Member {
    const JoinableKernel& kernel;
    std::span<const KernelContext> contexts;  // by parity of the turn, as run() would get them
  };
  struct Joined {
    std::unique_ptr<Kernel> kernel;      // like its members of one phase and one tile
    std::vector<std::byte*> workspaces;  // by parity: run() gets it as context.workspace
  };

  // Kernels with equal keys can be joined; one with an empty key cannot.
  virtual const std::string& join_key() const = 0;
  // Makes a kernel that does the work of all members, with the same bits. The members outlive it,
  // and so do their operands and workspaces; it owns its own workspaces. It may block, for what it
  // copies to the device. REQUIRES: this kernel is the first member, and all have its key.
  virtual Result<Joined> join(std::span<const Member> members) const = 0;

 protected:
  ~JoinableKernel() = default;
};

}  // namespace leat

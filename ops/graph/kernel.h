// What runs. A kernel is made once per plan instruction, when the plan is registered: it sees
// concrete types, makes its primitives, says how it is cut into tiles and what memory it needs.
// After that it is only run, on addresses that do not change.
//
// Determinism: tiles and algorithms follow from shapes alone. The number of threads may decide who
// runs a tile, never what a tile is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/device.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"
#include "ops/graph/types.h"

namespace leat {

// What an op's rules see of one node once shapes are concrete.
struct OpTypes {
  std::vector<OperandType> inputs;
  std::vector<OperandType> outputs;
  const Attrs* attrs = nullptr;  // defaults filled in

  bool has_input(int i) const { return i < static_cast<int>(inputs.size()) && inputs[i].present; }
  bool has_output(int i) const {
    return i < static_cast<int>(outputs.size()) && outputs[i].present;
  }
};

// Independence along dimension 0, which lets neighbouring ops run tile by tile while their data is
// in the cache. rows == 0: the op cannot be cut so.
// Promise: in the kernel's row_phase(), rows [a,b) of the row outputs depend on rows [a,b) of the
// row inputs and on all of the other inputs, and nothing else. Operands not listed as rows are
// whole. An output that is not of rows (a gradient of weights) is complete only after the last
// phase. Outside the row phase operands of rows are not touched, but for late_inputs: within it
// a thread may be given memory that holds the rows of its tile alone, at their place.
struct Tiling {
  int64_t rows = 0;
  uint32_t row_inputs = 0;   // bit i: input i is of rows
  uint32_t row_outputs = 0;  // bit i: output i is of rows
  int64_t min_rows = 1;      // a tile of fewer rows wastes the processor (matrix products)
  // The bits of the outputs that are not of rows depend on the rows of a tile (sums over rows, in
  // parts): a chain must cut this op into exactly so many, which follow from the op's own shapes.
  // 0: they do not.
  int64_t fixed_rows = 0;
  uint32_t late_inputs = 0;  // bit i: phases after the row phase read row input i again
};

// Operands (bit sets) that may all be Layout::channels16 together; the rest stays plain. The layout
// pass gives all of them that layout, or none.
struct LayoutSupport {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  bool prefers_blocked = false;  // worth reordering for (convolutions); others merely follow
};

// The step that a kernel runs in. Owned by the run.
struct StepContext {
  uint64_t step = 0;  // the job's step, counted from 0, for random ops and slots
  uint64_t seed = 0;  // the job's seed
  // The first failure of the step and who failed. Kernels call fail(); the executor reads it.
  virtual void fail(uint32_t instruction, Status status) = 0;

 protected:
  ~StepContext() = default;
};

// The context of a run that is allowed its steps bit by bit: AwaitQuorum asks how many.
struct LimitedStepContext : StepContext {
  uint64_t limit = 0;  // steps below are allowed; more may be by now

 protected:
  ~LimitedStepContext() = default;
};

enum class Progress : uint8_t {
  done,     // outputs are written
  pending,  // enqueued on the device's queue: outputs are there when the queue comes to them
  blocked,  // cannot go on before (await, await_value): run the same tile again then. Nothing was
            // done
  failed,   // context.step->fail() was called
};

// Addresses and the step, bound by the executor. One per instruction, reused every step.
struct KernelContext {
  void* const* inputs =
      nullptr;  // null where absent; for a resource other than a variable, its Resource*
  void* const* outputs = nullptr;
  std::byte* workspace =
      nullptr;                   // of the instruction, kept between its phases (not between steps)
  std::byte* scratch = nullptr;  // of the running thread
  StepContext* step = nullptr;
  Queue* queue = nullptr;    // of the device
  uint32_t instruction = 0;  // the index to give to step->fail()
  // Set by a kernel that returns blocked.
  Timeline* await = nullptr;
  uint64_t await_value = 0;

  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* out(int i) const {
    return static_cast<T*>(outputs[i]);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Phases run one after the other, the tiles of a phase in any order and in parallel.
  virtual int phases() const { return 1; }
  virtual int tiles(int /*phase*/) const { return 1; }
  // The phase that is cut into tiles of rows (see Tiling). Earlier phases prepare for it from whole
  // operands alone (they pack weights), and run before it.
  virtual int row_phase() const { return 0; }
  virtual size_t workspace_bytes() const { return 0; }
  virtual size_t scratch_bytes() const { return 0; }  // for each thread
  // Threads: any compute thread; different tiles at the same time. Never blocks, never throws,
  // allocates nothing.
  virtual Progress run(KernelContext& context, int phase, int tile) = 0;
};

// What a kernel is made from.
struct KernelSetup {
  OpTypes types;
  const Node* node = nullptr;  // attrs without defaults, source, first_row; name
  std::vector<const Tensor*>
      constants;  // of each input: its value if known at compile time, else null
  // Rows of dimension 0 in one tile of the row phase, given by a chain that this kernel is part of:
  // then tiles(row_phase()) must be ceil(rows / tile_rows). 0: the kernel chooses.
  int64_t tile_rows = 0;
  Device* device = nullptr;
  class JobResources* resources =
      nullptr;          // for kernels of resources and readers; may be null in tests
  std::string subject;  // "MatMul 'l2/mm'", for messages

  const OperandType& input(int i) const { return types.inputs[static_cast<size_t>(i)]; }
  const OperandType& output(int i) const { return types.outputs[static_cast<size_t>(i)]; }
  const Attrs& attrs() const { return *types.attrs; }
  const Tensor* constant(int i) const {
    return i < static_cast<int>(constants.size()) ? constants[static_cast<size_t>(i)] : nullptr;
  }
};

// Makes the kernel, or says why this one cannot be run (unimplemented, with the subject).
using KernelFactory = std::function<Result<std::unique_ptr<Kernel>>(const KernelSetup&)>;

// A kernel that is a function of its context, cut into tiles or not.
std::unique_ptr<Kernel> make_kernel(std::function<Progress(KernelContext&)> run);
std::unique_ptr<Kernel> make_tiled_kernel(int tiles,
                                          std::function<Progress(KernelContext&, int tile)> run);

// The tile that a kernel takes when nobody gives one: about 32 Ki elements, by the shape alone.
// Returns rows per tile (>= 1) of `rows` rows of `row_elements` each.
int64_t default_tile_rows(int64_t rows, int64_t row_elements);
inline int tile_count(int64_t rows, int64_t tile_rows) {
  return rows == 0 ? 1 : static_cast<int>((rows + tile_rows - 1) / tile_rows);
}

}  // namespace leat

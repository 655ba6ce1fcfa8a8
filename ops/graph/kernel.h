// Kernels are the code that a step runs. A kernel is made once per plan instruction, when the plan
// is registered. It sees concrete types then, creates its primitives, and declares its tiles and
// the memory that it needs. Afterwards it only runs, on addresses that do not change from then on
// (an operand may have two, one for the even and one for the odd steps).
//
// Determinism: tiles and algorithms follow from shapes alone. The number of threads may change
// which thread runs a tile, but never the tiles.
//
// The shortest kernel is a function, for an op without memory of its own:
//
//   Result<std::unique_ptr<Kernel>> make_step_kernel(const KernelSetup&) {
//     return make_kernel([](KernelContext& context) {
//       *context.out<int64_t>(0) = static_cast<int64_t>(context.step->step);
//       return Progress::done;
//     });
//   }
//   catalogue.add_kernel("leat.Step", "cpu", make_step_kernel);
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

// The types and attributes of one node once all shapes are concrete. Rules for tiling, layouts and
// cost see no more of a node: the values of its operands are not known to them.
struct OpTypes {
  std::vector<OperandType> inputs;
  std::vector<OperandType> outputs;
  const Attrs* attrs = nullptr;  // defaults filled in; owned by the caller

  // True if operand i is there. Operands past the end of the list are absent.
  bool has_input(int i) const { return i < static_cast<int>(inputs.size()) && inputs[i].present; }
  bool has_output(int i) const {
    return i < static_cast<int>(outputs.size()) && outputs[i].present;
  }
};

// How an op can be cut along dimension 0, so that neighbouring ops run tile by tile while their
// data is in the cache. rows == 0: the op cannot be cut.
//
// The kernel promises: in its row_phase(), rows [a,b) of the row outputs depend on rows [a,b) of
// the row inputs and on all of the other inputs, and on nothing else. Operands that are not listed
// as rows are whole. An output that is not of rows (a gradient of weights) is complete only after
// the last phase. Outside the row phase the kernel does not touch operands of rows, except
// late_inputs: within the row phase a thread may get memory that holds only the rows of its tile,
// at their place.
struct Tiling {
  int64_t rows = 0;
  uint32_t row_inputs = 0;   // bit i: input i is of rows
  uint32_t row_outputs = 0;  // bit i: output i is of rows
  int64_t min_rows = 1;      // a tile of fewer rows wastes the processor (matrix products)
  // Set if the bits of the outputs that are not of rows depend on the rows of a tile (sums over
  // rows, in parts): a chain must cut this op into tiles of exactly this many rows (the last one
  // may have less). The number follows from the op's own shapes. 0: the bits do not depend on
  // tiles.
  int64_t fixed_rows = 0;
  uint32_t late_inputs = 0;  // bit i: phases after the row phase read row input i again
};

// Operands (bit sets) that may all have the other layout of a kind of devices together; the others
// stay plain. The layout pass gives that layout to all of them or to none.
struct LayoutSupport {
  // Bit i: operand i, as in Tiling. Without a bit in either, the op is plain only.
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  bool prefers_blocked =
      false;  // worth reordering for (convolutions); others accept it but do not ask for it
};

// The numbers that random ops draw from.
struct StepNumbers {
  uint64_t step = 0;  // the job's step, counted from 0
  uint64_t seed = 0;  // the job's seed
};

// The step that a kernel runs in. The run owns it, and it lives as long as a kernel of the step may
// run. Its address may serve a later step again.
struct StepContext : StepNumbers {
  // The same numbers in memory of the host that the device can read, at an address that stays for
  // all steps of one parity; null on devices that see all of the host's memory.
  const StepNumbers* for_device = nullptr;
  // Reports that an instruction failed, after which the kernel returns Progress::failed. The
  // executor keeps the step's first failure and the instruction that reported it, and the run ends
  // with it. Threads: any, several at once. `instruction` is KernelContext::instruction; `status`
  // is not ok and has the subject in its message.
  virtual void fail(uint32_t instruction, Status status) = 0;

 protected:
  ~StepContext() = default;
};

// The context of a run that gets permission for its steps in portions: AwaitQuorum reads the limit.
// A kernel finds it with a dynamic_cast; other runs have no limit.
struct LimitedStepContext : StepContext {
  uint64_t limit = 0;  // steps below it are allowed; it may have grown since

 protected:
  ~LimitedStepContext() = default;
};

// The result of running one tile.
enum class Progress : uint8_t {
  done,     // outputs are written
  pending,  // enqueued on the device's queue: outputs are complete when the queue reaches them
  blocked,  // cannot go on before (await, await_value): run the same tile again then. Nothing was
            // done
  failed,   // context.step->fail() was called
};

// The addresses and the step, bound by the executor. A kernel may not keep the context or its lists
// after run(): tiles that run at the same time have contexts of their own.
struct KernelContext {
  // By operand, in the order of KernelSetup::types; null where an operand is absent. A variable is
  // the address of its elements, any other resource its Resource*. Input and output may be the same
  // memory if the op allows it (OpDef::in_place, OpDef::view).
  void* const* inputs = nullptr;
  // Null where an output is absent or has no data (a token).
  void* const* outputs = nullptr;
  // Memory of the instruction, kept between its phases (not between steps): workspace_bytes(),
  // with whatever was left in it. All tiles share it.
  std::byte* workspace = nullptr;
  // Memory of the running thread: scratch_bytes(), which no other tile uses meanwhile. Nothing is
  // kept between tiles. Both memories begin at a multiple of 64 bytes.
  std::byte* scratch = nullptr;
  StepContext* step = nullptr;
  Queue* queue = nullptr;    // of the device; null in the interpreter
  uint32_t instruction = 0;  // the index to give to step->fail()
  // A kernel that returns blocked sets these: the executor runs it again at that value.
  Timeline* await = nullptr;
  uint64_t await_value = 0;

  // The elements of an operand. T must be the type of the operand's dtype: nothing checks it.
  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* out(int i) const {
    return static_cast<T*>(outputs[i]);
  }
};

// The code of one instruction. The executor that made it owns it, and destroys it after the last
// step: a kernel that counts as a user of a resource leaves it in its destructor. The functions
// that declare phases, tiles and sizes return the same every time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Phases run one after the other; the tiles of a phase run in any order and in parallel. A phase
  // sees all writes of the phases before it.
  virtual int phases() const { return 1; }
  // The number of tiles of a phase, at least 1.
  virtual int tiles(int /*phase*/) const { return 1; }
  // The phase that is cut into tiles of rows (see Tiling). Earlier phases read only whole operands,
  // for example to pack weights, and run before it.
  virtual int row_phase() const { return 0; }
  // True if run() may return blocked although no input is a resource.
  virtual bool may_block() const { return false; }
  // True if run() enqueues the same work in every step that has the same addresses: the executor
  // may record it then, and run() is not called in later steps.
  virtual bool repeats() const { return false; }
  virtual size_t workspace_bytes() const { return 0; }
  virtual size_t scratch_bytes() const { return 0; }  // for each thread
  // Runs one tile. It never blocks, never throws and allocates nothing. Threads: any compute
  // thread; different tiles may run at the same time. A kernel that must wait for another run sets
  // context.await and await_value and returns blocked; the thread then runs something else, and
  // some thread runs the tile again.
  virtual Progress run(KernelContext& context, int phase, int tile) = 0;
};

// The arguments of a KernelFactory. The caller owns everything that the pointers refer to;
// `resources` and `device` live longer than the kernel and may be kept.
struct KernelSetup {
  OpTypes types;
  const Node* node = nullptr;  // attrs without defaults, source, first_row; name
  // Of each input: its value if known at compile time, else null. The list may be shorter than that
  // of the inputs.
  std::vector<const Tensor*> constants;
  // The rows of dimension 0 in one tile of the row phase, set by the chain that this kernel is part
  // of: tiles(row_phase()) must then be ceil(rows / tile_rows). 0: the kernel chooses.
  int64_t tile_rows = 0;
  // Products of float32 may round their factors to TF32, if the device has it: Partition::tf32.
  bool tf32 = false;
  Device* device = nullptr;
  // For kernels of resources and readers; may be null in tests.
  class JobResources* resources = nullptr;
  std::string subject;  // "MatMul 'l2/mm'", for messages

  // The type of an operand. REQUIRES: i is in the list; the operand may be absent.
  const OperandType& input(int i) const { return types.inputs[static_cast<size_t>(i)]; }
  const OperandType& output(int i) const { return types.outputs[static_cast<size_t>(i)]; }
  const Attrs& attrs() const { return *types.attrs; }
  const Tensor* constant(int i) const {
    return i < static_cast<int>(constants.size()) ? constants[static_cast<size_t>(i)] : nullptr;
  }
};

// Makes the kernel, or returns why it cannot run, with the subject: unimplemented for types that
// the device has no code for, invalid_argument or failed_precondition for operands or resources
// that do not fit. It may block, for example while a reader opens its files. Threads: any, for
// several plans at once.
using KernelFactory = std::function<Result<std::unique_ptr<Kernel>>(const KernelSetup&)>;

// Whether a device's kernel of an op can compute a node of these types. Threads: any.
using KernelSupport = std::function<bool(const OpTypes&)>;

// A kernel that is a function of its context, cut into tiles or not. It has one phase and no
// memory. The function must follow the rules of Kernel::run(); the tiled one gets the numbers 0 to
// tiles - 1.
std::unique_ptr<Kernel> make_kernel(std::function<Progress(KernelContext&)> run);
std::unique_ptr<Kernel> make_tiled_kernel(int tiles,
                                          std::function<Progress(KernelContext&, int tile)> run);

// The tile that a kernel takes when none is given: about 32 Ki elements, by the shape alone.
// Returns rows per tile (>= 1) of `rows` rows of `row_elements` each.
int64_t default_tile_rows(int64_t rows, int64_t row_elements);
// The number of tiles of `tile_rows` rows; 1 for no rows, since each phase has a tile. REQUIRES:
// tile_rows >= 1.
inline int tile_count(int64_t rows, int64_t tile_rows) {
  return rows == 0 ? 1 : static_cast<int>((rows + tile_rows - 1) / tile_rows);
}

}  // namespace leat

#include "tests/cuda_emulation/emulator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define LEAT_FIBERS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAT_FIBERS_ASAN
#endif
#endif
#ifdef LEAT_FIBERS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the switch between fibers is written for x86-64"
#endif

// Saves the registers that a call preserves and the stack of the caller in *from, and goes on with
// the stack `to`, which was saved in the same way. The C library's swapcontext() would ask the
// kernel about signals each time, which takes longer than all else here.
extern "C" void leat_switch_stack(void** from, void* to);
asm(R"(
.text
.globl leat_switch_stack
.type leat_switch_stack,@function
leat_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size leat_switch_stack, .-leat_switch_stack
)");

emulator::Index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

constexpr size_t kStackBytes = 512 << 10;
constexpr unsigned kWarpLanes = 32;
constexpr unsigned kMostThreads = 1024;

bool reversed = false;

// A stack of its own. It belongs to a thread of the block while that thread waits.
struct Fiber {
  std::byte* stack = nullptr;  // its lowest address
  void* saved = nullptr;       // the stack pointer while another runs
  void* asan = nullptr;
};

enum class State : uint8_t { fresh, runs, at_block, at_warp, ended };

struct Thread {
  State state = State::fresh;
  unsigned mask = 0;
  size_t fiber = 0;
  bool second_slot = false;  // of the two that an exchange takes in turn
  uint64_t slots[2] = {0, 0};
};

// Tells AddressSanitizer of a switch: it keeps apart what lies on which stack.
void begin_switch([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] size_t size) {
#ifdef LEAT_FIBERS_ASAN
  __sanitizer_start_switch_fiber(save, bottom, size);
#endif
}
void end_switch([[maybe_unused]] void* saved, [[maybe_unused]] const void** bottom,
                [[maybe_unused]] size_t* size) {
#ifdef LEAT_FIBERS_ASAN
  __sanitizer_finish_switch_fiber(saved, bottom, size);
#endif
}

// The block that runs. Blocks run one after the other and share the fibers.
class Block {
 public:
  void run(dim3 size, Call kernel, void** arguments) {
    kernel_ = kernel;
    arguments_ = arguments;
    size_ = size;
    threads_.assign(size_t{size.x} * size.y * size.z, Thread{});
    fresh_ = ended_ = at_block_ = 0;
    ready_.clear();
    while (ended_ < threads_.size()) {
      if (!ready_.empty()) {
        const size_t next = ready_.back();
        ready_.pop_back();
        switch_to(threads_[next].fiber);
      } else if (fresh_ < threads_.size()) {
        switch_to(free_fiber());
      } else {
        stop("threads wait for a barrier that will never be complete");
      }
    }
  }

  void wait_for_block() {
    Thread& mine = threads_[current_];
    mine.state = State::at_block;
    ++at_block_;
    release_block();
    leave();
  }

  void wait_for_warp(unsigned mask) {
    const size_t first = current_ / kWarpLanes * kWarpLanes;
    if ((mask >> (current_ % kWarpLanes) & 1) == 0) stop("a lane is not in its own mask");
    if (mask == ~0u && threads_.size() - first < kWarpLanes) {
      mask = (1u << (threads_.size() - first)) - 1;  // the lanes that there are
    }
    Thread& mine = threads_[current_];
    mine.state = State::at_warp;
    mine.mask = mask;
    bool all = true;
    for (unsigned l = 0; l < kWarpLanes; ++l) {
      if ((mask >> l & 1) == 0) continue;
      if (first + l >= threads_.size()) stop("a mask names a lane that does not exist");
      const Thread& other = threads_[first + l];
      if (other.state == State::ended) stop("a mask names a lane that has left the kernel");
      if (other.state == State::at_block || (other.state == State::at_warp && other.mask != mask))
        stop("lanes of one mask wait at different operations");
      all = all && other.state == State::at_warp;
    }
    if (all) {
      for (unsigned l = 0; l < kWarpLanes; ++l) {
        if ((mask >> l & 1) == 0) continue;
        threads_[first + l].state = State::runs;
        ready_.push_back(first + l);
      }
    }
    leave();
  }

  uint64_t exchange(unsigned mask, uint64_t value, unsigned from) {
    const size_t me = current_;
    // A lane reads before the next exchange completes, and two slots are enough for that.
    const bool slot = threads_[me].second_slot = !threads_[me].second_slot;
    threads_[me].slots[slot] = value;
    wait_for_warp(mask);
    const size_t other = me / kWarpLanes * kWarpLanes + from;
    if (other >= threads_.size()) return value;
    if ((mask >> from & 1) == 0) stop("an exchange reads a lane that is not in its mask");
    return threads_[other].slots[slot];
  }

  unsigned lane() const { return static_cast<unsigned>(current_ % kWarpLanes); }

 private:
  // Position `i` in the order in which threads start.
  size_t nth(size_t i) const { return reversed ? threads_.size() - 1 - i : i; }

  void take(size_t thread) {
    current_ = thread;
    const auto t = static_cast<unsigned>(thread);
    threadIdx = {t % size_.x, t / size_.x % size_.y, t / (size_.x * size_.y)};
  }

  void release_block() {
    if (at_block_ + ended_ < threads_.size()) return;
    if (ended_ > 0) stop("some threads have left the kernel without reaching a barrier");
    at_block_ = 0;
    for (size_t i = threads_.size(); i-- > 0;) {
      threads_[nth(i)].state = State::runs;
      ready_.push_back(nth(i));
    }
  }

  // A thread that has ended must not be in the mask of one that waits.
  void look_for_masks() const {
    const size_t first = current_ / kWarpLanes * kWarpLanes;
    const size_t end = std::min(threads_.size(), first + kWarpLanes);
    for (size_t i = first; i < end; ++i) {
      if (threads_[i].state == State::at_warp && (threads_[i].mask >> (current_ - first) & 1))
        stop("a mask names a lane that has left the kernel");
    }
  }

  // Goes to the scheduler, and returns when this thread goes on.
  void leave() {
    const size_t me = current_;
    switch_to_scheduler(threads_[me].fiber);
    take(me);
  }

  size_t free_fiber() {
    if (!free_.empty()) {
      const size_t fiber = free_.back();
      free_.pop_back();
      return fiber;
    }
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* memory = ::mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) stop("there is no memory for a fiber");
    ::mprotect(memory, page, PROT_NONE);
    Fiber fiber;
    fiber.stack = static_cast<std::byte*>(memory) + page;
    // leat_switch_stack() pops these: six registers, and the address to return to. The stack
    // pointer is then 8 off a multiple of 16, as at the start of any function.
    auto** top = reinterpret_cast<void**>(fiber.stack + kStackBytes - 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&Block::begin_fiber);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    fiber.saved = top;
    fibers_.push_back(fiber);
    return fibers_.size() - 1;
  }

  void switch_to(size_t fiber) {
    on_ = fiber;
    begin_switch(&scheduler_asan_, fibers_[fiber].stack, kStackBytes);
    leat_switch_stack(&scheduler_, fibers_[fiber].saved);
    end_switch(scheduler_asan_, nullptr, nullptr);
  }
  void switch_to_scheduler(size_t fiber) {
    begin_switch(&fibers_[fiber].asan, scheduler_bottom_, scheduler_size_);
    leat_switch_stack(&fibers_[fiber].saved, scheduler_);
    end_switch(fibers_[fiber].asan, &scheduler_bottom_, &scheduler_size_);
  }

  static void begin_fiber();
  // Runs fresh threads until one waits, whose fiber this is then, or none is left.
  void run_fiber(size_t fiber) {
    while (true) {
      while (fresh_ < threads_.size()) {
        const size_t thread = nth(fresh_++);
        threads_[thread].state = State::runs;
        threads_[thread].fiber = fiber;
        take(thread);
        kernel_(arguments_);
        threads_[current_].state = State::ended;
        ++ended_;
        look_for_masks();
        if (at_block_ > 0) release_block();
        if (!ready_.empty()) break;
      }
      free_.push_back(fiber);
      switch_to_scheduler(fiber);
    }
  }

  [[noreturn]] void stop(const char* what) const {
    std::fprintf(stderr, "emulated kernel: block (%u,%u,%u), thread (%u,%u,%u): %s\n", blockIdx.x,
                 blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what);
    std::abort();
  }

  Call kernel_ = nullptr;
  void** arguments_ = nullptr;
  dim3 size_;
  std::vector<Thread> threads_;
  std::vector<size_t> ready_;  // threads that may go on
  size_t fresh_ = 0, ended_ = 0, at_block_ = 0, current_ = 0;
  std::vector<Fiber> fibers_;
  std::vector<size_t> free_;
  size_t on_ = 0;
  void* scheduler_ = nullptr;
  void* scheduler_asan_ = nullptr;
  const void* scheduler_bottom_ = nullptr;
  size_t scheduler_size_ = 0;
};

Block block;

void Block::begin_fiber() {
  end_switch(nullptr, &block.scheduler_bottom_, &block.scheduler_size_);
  block.run_fiber(block.on_);
}

std::byte* dynamic = nullptr;

struct Kernels {
  std::mutex mutex;
  std::map<const void*, KernelEntry> entries;
  const void* last = nullptr;
};
Kernels& kernels() {
  static Kernels all;
  return all;
}

}  // namespace

void* dynamic_shared() { return dynamic; }
void wait_for_block() { block.wait_for_block(); }
void wait_for_warp(unsigned mask) { block.wait_for_warp(mask); }
unsigned lane() { return block.lane(); }
uint64_t exchange(unsigned mask, uint64_t value, unsigned from) {
  return block.exchange(mask, value, from);
}
void set_reverse(bool reverse) { reversed = reverse; }

void run(dim3 grid, dim3 block_size, size_t shared, Call kernel, void** arguments) {
  if (block_size.x * block_size.y * block_size.z > kMostThreads) std::abort();
  gridDim = grid;
  blockDim = block_size;
  // Of exactly that size, so that AddressSanitizer guards its end; all ones are NaN.
  const std::unique_ptr<std::byte[]> memory(new std::byte[shared]);
  dynamic = memory.get();
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t b = reversed ? blocks - 1 - i : i;
    std::fill_n(dynamic, shared, std::byte{0xff});
    blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                static_cast<unsigned>(b / grid.x / grid.y)};
    block.run(block_size, kernel, arguments);
  }
}

void add_kernel(const void* function, KernelEntry entry) {
  const std::lock_guard lock(kernels().mutex);
  kernels().entries[function] = entry;
  kernels().last = function;
}
const void* last_listed() {
  const std::lock_guard lock(kernels().mutex);
  return kernels().last;
}
const KernelEntry* find_kernel(const void* function) {
  const std::lock_guard lock(kernels().mutex);
  const auto at = kernels().entries.find(function);
  return at == kernels().entries.end() ? nullptr : &at->second;
}

}  // namespace emulator

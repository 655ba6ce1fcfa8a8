#include "devices/cpu/cpu_device.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "devices/base/text.h"

namespace leat::cpu {
namespace {

// Large buffers begin on a huge page and consist of as many as fit. A kernel or a socket that reads
// them in a row then does not walk the page tables for every 4 KiB. Small ones begin on a cache
// line.
constexpr size_t kHugePage = 2 << 20, kLeastInHugePages = 2 * kHugePage;
constexpr size_t kLine = 64;

void* allocate_aligned(size_t bytes) {
  const bool large = bytes >= kLeastInHugePages;
  void* data = nullptr;
  if (::posix_memalign(&data, large ? kHugePage : kLine, bytes) != 0) return nullptr;
  // Only advice: if the system has no huge pages, small ones do.
  if (large) static_cast<void>(::madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE));
  return data;
}

// Memory of the host. free() also frees memory of posix_memalign().
class HostBuffer final : public Buffer {
 public:
  HostBuffer(void* data, size_t size) : data_(data), size_(size) {}
  ~HostBuffer() override { std::free(data_); }
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* data_;
  size_t size_;
};

// A queue whose work runs inside enqueue(). It is always empty, and every mark is already reached.
class InlineQueue final : public Queue {
 public:
  void enqueue(std::function<Status()> work) override {
    if (timeline_.failed()) return;
    Status status = work();
    if (!status.ok()) timeline_.fail(std::move(status));
  }
  uint64_t mark() override {
    const uint64_t value = ++marks_;
    timeline_.signal(value);
    return value;
  }
  Timeline& timeline() override { return timeline_; }
  // The hour is a bound for a peer that never signals; the owners of runs have shorter ones.
  void wait_for(Timeline& timeline, uint64_t value) override {
    Status status = timeline.wait(value, std::chrono::steady_clock::now() + std::chrono::hours(1));
    if (!status.ok()) timeline_.fail(std::move(status));
  }

 private:
  Timeline timeline_;
  std::atomic<uint64_t> marks_{0};
};

}  // namespace

CpuDevice::CpuDevice(int index, int threads)
    : index_(index), pool_(threads), queue_(std::make_unique<InlineQueue>()) {}

std::string CpuDevice::description() const { return cpu_model(); }

uint64_t CpuDevice::memory_bytes() const {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

Result<std::unique_ptr<Buffer>> CpuDevice::allocate(size_t bytes) {
  // Never of no bytes, so that every buffer has an address of its own.
  const size_t rounded = std::max(kLine, (bytes + kLine - 1) / kLine * kLine);
  void* data = rounded < bytes ? nullptr : allocate_aligned(rounded);
  if (!data)
    return resource_exhausted(
        cat(name(), ": expected room for ", human_bytes(bytes), ", there is none"));
  // Touches the pages, so that no step pays for their faults.
  std::memset(data, 0, rounded);
  return std::unique_ptr<Buffer>(new HostBuffer(data, bytes));
}

void CpuDevice::copy_to_device(void* device, const void* host, size_t bytes) {
  if (bytes) std::memcpy(device, host, bytes);
}
void CpuDevice::copy_to_host(void* host, const void* device, size_t bytes) {
  if (bytes) std::memcpy(host, device, bytes);
}

void CpuDevice::copy_within(void* to, const void* from, size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

// A cgroup's quota is a time per period: "200000 100000" allows two cores' worth.
int usable_cores() {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  std::string limit;
  double period = 0;
  if (quota >> limit >> period && limit != "max" && period > 0) {
    cores = std::min(cores, std::max(1, static_cast<int>(std::stod(limit) / period)));
  }
  return std::max(1, cores);
}

}  // namespace leat::cpu

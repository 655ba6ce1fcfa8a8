// Functions of NVIDIA's driver and of NVML that show one GPU, for tests of `leat doctor`: it is
// built as libcuda.so.1 and as libnvidia-ml.so.1. The environment has the facts.
#include <cstdlib>
#include <cstring>

namespace {

// A number of the environment.
long long fact(const char* name, long long otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoll(value) : otherwise;
}

constexpr long long kMemory = 16LL << 30;

struct Memory {
  unsigned long long total, free, used;
};

}  // namespace

#define STUB extern "C" __attribute__((visibility("default")))

STUB int cuInit(unsigned) { return 0; }
STUB int cuDriverGetVersion(int* version) {
  *version = static_cast<int>(fact("LEAT_STUB_CUDA", 13000));
  return 0;
}
STUB int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
STUB int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "Stub GPU", static_cast<size_t>(size));
  return 0;
}
STUB int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = static_cast<size_t>(kMemory);
  return 0;
}
STUB int cuDeviceGetAttribute(int* value, int attribute, int) {
  const auto capability = static_cast<int>(fact("LEAT_STUB_CAPABILITY", 90));
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}
STUB int cuDeviceGetPCIBusId(char* bus, int size, int) {
  std::strncpy(bus, "0000:01:00.0", static_cast<size_t>(size));
  return 0;
}

STUB int nvmlInit_v2() { return 0; }
STUB int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  static int one;
  *device = &one;
  return std::strcmp(bus, "0000:01:00.0") == 0 ? 0 : 6;  // not found
}
STUB int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  const auto free = static_cast<unsigned long long>(fact("LEAT_STUB_FREE", kMemory));
  *memory = {kMemory, free, kMemory - free};
  return 0;
}

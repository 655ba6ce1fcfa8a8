#include "daemon/doctor/gpu.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>

#include "devices/base/counted.h"
#include "devices/base/cuda_architectures.h"
#include "devices/base/seconds_text.h"
#include "devices/base/text.h"
#include "ops/plugins.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

using std::chrono::steady_clock;

constexpr auto kEnd = std::chrono::seconds(1);  // for a process to be gone
constexpr int kLeastCuda = 13;        // that a driver must support for the plugin's runtime
constexpr int kLeastCapability = 75;  // of which CUDA 13 can make code
// A context and NVIDIA's libraries take some hundred MiB before a job has any.
constexpr uint64_t kLeastFree = uint64_t{1} << 30;
constexpr char kNccl[] = "NCCL";
constexpr char kNoGpu[] = "no NVIDIA GPU: jobs run on the processor";

// A library that was loaded and stays so: those of NVIDIA cannot be unloaded safely. Null if it was
// not, with the reason in `error`.
void* load(std::initializer_list<const char*> files, std::string& error,
           std::string* loaded = nullptr) {
  // The toolkit's own folder is often missing in the loader's list.
  for (const char* file : files) {
    for (const std::string& path : {std::string(file), cat("/usr/local/cuda/lib64/", file)}) {
      if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (loaded != nullptr) *loaded = file;
        return library;
      }
      // The first error is of the newest version.
      const char* why = ::dlerror();
      if (error.empty()) error = why != nullptr ? why : "unknown error";
    }
  }
  return nullptr;
}

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// CUDA writes 13.0 as 13000.
std::string cuda_version(int number) { return cat(number / 1000, ".", number % 1000 / 10); }
// Other libraries write 9.19.0 as 91900.
std::string library_version(int64_t number) {
  return cat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

using VersionInto = int(int*);

// The free bytes of the driver's GPU `i`, by NVML: the driver itself tells them only to a process
// that has a context on the GPU. Nothing if NVML does not answer.
std::optional<uint64_t> free_memory(void* driver, int i) {
  std::string error;
  void* nvml = load({"libnvidia-ml.so.1"}, error);
  if (nvml == nullptr) return std::nullopt;
  const auto bus_of = symbol<int(char*, int, int)>(driver, "cuDeviceGetPCIBusId");
  const auto init = symbol<int()>(nvml, "nvmlInit_v2");
  const auto find = symbol<int(const char*, void**)>(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
  struct Memory {
    unsigned long long total = 0, free = 0, used = 0;
  };
  const auto memory_of = symbol<int(void*, Memory*)>(nvml, "nvmlDeviceGetMemoryInfo");
  if (bus_of == nullptr || init == nullptr || find == nullptr || memory_of == nullptr)
    return std::nullopt;
  std::array<char, 64> bus{};
  void* device = nullptr;
  Memory memory;
  if (bus_of(bus.data(), static_cast<int>(bus.size()) - 1, i) != 0 || init() != 0 ||
      find(bus.data(), &device) != 0 || memory_of(device, &memory) != 0)
    return std::nullopt;
  return memory.free;
}

// The driver's functions return 0 for success. Their types are those of cuda.h, which this build
// does not need.
void read_driver(GpuFacts& facts) {
  void* driver = load({"libcuda.so.1"}, facts.driver_error);
  if (driver == nullptr) return;
  const auto init = symbol<int(unsigned)>(driver, "cuInit");
  const auto version = symbol<VersionInto>(driver, "cuDriverGetVersion");
  const auto count_of = symbol<VersionInto>(driver, "cuDeviceGetCount");
  const auto name_of = symbol<int(char*, int, int)>(driver, "cuDeviceGetName");
  const auto memory_of = symbol<int(size_t*, int)>(driver, "cuDeviceTotalMem_v2");
  const auto attribute_of = symbol<int(int*, int, int)>(driver, "cuDeviceGetAttribute");
  if (init == nullptr || version == nullptr || count_of == nullptr || name_of == nullptr ||
      memory_of == nullptr || attribute_of == nullptr) {
    facts.driver_error = "libcuda.so.1 lacks functions of the driver";
    return;
  }
  int number = 0;
  if (version(&number) == 0) facts.driver = cuda_version(number);
  int count = 0;
  if (const int error = init(0); error != 0) {
    // 100 is CUDA_ERROR_NO_DEVICE, which is no error of the driver.
    if (error != 100) facts.driver_error = cat("cuInit: error ", error);
    return;
  }
  if (count_of(&count) != 0) return;
  for (int i = 0; i < count; ++i) {
    constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
    GpuFacts::Gpu gpu;
    std::array<char, 256> name{};
    size_t memory = 0;
    if (name_of(name.data(), static_cast<int>(name.size()) - 1, i) == 0) gpu.model = name.data();
    if (memory_of(&memory, i) == 0) gpu.memory = memory;
    (void)attribute_of(&gpu.major, kMajor, i);
    (void)attribute_of(&gpu.minor, kMinor, i);
    gpu.free = free_memory(driver, i);
    facts.gpus.push_back(std::move(gpu));
  }
}

// A library whose function writes its version into an int.
GpuFacts::Library library(const char* name, std::initializer_list<const char*> files,
                          const char* function, std::string (*text)(int)) {
  GpuFacts::Library found{name, "", "", *files.begin()};
  void* handle = load(files, found.error, &found.received);
  if (handle == nullptr) return found;
  found.error.clear();
  int number = 0;
  const auto version = symbol<VersionInto>(handle, function);
  found.version = version != nullptr && version(&number) == 0 ? text(number) : "unknown";
  return found;
}

// A library whose function returns its version.
GpuFacts::Library library(const char* name, std::initializer_list<const char*> files,
                          const char* function) {
  GpuFacts::Library found{name, "", "", *files.begin()};
  void* handle = load(files, found.error, &found.received);
  if (handle == nullptr) return found;
  found.error.clear();
  const auto version = symbol<size_t()>(handle, function);
  found.version = version != nullptr ? library_version(static_cast<int64_t>(version())) : "unknown";
  return found;
}

GpuFacts::Library compiler() {
  GpuFacts::Library found{"NVRTC", "", ""};  // of any version: nothing loads it yet
  void* handle = load({"libnvrtc.so.13", "libnvrtc.so.12"}, found.error);
  if (handle == nullptr) return found;
  found.error.clear();
  int major = 0, minor = 0;
  const auto version = symbol<int(int*, int*)>(handle, "nvrtcVersion");
  found.version =
      version != nullptr && version(&major, &minor) == 0 ? cat(major, ".", minor) : "unknown";
  return found;
}

// The version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul ...".
std::string module_version() {
  std::ifstream in("/proc/driver/nvidia/version");
  for (std::string word; in >> word;) {
    if (word.find('.') != std::string::npos && word[0] >= '0' && word[0] <= '9') return word;
  }
  return {};
}

int device_files() {
  int count = 0;
  while (std::filesystem::exists(cat("/dev/nvidia", count))) ++count;
  return count;
}

Finding driver(const GpuFacts& facts) {
  Finding finding{"GPU driver", FindingVerdict::fine, "", ""};
  if (!facts.driver_error.empty()) {
    finding.verdict = FindingVerdict::note;
    finding.found = facts.driver_error;
    finding.advice =
        facts.module.empty()
            ? "there are GPUs, and NVIDIA's kernel module is not loaded: install the driver"
            : "the kernel module is loaded: install the driver's library of the same version; in a "
              "container, start it with NVIDIA's container toolkit";
    return finding;
  }
  finding.found = cat("CUDA up to ", facts.driver);
  // CUDA's runtime would answer cudaErrorInsufficientDriver.
  if (!facts.driver.empty() && std::atoi(facts.driver.c_str()) < kLeastCuda) {
    finding.verdict = FindingVerdict::note;
    finding.found = cat("expected a driver for CUDA ", kLeastCuda,
                        ".0 or newer, received one for CUDA up to ", facts.driver);
    finding.advice = "install NVIDIA's driver 580 or newer; until then jobs run on the processor";
  }
  if (!facts.module.empty()) finding.found += cat(", kernel module ", facts.module);
  return finding;
}

Finding gpu_finding(const GpuFacts& facts, size_t i) {
  const GpuFacts::Gpu& gpu = facts.gpus[i];
  const int capability = 10 * gpu.major + gpu.minor;
  Finding finding{cat("GPU ", i), FindingVerdict::fine,
                  cat(gpu.model, ", ", human_bytes(gpu.memory), ", compute capability ",
                      capability_text(capability)),
                  ""};
  if (!runs_on(facts.architectures, capability)) {
    finding.verdict = FindingVerdict::note;
    finding.found += cat(": expected an architecture that the plugin has code for (",
                         facts.architectures, "), received ", capability_text(capability));
    finding.advice =
        capability < kLeastCapability
            ? "CUDA 13 has no code for such GPUs: jobs run on the processor"
            : cat("'deploy/build-cuda ", capability, "-real' builds the plugin for it");
  } else if (gpu.free && *gpu.free < kLeastFree) {
    finding.verdict = FindingVerdict::note;
    finding.found += cat(": expected ", human_bytes(kLeastFree),
                         " of free memory at least, received ", human_bytes(*gpu.free));
    finding.advice = "'nvidia-smi' names the processes that use it";
  }
  return finding;
}

Finding library_finding(const GpuFacts::Library& library) {
  if (library.received == library.expected)
    return {library.name, FindingVerdict::fine, library.version, ""};
  return {library.name, FindingVerdict::note,
          cat("expected ", library.expected, ", received ", library.received, " (", library.version,
              ")"),
          "the plugin loads no other version: install the one of CUDA 13"};
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// Separate the fields of a finding and the findings in the message of the other process.
constexpr char kField = '\x1f', kFinding = '\x1e';

std::string print(const Findings& findings) {
  std::string text;
  for (const Finding& each : findings) {
    text += cat(static_cast<int>(each.verdict), kField, each.subject, kField, each.found, kField,
                each.advice, kFinding);
  }
  return text;
}

Findings read(std::string_view text) {
  Findings findings;
  while (!text.empty()) {
    const size_t end = std::min(text.find(kFinding), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::array<std::string, 4> fields;
    for (std::string& field : fields) {
      const size_t size = std::min(line.find(kField), line.size());
      field = line.substr(0, size);
      line.remove_prefix(std::min(size + 1, line.size()));
    }
    const auto verdict = static_cast<FindingVerdict>(std::atoi(fields[0].c_str()));
    findings.push_back({fields[1], verdict, fields[2], fields[3]});
  }
  return findings;
}

// Reads to the end of the pipe. Returns false if the deadline comes first.
bool read_to_end(int fd, std::string& text, steady_clock::time_point due) {
  std::array<char, 4096> piece;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(due - steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return false;
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got <= 0) return true;
    text.append(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace

GpuFacts read_gpus() {
  GpuFacts facts;
  facts.device_files = device_files();
  facts.module = module_version();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    facts.is_limited = true;
    facts.visible = visible;
  }
  read_driver(facts);
  const auto of_cuda = [](int number) { return cuda_version(number); };
  const auto of_nccl = [](int number) { return library_version(number); };
  facts.libraries = {
      library("CUDA runtime", {"libcudart.so.13", "libcudart.so.12"}, "cudaRuntimeGetVersion",
              of_cuda),
      library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "cublasLtGetVersion"),
      library("cuDNN", {"libcudnn.so.9"}, "cudnnGetVersion"), compiler(),
      library(kNccl, {"libnccl.so.2"}, "ncclGetVersion", of_nccl)};
  facts.network = read_networks("/", [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  });
  facts.network.interfaces = interfaces_with_address();
  (void)load({"libibverbs.so.1"}, facts.network.verbs_error);
  // It loads CUDA's runtime, and begins nothing on the GPU.
  if (facts.gpus.empty()) return facts;
  const auto plugin = load_device_plugin("cuda");
  facts.plugin_error = plugin.status().message();
  if (plugin.ok()) facts.architectures = (*plugin)->architectures;
  return facts;
}

Findings judge_gpus(const GpuFacts& facts) {
  Findings findings;
  const bool has_driver = facts.driver_error.empty();
  if (facts.device_files == 0 && facts.module.empty() && facts.gpus.empty()) {
    findings.push_back({"GPU", FindingVerdict::fine, kNoGpu, ""});
  } else {
    findings.push_back(driver(facts));
    for (size_t i = 0; i < facts.gpus.size(); ++i) findings.push_back(gpu_finding(facts, i));
    if (has_driver && facts.gpus.empty()) {
      findings.push_back({"GPU", FindingVerdict::note, "the driver shows none",
                          facts.is_limited ? cat("CUDA_VISIBLE_DEVICES is '", facts.visible, "'")
                                           : "see 'nvidia-smi'"});
    }
    if (!facts.gpus.empty()) {
      const bool has_plugin = facts.plugin_error.empty();
      findings.push_back(
          {"GPU plugin", has_plugin ? FindingVerdict::fine : FindingVerdict::note,
           has_plugin ? "libleat_cuda.so: 'leat train --gpu' computes on the GPU"
                      : facts.plugin_error,
           has_plugin ? "" : "jobs run on the processor; 'deploy/build-cuda' makes it"});
    }
  }
  bool has_nccl = false;
  for (const GpuFacts::Library& each : facts.libraries) {
    if (each.error.empty()) {
      findings.push_back(library_finding(each));
    } else if (!facts.gpus.empty()) {
      findings.push_back(
          {each.name, FindingVerdict::note, each.error, "install it to use the GPUs"});
    }
    has_nccl = has_nccl || (each.name == kNccl && each.error.empty());
  }
  if (has_nccl || !facts.gpus.empty()) findings.push_back(judge_networks(facts.network));
  return findings;
}

Findings examine_gpus(std::chrono::milliseconds deadline) {
  return examine_apart([] { return judge_gpus(read_gpus()); }, deadline);
}

Findings examine_apart(Findings (*find)(), std::chrono::milliseconds deadline) {
  const auto failed = [](std::string how, const char* advice) {
    return Findings{{"GPU driver", FindingVerdict::note, std::move(how), advice}};
  };
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("asking it: no pipe could be made", "");
  Descriptor from(ends[0]), to(ends[1]);
  const auto due = steady_clock::now() + deadline;
  const pid_t child = ::fork();
  if (child == 0) {
    write_all(to.get(), print(find()));
    ::_exit(0);
  }
  if (child < 0) return failed("asking it: no process could be started", "");
  to = Descriptor();
  std::string text;
  const bool ended = read_to_end(from.get(), text, due);
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  // A process that hangs inside of the driver does not even end when it is killed: it is left
  // alone.
  const auto gone = steady_clock::now() + kEnd;
  while (::waitpid(child, &status, WNOHANG) == 0 && steady_clock::now() < gone)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (!ended) {
    return failed(cat("it did not answer within ", seconds_text(deadline)),
                  "see whether 'nvidia-smi' answers; a restart of the machine may help");
  }
  if (WIFSIGNALED(status)) {
    return failed(cat("asking it ended by signal ", WTERMSIG(status)),
                  "the driver or a library of CUDA is damaged: install them again");
  }
  return read(text);
}

}  // namespace leat

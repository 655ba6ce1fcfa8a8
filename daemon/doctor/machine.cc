#include "daemon/doctor/machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

constexpr uint64_t kFilesOfWorker = 4096;  // the limit that daemons ask for by default
constexpr uint64_t kLittleMemory = uint64_t{1} << 30;
constexpr uint64_t kLittleDisk = uint64_t{1} << 30;
// The sets that kernels have code for, as Linux calls them.
constexpr const char* kInstructionSets[] = {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"};

Status system_error(const char* what) { return unavailable(cat(what, ": ", std::strerror(errno))); }

// The words behind "<key>:" in a file of /proc; empty if it has no such line.
std::string line_of(const char* path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string_view name(line.data(), colon);
    while (!name.empty() && (name.back() == ' ' || name.back() == '\t')) name.remove_suffix(1);
    if (name == key) return line.substr(colon + 1);
  }
  return {};
}

std::set<std::string> instruction_sets() {
  std::istringstream flags(line_of("/proc/cpuinfo", "flags"));
  std::set<std::string> found;
  for (std::string flag; flags >> flag;) {
    if (std::find(std::begin(kInstructionSets), std::end(kInstructionSets), flag) !=
        std::end(kInstructionSets))
      found.insert(flag);
  }
  return found;
}

// Of a line such as "MemTotal:  24684388 kB", in bytes; 0 if there is none.
uint64_t memory_of(std::string_view key) {
  return std::strtoull(line_of("/proc/meminfo", key).c_str(), nullptr, 10) << 10;
}

// The limit of this process's cgroup, in bytes, and what is used of it; nothing if it has none.
std::optional<std::pair<uint64_t, uint64_t>> cgroup_memory() {
  uint64_t limit = 0, used = 0;
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> limit)) return {};  // "max": no limit
  if (!(std::ifstream("/sys/fs/cgroup/memory.current") >> used)) return {};
  return std::pair(limit, used);
}

Status try_shared_memory() {
  const Descriptor file(::memfd_create("leat-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) return system_error("making a memory file");
  if (::ftruncate(file.get(), 4096) != 0) return system_error("sizing a memory file");
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return system_error("sealing a memory file");
  return {};
}

Status try_loopback() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return system_error("making a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error("binding a socket");
  if (::listen(socket.get(), 1) != 0) return system_error("listening");
  return {};
}

// Makes a folder and removes it: permissions alone do not tell of a file system without writing.
Status try_folder(const std::string& folder) {
  std::string name = folder + "/leat-doctor-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return system_error("making a folder");
  if (::rmdir(name.c_str()) != 0) return system_error("removing a folder");
  return {};
}

Finding processor(const MachineFacts& facts) {
  const auto has = [&](const char* set) { return facts.instructions.contains(set); };
  const char* width = has("avx512f") ? "AVX-512" : has("avx2") && has("fma") ? "AVX2" : "";
  const char* bf16 = has("amx_bf16") ? "AMX" : has("avx512_bf16") ? "AVX-512 BF16" : "";
  Finding finding{"processor", FindingVerdict::fine,
                  cat(facts.cpu, ", ", facts.cores, facts.cores == 1 ? " core" : " cores")};
  if (*width != 0) finding.found += cat(", ", width);
  if (*bf16 != 0) finding.found += cat(", ", bf16);
  if (*width == 0) {
    finding.verdict = FindingVerdict::note;
    finding.advice =
        "without AVX2 products and convolutions take several times as long; a virtual machine may "
        "hide the processor's own sets: give it the host's model";
  } else if (*bf16 == 0) {
    finding.advice =
        "'precision: bfloat16' gains no speed here: the processor has no instructions for it";
  }
  return finding;
}

Finding memory(const MachineFacts& facts) {
  Finding finding{"memory", FindingVerdict::fine,
                  cat(human_bytes(facts.free_memory), " free of ", human_bytes(facts.memory))};
  if (facts.free_memory < kLittleMemory) {
    finding.verdict = FindingVerdict::note;
    finding.advice = "jobs may not fit: 'leat plan JOB' tells what one needs";
  }
  return finding;
}

Finding open_files(const MachineFacts& facts) {
  Finding finding{"open files", FindingVerdict::fine, cat("up to ", facts.open_files)};
  if (facts.open_files < kFilesOfWorker) {
    finding.verdict = FindingVerdict::note;
    finding.advice = cat("daemons ask for ", kFilesOfWorker,
                         ": raise the limit of the user ('ulimit -Hn'), or of the unit "
                         "(LimitNOFILE)");
  }
  return finding;
}

Finding folder(const MachineFacts& facts) {
  Finding finding{"folder", FindingVerdict::fine,
                  cat("'", facts.folder, "', ", human_bytes(facts.free_disk), " free")};
  if (!facts.folder_is_writable.ok()) {
    finding.verdict = FindingVerdict::problem;
    finding.found = cat("'", facts.folder, "': ", facts.folder_is_writable.message());
    finding.advice = "'leat train' leaves its runs here: go to another folder, or use --output";
  } else if (facts.free_disk < kLittleDisk) {
    finding.verdict = FindingVerdict::note;
    finding.advice = "checkpoints may not fit";
  }
  return finding;
}

}  // namespace

MachineFacts read_machine() {
  MachineFacts facts;
  facts.cpu = cpu::cpu_model();
  facts.cores = cpu::usable_cores();
  facts.instructions = instruction_sets();
  facts.memory = cpu::CpuDevice(0, 1).memory_bytes();
  facts.free_memory = memory_of("MemAvailable");
  if (const auto cgroup = cgroup_memory()) {
    const auto [limit, used] = *cgroup;
    facts.memory = std::min(facts.memory, limit);
    facts.free_memory = std::min(facts.free_memory, limit - std::min(limit, used));
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) facts.open_files = files.rlim_max;
  facts.shared_memory = try_shared_memory();
  facts.loopback = try_loopback();
  std::error_code error;
  facts.folder = std::filesystem::current_path(error).string();
  facts.folder_is_writable = error ? unavailable(error.message()) : try_folder(facts.folder);
  struct statvfs disk {};
  if (::statvfs(facts.folder.c_str(), &disk) == 0)
    facts.free_disk = uint64_t{disk.f_bavail} * disk.f_frsize;
  return facts;
}

Findings judge_machine(const MachineFacts& facts) {
  Findings findings = {processor(facts), memory(facts), open_files(facts)};
  Finding shared{"shared memory", FindingVerdict::fine, "memory files can be shared and sealed"};
  if (!facts.shared_memory.ok()) {
    shared = {"shared memory", FindingVerdict::note, facts.shared_memory.message(),
              "workers of this machine send their values over TCP instead, which is slower"};
  }
  findings.push_back(std::move(shared));
  Finding loopback{"loopback", FindingVerdict::fine, "127.0.0.1 accepts connections"};
  if (!facts.loopback.ok()) {
    loopback = {"loopback", FindingVerdict::problem, facts.loopback.message(),
                "daemons of one machine reach each other over it: 'ip link set lo up'"};
  }
  findings.push_back(std::move(loopback));
  findings.push_back(folder(facts));
  return findings;
}

}  // namespace leat

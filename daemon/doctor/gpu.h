// NVIDIA's driver, GPUs and libraries on this machine, and what they mean for jobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/doctor/finding.h"
#include "daemon/doctor/network.h"

namespace leat {

struct GpuFacts {
  struct Gpu {
    std::string model;
    int major = 0, minor = 0;           // the compute capability
    uint64_t memory = 0;                // bytes
    std::optional<uint64_t> free = {};  // of these, if the driver's library NVML tells it
  };
  struct Library {
    std::string name;           // "cuDNN"
    std::string version;        // "9.19.0"; empty: it was not loaded
    std::string error;          // why it was not loaded; empty if it was
    std::string expected = {};  // the file that the plugin loads: "libcudnn.so.9"
    std::string received = {};  // the file that was loaded
  };
  int device_files = 0;      // /dev/nvidia0 and so on
  std::string module;        // the version of NVIDIA's kernel module; empty: none is loaded
  std::string driver;        // the version of CUDA that libcuda.so.1 supports: "13.0"
  std::string driver_error;  // why the driver was not loaded or did not begin; empty if it did
  std::vector<Gpu> gpus;     // that the driver shows
  bool is_limited = false;   // CUDA_VISIBLE_DEVICES is set
  std::string visible;       // its value
  std::vector<Library> libraries;
  NetworkFacts network;       // to GPUs of other machines
  std::string plugin_error;   // why libleat_cuda.so was not loaded; empty if it was
  std::string architectures;  // that the plugin has code for, as runs_on() reads them
};

// Asks the driver and the libraries. They may hang or crash on a machine whose driver is broken:
// examine_gpus() calls this in a process of its own.
GpuFacts read_gpus();

// Judges the facts. A pure function. Jobs run on processors too, so what GPUs lack is no problem.
Findings judge_gpus(const GpuFacts& facts);

// Reads and judges, and waits no longer than `deadline`. If the process that reads crashes or
// hangs, the only finding says so. REQUIRES: this process has one thread.
Findings examine_gpus(std::chrono::milliseconds deadline);

// The part of examine_gpus() that does not depend on GPUs: calls `read` in a process of its own and
// returns its findings.
Findings examine_apart(Findings (*read)(), std::chrono::milliseconds deadline);

}  // namespace leat

// The facts of this machine that jobs depend on, and what they mean for jobs.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "daemon/doctor/finding.h"
#include "devices/base/status.h"

namespace leat {

// Facts that could not be read are 0 or empty, and no error; those that were tried have the error.
struct MachineFacts {
  std::string cpu;                     // the model
  int cores = 0;                       // that this process may use
  std::set<std::string> instructions;  // of the sets that kernels use: "avx2", "avx512_bf16"
  uint64_t memory = 0;                 // bytes that this process may use; 0: unknown
  uint64_t free_memory = 0;            // bytes of them that are free now
  uint64_t open_files = 0;             // the hard limit of this process
  Status shared_memory;                // whether sealed memory files can be made
  Status loopback;                     // whether a socket can listen on 127.0.0.1
  std::string folder;                  // the working folder
  Status folder_is_writable;
  uint64_t free_disk = 0;  // bytes, in that folder
};

// Looks at this machine, and changes nothing that lasts: it makes a memory file, a socket on a free
// port and a folder in the working folder, and removes them.
MachineFacts read_machine();

// Judges the facts, with advice where something is missing. A pure function.
Findings judge_machine(const MachineFacts& facts);

}  // namespace leat

// The confinement of a runner: what keeps the process of one job from the files, sockets and
// processes of other jobs, of the daemons and of the machine's users, even if a fault in a kernel
// lets a job run code of its own.
//
// A worker decides what its runners get (runner_confinement.h), makes their
// namespaces when it starts them, and tells them the rest in their boot message. A runner then
// confines itself by confine_process(), with the rights of its worker, before it reads a byte of a
// graph, of data or of a peer. From then on it has no way back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// The layers, in the order in which people see them.
enum class ConfineLayer : uint8_t {
  user,       // a user of its own, which no other living process has
  calls,      // a list of the system calls that it may make (seccomp)
  limits,     // resource limits
  files,      // the files that it may open (Landlock)
  root,       // a root folder with nothing in it but those files (mount namespace)
  processes,  // it sees no other process (pid namespace)
  ipc,        // System V IPC and message queues of its own (ipc namespace)
  network,    // a network of its own (network namespace)
  cgroup,     // a cgroup with the job's memory and threads
};
inline constexpr size_t kConfineLayers = 9;

// "own user", "system calls", ...
std::string_view name_of(ConfineLayer layer);
// True for those without which `runner.confine: required` lets no runner start.
bool is_mandatory(ConfineLayer layer);

// Whether a layer is there.
struct LayerState {
  ConfineLayer layer = ConfineLayer::user;
  bool active = false;
  // If active, its measure: "70003", "ABI 7"; else the reason. May be empty if active.
  std::string how;
};

// One line: "confined by own user (70003), system calls, ...; without network (...)".
std::string layers_text(const std::vector<LayerState>& layers);

// The decisions of a worker for one runner. A value, which the boot message carries.
struct Confinement {
  bool is_on = false;     // false: `insecure_off`
  bool required = false;  // the mandatory layers have to be there, or the runner ends
  // The user and group of its own; 0: none, for the reason `no_user`.
  uint32_t user = 0;
  std::string no_user;
  // The process was started in mount, pid and ipc namespaces of its own; else `no_namespaces` is
  // the reason.
  bool has_namespaces = false;
  std::string no_namespaces;
  // It may read every file that the worker's user may read (`local_paths`).
  bool reads_all = false;
  // Folders and files that it may read, besides those of the system and of its program.
  std::vector<std::string> data;
  // Files that stay hidden when it reads all: the cluster's secret.
  std::vector<std::string> hidden;
  std::string directory;  // its own, where it makes its socket
  std::string rooms;      // the parent of the directories of all runners of the machine
  bool opens_gpus = false;
  bool core_dumps = false;
  uint64_t most_threads = 0;     // that may live at once
  uint64_t most_file_bytes = 0;  // of a file, memory files included; 0: no limit
};

// Confines this process for good. Returns the state of every layer, those that could not be had
// included. failed_precondition if a mandatory layer is missing and `required` is set; an error
// also leaves the process half confined, so that it has to end. A confinement that is off changes
// nothing.
// REQUIRES: this process has one thread.
Result<std::vector<LayerState>> confine_process(const Confinement& confinement);

// Takes from all threads of a confined process the calls that only its start needs: from here on it
// binds and listens to no socket. A confinement that is off changes nothing. An error if the kernel
// refuses. Threads: any.
Status end_of_listening(const Confinement& confinement);

}  // namespace leat

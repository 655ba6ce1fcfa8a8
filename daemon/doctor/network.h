// The networks that NCCL, NVIDIA's library of exchanges between GPUs, would use to other machines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/doctor/finding.h"

namespace leat {

struct NetworkFacts {
  // A port of a device for RDMA, as the kernel describes it.
  struct RdmaPort {
    std::string device;      // "mlx5_0"
    int port = 0;            // counted from 1
    std::string state;       // "ACTIVE"
    std::string link_layer;  // "InfiniBand"; "Ethernet" for RoCE
    std::string rate;        // "400 Gb/sec (4X NDR)"
  };
  // An interface of the kernel's network, with TCP.
  struct Interface {
    std::string name;
    bool is_up = false;
  };
  std::vector<RdmaPort> ports;        // by device and port
  std::vector<Interface> interfaces;  // by name
  // NCCL's variables of the environment; empty: not set.
  std::string ib_disable, ib_hca, socket_ifname;
};

// Reads the facts from a sysfs, "/sys" on a machine. A file that is missing leaves its fact empty.
// `environment` returns the value of a variable, or "".
NetworkFacts read_networks(const std::string& sysfs,
                           const std::function<std::string(const char*)>& environment);

// Tells which of them NCCL would use, by the rules of its documentation. A pure function.
Finding judge_networks(const NetworkFacts& facts);

}  // namespace leat

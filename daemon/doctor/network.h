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
  std::vector<RdmaPort> ports;  // by device and port
  // The devices in /dev/infiniband that this process may open: "uverbs0".
  std::vector<std::string> verbs_devices;
  // Why libibverbs, by which NCCL reaches these devices, was not loaded; empty if it was.
  std::string verbs_error;
  // The interfaces that are up and have an address of IPv4 or IPv6, other than ::1.
  std::vector<std::string> interfaces;
  // NCCL's variables of the environment; empty: not set.
  std::string net, ib_disable, ib_hca, socket_ifname;
};

// Reads the ports, the devices and the variables. `root` is the folder that has sys and dev, "/" on
// a machine; a file that is missing leaves its fact empty. `environment` returns the value of a
// variable, or "".
NetworkFacts read_networks(const std::string& root,
                           const std::function<std::string(const char*)>& environment);

// This machine's NetworkFacts::interfaces, by the order of the kernel.
std::vector<std::string> interfaces_with_address();

// Tells which of them NCCL would use, by the rules of its documentation. A pure function.
Finding judge_networks(const NetworkFacts& facts);

}  // namespace leat

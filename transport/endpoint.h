// The place where a partition of a run receives. Its peers open a channel to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/core/device_wire.h"

namespace leat {

class SlotTable;

// Either `slots` is set, for a partition of this process, or the rest is, for a partition of a
// runner: the fields of wire::Peer in daemon/wire/cluster.capnp.
struct Endpoint {
  // The table of a partition in this process. It outlives the channels to it.
  SlotTable* slots = nullptr;

  // The number of the partition's host in its job.
  uint32_t task = 0;
  // The machine's name, for messages.
  std::string node;
  // A random number of the runner's life, so that a restarted runner is another one.
  uint64_t incarnation = 0;
  // "10.0.0.2:17463": the address of the worker, which hands the connection on to its runner.
  std::string data_address;
  // Two runners with equal values can share memory.
  std::string machine;
  // The socket at which peers of the same machine reach the runner.
  std::string unix_address;
  // The kinds of wires that the partition's device has and its worker allows.
  std::vector<WireKind> wires;
};

}  // namespace leat

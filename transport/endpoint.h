// Where a partition of a run receives: what its peers need to open a channel to it.
#pragma once

#include <cstdint>
#include <string>

namespace leat {

class SlotTable;

struct Endpoint {
  SlotTable* slots = nullptr;  // of a partition in this process; it outlives the channels to it

  // Of one in a runner's process: wire::Peer of daemon/wire/cluster.capnp.
  uint32_t task = 0;
  std::string node;          // for messages
  uint64_t incarnation = 0;  // of the runner
  std::string data_address;  // of its worker, who hands the connection on: "10.0.0.2:17463"
  std::string machine;       // equal ones can share memory
  std::string unix_address;  // where peers of its machine reach it
};

}  // namespace leat

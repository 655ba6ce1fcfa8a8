// Where a partition of a run receives: what its peers need to open a channel to it.
#pragma once

namespace leat {

class SlotTable;

struct Endpoint {
  SlotTable* slots = nullptr;  // of a partition in this process; it outlives the channels to it
};

}  // namespace leat

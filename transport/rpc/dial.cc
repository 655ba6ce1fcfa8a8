#include "transport/rpc/dial.h"

namespace leat {

kj::Promise<kj::Own<kj::AsyncIoStream>> dial(kj::NetworkAddress& address, kj::Timer& timer) {
  // Each attempt runs beside the earlier ones, which may still succeed. The first that ends decides
  // for all, and exclusiveJoin() cancels the others.
  return address.connect().exclusiveJoin(
      timer.afterDelay(kDialAgain).then([&address, &timer] { return dial(address, timer); }));
}

}  // namespace leat

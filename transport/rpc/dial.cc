#include "transport/rpc/dial.h"

namespace leat {

kj::Promise<kj::Own<kj::AsyncIoStream>> dial(kj::NetworkAddress& address, kj::Timer& timer) {
  return address.connect().exclusiveJoin(
      timer.afterDelay(kDialAgain).then([&address, &timer] { return dial(address, timer); }));
}

}  // namespace leat

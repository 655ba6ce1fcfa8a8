// The address at which other workers dial a worker.
#pragma once

#include <string>

#include "devices/base/status.h"

namespace leat {

// Returns the address for other workers, as "10.0.0.2:17463" or "[fd00::2]:17463". `configured` is
// data_address, a host or host:port; if it is empty, the result is `bound`, the address that the
// data port is bound to. The port of `bound` is used if `configured` has none. A name is resolved
// at once, because peers dial numeric addresses: `unavailable` if this machine does not know the
// name, failed_precondition if the name has only loopback addresses here and the data port is not
// on loopback. REQUIRES: the config was checked. May block on a name server.
Result<std::string> advertised_address(const std::string& configured, const std::string& bound);

}  // namespace leat

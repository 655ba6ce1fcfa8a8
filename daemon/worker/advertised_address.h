// The address at which other workers dial a worker.
#pragma once

#include <string>

#include "devices/base/status.h"

namespace leat {

// The address for the others, as "10.0.0.2:17463" or "[fd00::2]:17463". `configured`: data_address,
// a host or host:port, or empty for `bound`, the address that the data port has; its port is taken
// if `configured` has none. A name is looked up here and now, since peers dial numbers: unavailable
// if it is unknown here, failed_precondition if it is this machine's loopback alone while the data
// port is not. REQUIRES: the config was checked. It may wait for a name server.
Result<std::string> advertised_address(const std::string& configured, const std::string& bound);

}  // namespace leat

// Facts about the machine that a worker runs on.
#pragma once

#include <string>

namespace leat {

// Returns the kernel's boot id, with the namespaces of this process for network and files.
// Processes with the same id can share memory and reach each other's unix sockets.
std::string machine_id();

// Returns the name of the machine without its domain: "host".
std::string host_name();

}  // namespace leat

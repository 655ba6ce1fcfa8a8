// What a worker tells of the machine that it runs on.
#pragma once

#include <string>

namespace leat {

// Processes with equal ones can share memory and reach each other's unix sockets: the kernel's boot
// id, and the namespaces in which this process sees the network and the files.
std::string machine_id();

// "host", without its domain.
std::string host_name();

}  // namespace leat

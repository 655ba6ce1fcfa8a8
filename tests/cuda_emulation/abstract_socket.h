// Sockets by which the fakes of several processes of one machine meet. Their names are in no folder
// and end with the process.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cuda {

// A number that no other process or object of this machine has.
uint64_t unique_number();
// Descriptors of sockets with the name, which wait for connections or are connected; -1 with errno.
int listen_at(const std::string& name);
int connect_to(const std::string& name);

}  // namespace fake_cuda

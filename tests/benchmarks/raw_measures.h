// What the machine does without Leat: bare sockets and memcpy, in the shapes of the steps that are
// measured. Two threads each; times of one round trip or transfer, in seconds.
#pragma once

#include <cstddef>
#include <vector>

namespace leat::raw {

enum class Waiting { blocking, spinning };
enum class Cores { any, two };  // where the kernel likes; or each thread on one of its own

// 8 bytes there and back over a TCP connection on loopback: half of that is a hop.
std::vector<double> round_trips(Waiting waiting, Cores cores, double seconds);
// So many bytes over one, one after the other; a byte back says that they have come.
std::vector<double> tcp_transfers(size_t bytes, double seconds);
// From one place in memory to another.
std::vector<double> copies(size_t bytes, double seconds);

}  // namespace leat::raw

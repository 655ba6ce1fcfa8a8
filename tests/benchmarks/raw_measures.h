// Measures the machine without Leat: bare sockets and memcpy, in the shapes of the measured steps.
// Each measure uses two threads and returns seconds for one round trip or transfer.
#pragma once

#include <cstddef>
#include <vector>

namespace leat::raw {

enum class Waiting { blocking, spinning };
enum class Cores { any, two };  // any: the kernel chooses; two: one core for each thread

// Sends 8 bytes there and back over a TCP connection on loopback. A hop takes half of that time.
std::vector<double> round_trips(Waiting waiting, Cores cores, double seconds);
// Sends blocks of `bytes` bytes over a connection, one after the other. One byte back confirms
// each.
std::vector<double> tcp_transfers(size_t bytes, double seconds);
// Copies `bytes` bytes in memory.
std::vector<double> copies(size_t bytes, double seconds);

}  // namespace leat::raw

#include "devices/cuda/plain_ways.h"

#include <cstdlib>

namespace leat::cuda {

bool goes_plain_way(std::string_view word) {
  const char* text = std::getenv("LEAT_GPU_PLAIN");
  for (std::string_view rest = text ? text : ""; !rest.empty();) {
    const size_t end = rest.find(',');
    if (rest.substr(0, end) == word) return true;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return false;
}

}  // namespace leat::cuda

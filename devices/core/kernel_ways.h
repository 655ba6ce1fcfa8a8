// The ways in which the kernels of a device compute, counted.
//
// An op may have several kernels on one device: by a library, and by code of Leat's own where the
// library is missing or refuses the operands. The counts show a library that refuses silently.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace leat {

// Threads: any.
class KernelWays {
 public:
  // The way of code that is no library's.
  static constexpr std::string_view kOwn = "Leat";

  // Counts one more of `subject`, a plural ("products"), by `way` ("cuBLASLt").
  void add(std::string_view subject, std::string_view way);
  // Adds all that another one has counted.
  void add(const KernelWays& other);
  // How many were counted so.
  uint64_t count(std::string_view subject, std::string_view way) const;
  // "convolutions: 4 by Leat; products: 2 by Leat, 14 by cuBLASLt"; "" if nothing was counted.
  std::string text() const;
  // The text, if it is another than this function returned last; "" otherwise.
  std::string new_text();

 private:
  using Counts = std::map<std::pair<std::string, std::string>, uint64_t>;  // by subject and way
  Counts copy() const;

  mutable std::mutex mutex_;
  Counts counts_;
  std::string told_;  // by new_text()
};

}  // namespace leat

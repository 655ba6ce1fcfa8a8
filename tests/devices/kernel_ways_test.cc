#include "devices/core/kernel_ways.h"

#include "tests/catch.h"

namespace leat {

TEST_CASE("the ways of kernels are counted by subject and way, and added up over devices") {
  KernelWays ways, others;
  CHECK(ways.text().empty());
  for (int i = 0; i < 3; ++i) ways.add("products", "cuBLASLt");
  ways.add("products", KernelWays::kOwn);
  others.add("products", KernelWays::kOwn);
  others.add("convolutions", "cuDNN");
  CHECK(ways.text() == "products: 1 by Leat, 3 by cuBLASLt");
  ways.add(others);
  CHECK(ways.text() == "convolutions: 1 by cuDNN; products: 2 by Leat, 3 by cuBLASLt");
  CHECK(ways.count("products", "Leat") == 2);
  CHECK(ways.count("products", "cuDNN") == 0);
  CHECK(others.text() == "convolutions: 1 by cuDNN; products: 1 by Leat");
}

TEST_CASE("the counts of ways are told again when they have changed") {
  KernelWays ways;
  CHECK(ways.new_text().empty());
  ways.add("products", "cuBLASLt");
  CHECK(ways.new_text() == "products: 1 by cuBLASLt");
  CHECK(ways.new_text().empty());
  ways.add("rows of kernels", "graphs");
  CHECK(ways.new_text() == "products: 1 by cuBLASLt; rows of kernels: 1 by graphs");
  CHECK(ways.new_text().empty());
}

}  // namespace leat

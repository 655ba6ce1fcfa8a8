// Which GPUs code for an architecture runs on.
#include "devices/base/cuda_architectures.h"

#include "tests/catch.h"

namespace leat {

TEST_CASE("code for one architecture runs on newer GPUs of its major number alone") {
  CHECK(runs_on("86-real", 86));
  CHECK(runs_on("86-real", 89));
  CHECK_FALSE(runs_on("86-real", 80));
  CHECK_FALSE(runs_on("86-real", 90));
  CHECK(runs_on("120-real", 121));
  CHECK_FALSE(runs_on("100-real", 120));
}

TEST_CASE("code that the driver compiles runs on all newer GPUs") {
  CHECK(runs_on("90-virtual", 90));
  CHECK(runs_on("90-virtual", 120));
  CHECK(runs_on("90", 103));
  CHECK_FALSE(runs_on("90-virtual", 89));
}

TEST_CASE("code with the features of one model runs on that alone") {
  CHECK(runs_on("90a-real", 90));
  CHECK_FALSE(runs_on("90a-real", 91));
  CHECK_FALSE(runs_on("90a", 100));
}

TEST_CASE("one architecture of several is enough, and no list names no restriction") {
  const char* const shipped =
      "75-real,80-real,86-real,89-real,90-real,100-real,120-real,90-virtual";
  for (const int capability : {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121}) {
    INFO(capability_text(capability));
    CHECK(runs_on(shipped, capability));
  }
  for (const int capability : {52, 61, 70, 72}) CHECK_FALSE(runs_on(shipped, capability));
  CHECK(runs_on("", 35));
  CHECK(capability_text(121) == "12.1");
}

}  // namespace leat

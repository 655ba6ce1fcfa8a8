#include "daemon/worker/advertised_address.h"

#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

TEST_CASE("a worker tells others the address of its data port, or the one that its config has") {
  CHECK(must(advertised_address("", "127.0.0.1:4711")) == "127.0.0.1:4711");
  CHECK(must(advertised_address("10.0.0.2", "0.0.0.0:4711")) == "10.0.0.2:4711");
  CHECK(must(advertised_address("10.0.0.2:99", "0.0.0.0:4711")) == "10.0.0.2:99");
  CHECK(must(advertised_address("[fd00::2]:99", "[::]:4711")) == "[fd00::2]:99");
}

TEST_CASE("a worker whose data_address is a name tells others the number of it") {
  const std::string address = must(advertised_address("localhost", "127.0.0.1:4711"));
  CHECK((address == "127.0.0.1:4711" || address == "[::1]:4711"));
  CHECK(must(advertised_address("localhost:99", "127.0.0.1:4711")).ends_with(":99"));
}

TEST_CASE("a name that is loopback is refused where the data port is for others") {
  const auto address = advertised_address("localhost", "0.0.0.0:4711");
  REQUIRE(!address.ok());
  CHECK(address.status().code() == Code::failed_precondition);
  CHECK(address.status().message().find("data_address") != std::string::npos);
  CHECK(address.status().message().find("'localhost'") != std::string::npos);
}

}  // namespace
}  // namespace leat

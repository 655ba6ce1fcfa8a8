#include "transport/seal/peer_name.h"

#include "tests/catch.h"

namespace leat {
namespace {

TEST_CASE("the name of a peer is written as a SPIFFE ID and read again") {
  const PeerName name{"leat", "worker", "worker-2.rack_1"};
  CHECK(uri_of(name) == "spiffe://leat/worker/worker-2.rack_1");
  const auto read = read_peer_name(uri_of(name));
  REQUIRE(read.ok());
  CHECK(*read == name);
}

TEST_CASE("a text that is no name of a peer is refused, whatever it is") {
  for (const std::string_view text :
       {"", "spiffe://", "spiffe://leat", "spiffe://leat/worker", "spiffe://leat/worker/",
        "spiffe:///worker/w", "spiffe://leat//w", "spiffe://leat/worker/w/x",
        "spiffe://LEAT/worker/w", "https://leat/worker/w", "SPIFFE://leat/worker/w",
        "spiffe://leat/Worker/w", "spiffe://leat/worker/..", "spiffe://leat/worker/-w", "spiffe://leat/worker/_w", "spiffe://leat/worker/a b",
        "spiffe://leat/worker/w?x", "spiffe://leat:80/worker/w", "spiffe://u@leat/worker/w"}) {
    CAPTURE(text);
    const auto read = read_peer_name(text);
    REQUIRE(!read.ok());
    CHECK(read.status().code() == Code::invalid_argument);
    CHECK(read.status().message().find("spiffe://CLUSTER/ROLE/NAME") != std::string::npos);
  }
  CHECK(!read_peer_name("spiffe://leat/worker/" + std::string(65, 'w')).ok());
  CHECK(read_peer_name("spiffe://leat/worker/" + std::string(64, 'w')).ok());
  using namespace std::string_literals;
  CHECK(!read_peer_name("spiffe://leat/worker/w\0x"s).ok());
}

}  // namespace
}  // namespace leat

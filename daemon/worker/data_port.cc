#include "daemon/worker/data_port.h"

namespace leat {

Result<std::unique_ptr<DataPort>> DataPort::open(Reactor& reactor, const std::string& address,
                                                 Seal seal, Runners& runners, Logger log) {
  std::unique_ptr<DataPort> port(new DataPort(runners, std::move(log)));
  Listener::Options options;
  options.seal = seal;
  LEAT_ASSIGN_OR_RETURN(port->listener_, Listener::open(reactor, address, *port, options));
  return port;
}

DataPort::~DataPort() = default;

std::optional<Listener::Expected> DataPort::expect(const LinkHello& hello) {
  // The dialer names the runner by its incarnation. One that has ended has no door.
  const auto door = runners_.door(hello.identity.destination_incarnation);
  if (!door) return std::nullopt;
  // The runner checks run, plan and partitions, because only it knows them.
  Identity expected = hello.identity;
  expected.cluster = door->cluster_id;
  expected.assembly = door->assembly;
  return Listener::Expected{expected, door->key};
}

void DataPort::accepted(Connection connection) {
  // On failure the connection is closed here, and its peer dials again or gives up.
  const Status given = runners_.give(std::move(connection));
  if (!given.ok()) log_.warning("a peer's connection was dropped: ", given.message());
}

void DataPort::refused(const Status& why) { log_.info("refused: ", why.message()); }

}  // namespace leat

#include "daemon/worker/runner_boot.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>

#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/wires.h"

namespace leat {
namespace {

template <typename Bytes>
capnp::Data::Reader data_of(const Bytes& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

void write_texts(const std::vector<std::string>& texts, capnp::List<capnp::Text>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, texts[i]);
}

void write_confinement(const Confinement& c, wire::RunnerConfinement::Builder out) {
  out.setIsOn(c.is_on);
  out.setRequired(c.required);
  out.setUser(c.user);
  out.setNoUser(c.no_user);
  out.setHasNamespaces(c.has_namespaces);
  out.setNoNamespaces(c.no_namespaces);
  out.setReadsAll(c.reads_all);
  write_texts(c.data, out.initData(static_cast<unsigned>(c.data.size())));
  write_texts(c.hidden, out.initHidden(static_cast<unsigned>(c.hidden.size())));
  out.setDirectory(c.directory);
  out.setRooms(c.rooms);
  out.setOpensGpus(c.opens_gpus);
  out.setCoreDumps(c.core_dumps);
  out.setMostThreads(c.most_threads);
  out.setMostFileBytes(c.most_file_bytes);
}

}  // namespace

uint64_t memory_limit_of(const RunnerOrder& order, const RunnerSurroundings& surroundings) {
  const uint64_t own = surroundings.memory_limit;
  return own == 0 || (order.memory > 0 && order.memory < own) ? order.memory : own;
}

std::vector<std::byte> runner_boot(const RunnerOrder& order, const RunnerSurroundings& surroundings,
                                   const std::string& directory, uint64_t incarnation,
                                   const Confinement& confinement) {
  capnp::MallocMessageBuilder message;
  auto boot = message.initRoot<wire::RunnerBoot>();
  auto spec = boot.initSpec();
  spec.setJob(order.job);
  spec.setAssembly(order.assembly);
  spec.setTask(order.task);
  // The order of the master may have a number of threads; otherwise this worker's configuration
  // holds.
  spec.setThreads(order.threads > 0 ? order.threads : surroundings.threads);
  spec.setGpus(order.gpus);
  spec.setToken(data_of(order.token));
  spec.setKey(data_of(order.key));
  boot.setWorker(surroundings.node);
  boot.setMasterAddress(surroundings.master);
  boot.setCluster(surroundings.cluster);
  // The secret travels over the socket and not in arguments or the environment, which others can
  // read.
  boot.setSecret(data_of(order.credential));
  boot.setSeal(static_cast<uint8_t>(surroundings.seal));
  boot.setDirectory(directory);
  boot.setMemoryLimit(memory_limit_of(order, surroundings));
  boot.setLogLevel(surroundings.log_level);
  boot.setIncarnation(incarnation);
  boot.setRejoinMs(static_cast<uint32_t>(surroundings.rejoin_within.count()));
  write_confinement(confinement, boot.initConfinement());
  auto datasets = boot.initDatasets(static_cast<unsigned>(surroundings.datasets.size()));
  unsigned i = 0;
  for (const auto& [name, path] : surroundings.datasets) {
    datasets[i].setName(name);
    datasets[i++].setPath(path);
  }
  auto transports = boot.initTransports(static_cast<unsigned>(surroundings.transports.size()));
  for (unsigned t = 0; t < transports.size(); ++t) transports.set(t, surroundings.transports[t]);
  write_wires(surroundings.gpu_wires,
              boot.initGpuWires(static_cast<unsigned>(surroundings.gpu_wires.size())));

  // The length comes first, in little-endian order, since the socket has no ends of messages.
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  std::vector<std::byte> out(8 + bytes.size());
  for (size_t b = 0; b < 8; ++b)
    out[b] = static_cast<std::byte>(uint64_t{bytes.size()} >> (8 * b) & 0xff);
  std::memcpy(out.data() + 8, bytes.begin(), bytes.size());
  return out;
}

}  // namespace leat

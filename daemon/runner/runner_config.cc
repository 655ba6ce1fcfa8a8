#include "daemon/runner/runner_config.h"

#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>

#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/wires.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A bound on the length that is read from the socket, so that a wrong one cannot take all memory.
constexpr uint64_t kMostConfigBytes = 1 << 20;

Status bad(std::string_view what) { return invalid_argument(cat("runner's boot message: ", what)); }

std::vector<std::string> texts_of(capnp::List<capnp::Text>::Reader list) {
  std::vector<std::string> texts;
  for (const auto text : list) texts.emplace_back(text.cStr());
  return texts;
}

Confinement read_confinement(wire::RunnerConfinement::Reader in) {
  Confinement c;
  c.is_on = in.getIsOn();
  c.required = in.getRequired();
  c.user = in.getUser();
  c.no_user = in.getNoUser();
  c.has_namespaces = in.getHasNamespaces();
  c.no_namespaces = in.getNoNamespaces();
  c.reads_all = in.getReadsAll();
  c.data = texts_of(in.getData());
  c.hidden = texts_of(in.getHidden());
  c.directory = in.getDirectory();
  c.rooms = in.getRooms();
  c.opens_gpus = in.getOpensGpus();
  c.core_dumps = in.getCoreDumps();
  c.most_threads = in.getMostThreads();
  c.most_file_bytes = in.getMostFileBytes();
  return c;
}

// Copies the fields out of the message. Cap'n Proto throws if the message is malformed.
Result<RunnerConfig> decode(kj::ArrayPtr<const capnp::word> words) {
  capnp::FlatArrayMessageReader message(words);
  const auto boot = message.getRoot<wire::RunnerBoot>();
  const auto spec = boot.getSpec();
  RunnerConfig config;
  config.job = spec.getJob();
  config.assembly.number = spec.getAssembly();
  config.assembly.task = spec.getTask();
  config.threads = static_cast<int>(std::min(spec.getThreads(), 4096u));
  config.gpus = spec.getGpus();
  config.token.assign(spec.getToken().begin(), spec.getToken().end());
  // The key goes to an array of a fixed size, so a longer one must not get as far as the copy.
  RunKey& key = config.assembly.key;
  if (spec.getKey().size() != key.size())
    return bad(cat("key: expected 32 bytes, received ", spec.getKey().size()));
  std::copy(spec.getKey().begin(), spec.getKey().end(), key.begin());
  config.incarnation = boot.getIncarnation();
  config.worker = boot.getWorker();
  config.master_address = boot.getMasterAddress();
  config.cluster = boot.getCluster();
  const auto secret = boot.getSecret();
  config.secret.assign(reinterpret_cast<const char*>(secret.begin()), secret.size());
  if (boot.getSeal() > static_cast<uint8_t>(Seal::always))
    return bad(cat("seal: expected 0 to 2, received ", static_cast<int>(boot.getSeal())));
  config.seal = static_cast<Seal>(boot.getSeal());
  config.directory = boot.getDirectory();
  config.confinement = read_confinement(boot.getConfinement());
  for (const auto dataset : boot.getDatasets())
    config.datasets[dataset.getName()] = dataset.getPath();
  // The worker lists the transports that the runner may use; one that it does not list is
  // forbidden.
  config.may_share_memory = config.may_use_tcp = false;
  for (const auto transport : boot.getTransports()) {
    if (transport == "shm") config.may_share_memory = true;
    if (transport == "tcp") config.may_use_tcp = true;
  }
  config.gpu_wires = read_wires(boot.getGpuWires());
  config.memory_limit = boot.getMemoryLimit();
  config.log_level = boot.getLogLevel();
  config.rejoin_within = std::chrono::milliseconds(boot.getRejoinMs());
  return config;
}

}  // namespace

Result<RunnerConfig> read_runner_config(int socket, Deadline deadline) {
  constexpr std::string_view kSubject = "reading the runner's boot message";
  // The length comes first: 8 bytes, little-endian. It counts the bytes of the message behind it.
  std::array<std::byte, 8> head;
  LEAT_RETURN_IF_ERROR(receive_all(socket, head, deadline, kSubject));
  uint64_t size = 0;
  for (size_t i = 0; i < head.size(); ++i) size |= static_cast<uint64_t>(head[i]) << (8 * i);
  if (size == 0 || size > kMostConfigBytes || size % sizeof(capnp::word) != 0)
    return bad(cat("expected whole words, at most ", kMostConfigBytes, " bytes, received ", size));
  kj::Array<capnp::word> words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  LEAT_RETURN_IF_ERROR(receive_all(
      socket, std::as_writable_bytes(std::span(words.begin(), words.size())), deadline, kSubject));
  // The exception of a malformed message ends here, because callers expect a Status.
  try {
    return decode(words);
  } catch (const kj::Exception& error) {
    return bad(error.getDescription().cStr());
  }
}

}  // namespace leat

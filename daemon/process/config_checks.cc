#include "daemon/process/config_checks.h"

#include <unistd.h>

#include <span>

#include "daemon/process/config_fields.h"
#include "daemon/process/field_reader.h"
#include "daemon/process/local_socket.h"
#include "daemon/process/secret_file.h"
#include "devices/base/text.h"
#include "transport/rpc/socket.h"

namespace leat {
namespace {

// An address that the daemon listens at or dials, with its key.
struct Port {
  std::string_view key;
  const std::string& address;
};

// True for an address that only this machine reaches. Other names are not resolved: they count as
// the network.
bool is_loopback(const std::string& address) {
  const auto parts = split_host_port(address);
  if (parts && parts->host == "localhost") return true;
  const auto parsed = parse_socket_address(address);
  return parsed.ok() && parsed->is_loopback();
}

// Reads one secret into `out`. An error is reported at the key that names the file.
void read_secret(YamlMap& top, std::string_view key, const std::string& credentials,
                 const std::string& path, std::string& out) {
  if (path.empty()) return;
  Result<std::string> secret = read_secret_file(path, credentials);
  if (secret.ok()) {
    out = std::move(*secret);
  } else {
    top.fail(key, secret.status().message());
  }
}

// systemd names the folder of a service's credentials in the environment.
std::string credentials_folder(const ConfigSources& sources) {
  const auto found = sources.environment.find("CREDENTIALS_DIRECTORY");
  return found == sources.environment.end() ? "" : found->second;
}

// Reads the secrets that all daemons have.
void read_secrets(YamlMap& top, const ConfigSources& sources, SecurityConfig& security) {
  const std::string credentials = credentials_folder(sources);
  read_secret(top, "secret_file", credentials, security.secret_file, security.secret);
  // The file is removed when the old secret is to end, and the key may stay.
  if (::access(security.previous_secret_file.c_str(), F_OK) == 0) {
    read_secret(top, "previous_secret_file", credentials, security.previous_secret_file,
                security.previous_secret);
  }
  if (!security.secret.empty())
    security.secrets = std::make_shared<Secrets>(security.secret, security.previous_secret);
  read_secret(top, "http_token_file", credentials, security.http_token_file, security.http_token);
}

// The key of the file that a message of read_certificates() is about.
std::string_view key_of_file(const CertificatePaths& paths, std::string_view message) {
  const auto begins = [&](const std::string& path) {
    return !path.empty() && message.starts_with(cat("'", path, "'"));
  };
  if (begins(paths.certificate)) return "certificate_file";
  if (begins(paths.key)) return "certificate_key_file";
  return begins(paths.authority) ? "authority_file" : "revoked_file";
}

// Reads the certificate of a daemon with this role in the cluster.
void read_certificate(YamlMap& top, const ConfigSources& sources, const std::string& cluster,
                      std::string_view role, SecurityConfig& security) {
  const CertificatePaths& paths = security.certificate;
  if (paths.certificate.empty()) {
    for (const auto& [key, path] : {std::pair("certificate_key_file", &paths.key),
                                    {"authority_file", &paths.authority},
                                    {"revoked_file", &paths.revoked}}) {
      if (!path->empty()) top.fail(key, "expected certificate_file beside it");
    }
    return;
  }
  if (security.insecure_plaintext)
    top.fail("insecure_plaintext",
             "expected false with certificate_file, since certificates need TLS, received true");
  auto files = CertificateFiles::open(paths, credentials_folder(sources));
  if (!files.ok()) {
    const std::string& message = files.status().message();
    return top.fail(key_of_file(paths, message), message);
  }
  const PeerName& name = (*files)->current()->get()->own().name;
  if (name.cluster != cluster || name.role != role)
    top.fail("certificate_file", cat("expected the certificate of a ", role, " of cluster '",
                                     cluster, "', received that of ", uri_of(name)));
  security.certificates = *std::move(files);
}

// Reports an address beyond loopback. `authenticates` is the key that would allow it, and is not
// set.
void want_loopback(YamlMap& top, const Port& port, std::string_view authenticates) {
  if (port.address == "off" || is_loopback(port.address)) return;
  top.fail(port.key, cat("expected a loopback address, or ", authenticates,
                         " (or insecure_allow_network_without_authentication), received '",
                         port.address, "'"));
}

// `control` are the ports and peers of the control plane, which a secret protects; a token protects
// `http`.
void check_security(YamlMap& top, const SecurityConfig& security, std::span<const Port> control,
                    const Port& http) {
  if (security.insecure_plaintext && security.seal_loopback) {
    top.fail("seal_loopback",
             "expected false with insecure_plaintext, which turns TLS off, received true");
  }
  if (security.http_certificate_file.empty() != security.http_key_file.empty()) {
    top.fail(security.http_key_file.empty() ? "http_certificate_file" : "http_key_file",
             "expected both http_certificate_file and http_key_file, received one of them");
  }
  // The key has a long name so that nobody sets it by mistake, and it allows everything.
  if (security.insecure_allow_network_without_authentication) return;
  for (const Port& port : control) {
    if (!security.authenticates()) want_loopback(top, port, "a secret_file or certificate_file");
  }
  if (security.http_token_file.empty()) {
    want_loopback(top, http, "an http_token_file");
  } else if (security.http_certificate_file.empty() && !security.insecure_http_plaintext) {
    want_loopback(top, http,
                  "an http_certificate_file with its http_key_file (or insecure_http_plaintext)");
  }
}

// Two listeners of one daemon cannot have the same port. Port 0 is another free one each time.
void check_ports_differ(YamlMap& top, std::span<const Port> ports) {
  for (size_t i = 0; i < ports.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      const auto one = split_host_port(ports[i].address), other = split_host_port(ports[k].address);
      if (!one || !other || one->port == 0 || one->port != other->port) continue;
      const bool later = top.has(ports[i].key);  // prefer a key that is set; others are defaults
      top.fail(later ? ports[i].key : ports[k].key,
               cat("expected a port of its own, received ", one->port, ", which is that of ",
                   later ? ports[k].key : ports[i].key, ", too"));
    }
  }
}

// Peers cannot dial a wildcard address.
void check_data_address(YamlMap& top, const WorkerConfig& config) {
  const auto parsed = parse_socket_address(config.data);
  const std::string bound = parsed.ok() ? parsed->to_string() : "";
  const bool wildcard = bound.starts_with("0.0.0.0:") || bound.starts_with("[::]:");
  if (!wildcard || !config.data_address.empty()) return;
  top.fail("data", cat("expected data_address beside it, the host that peers dial, since '",
                       config.data, "' is every address of this machine"));
}

// Without this check, every client of a network could read what this process may read.
void check_local_paths(YamlMap& top, const WorkerConfig& config) {
  if (!config.local_paths) return;
  for (const Port& port : {Port{"data", config.data}, Port{"master", config.master}}) {
    if (is_loopback(port.address)) continue;
    top.fail("local_paths", cat("expected ", port.key, " on loopback beside it, received '",
                                port.address, "'; name the data sets of a network"));
  }
  if (config.runner.confine == Confine::required)
    top.fail("local_paths",
             "expected runner.confine to be auto or best_effort beside it, received "
             "required: jobs read as the worker's user, and so have no own one");
}

// The master takes a worker only under the name of its certificate.
void check_certificate_name(YamlMap& top, const WorkerConfig& config) {
  if (!config.security.certificates) return;
  const PeerName& name = config.security.certificates->current()->get()->own().name;
  if (name.role != "worker" || name.name == config.name) return;
  top.fail("certificate_file", cat("expected the certificate of worker '", config.name,
                                   "', as `name` has it, received that of ", uri_of(name)));
}

// A runner must not have the user of an account.
void check_users(YamlMap& top, const WorkerConfig& config) {
  const RunnerUserRange& users = config.runner.users;
  constexpr int64_t kLeast = 1000;
  if (users.first == 0 || users.first >= kLeast) return;
  top.fail("runner", cat("users.first: expected 0 or at least ", kLeast, ", received ", users.first,
                         ", which may be the user of an account"));
}

// Without a key new weights would be in the clear, although older ones are not.
void read_checkpoint_keys(YamlMap& top, const ConfigSources& sources, MasterConfig& config) {
  const std::string credentials = credentials_folder(sources);
  read_secret(top, "checkpoint_key_file", credentials, config.checkpoint_key_file,
              config.checkpoint_key);
  read_secret(top, "previous_checkpoint_key_file", credentials, config.previous_checkpoint_key_file,
              config.previous_checkpoint_key);
  if (config.checkpoint_key_file.empty() && !config.previous_checkpoint_key_file.empty()) {
    top.fail("previous_checkpoint_key_file",
             "expected a checkpoint_key_file beside it, received none");
  }
}

}  // namespace

bool is_on_loopback(const WorkerConfig& config) {
  return is_loopback(config.data) && is_loopback(config.master);
}

void check_config(YamlMap& top, const ConfigSources& sources, MasterConfig& config) {
  const Port ports[] = {{"listen", config.listen}, {"http", config.http}};
  check_security(top, config.security, std::span(ports).first(1), ports[1]);
  check_ports_differ(top, ports);
  read_secrets(top, sources, config.security);
  read_certificate(top, sources, config.cluster, "master", config.security);
  read_secret(top, "http_write_token_file", credentials_folder(sources),
              config.http_write_token_file, config.http_write_token);
  read_checkpoint_keys(top, sources, config);
  place_local_socket(top, sources, config);
}

// NCCL refuses two ranks on one GPU.
void check_gpu_wires(YamlMap& top, const WorkerConfig& config) {
  const bool has_nccl =
      config.gpu_wires == GpuWires::insecure_nccl || config.gpu_wires == GpuWires::insecure_all;
  if (!has_nccl || config.runners_per_gpu == 1) return;
  top.fail("gpu_wires", cat("expected none or ipc with runners_per_gpu ", config.runners_per_gpu,
                            ", since NCCL needs a GPU for each runner, received ",
                            kGpuWires[static_cast<size_t>(config.gpu_wires)]));
}

void check_config(YamlMap& top, const ConfigSources& sources, WorkerConfig& config) {
  const Port control[] = {{"data", config.data}, {"master", config.master}};
  const Port ports[] = {{"data", config.data}, {"http", config.http}};
  // The master's address counts, too: a worker without a secret would trust any process that
  // answers there.
  check_security(top, config.security, control, ports[1]);
  check_ports_differ(top, ports);
  check_data_address(top, config);
  check_local_paths(top, config);
  check_users(top, config);
  check_gpu_wires(top, config);
  read_secrets(top, sources, config.security);
  if (!config.security.secret_file.empty() && !config.security.certificate.certificate.empty())
    top.fail("secret_file",
             "expected one of secret_file and certificate_file, by which the master knows this "
             "worker, received both");
  read_certificate(top, sources, config.cluster, "worker", config.security);
  check_certificate_name(top, config);
}

void check_config(YamlMap& top, const ConfigSources&, DevConfig& config) {
  const Port ports[] = {{"listen", config.listen}, {"http", config.http}};
  for (const Port& port : ports) {
    if (port.address == "off" || is_loopback(port.address)) continue;
    top.fail(port.key,
             cat("expected a loopback address, since dev authenticates nobody, received '",
                 port.address, "'; run a master and workers for a network"));
  }
  check_ports_differ(top, ports);
}

}  // namespace leat

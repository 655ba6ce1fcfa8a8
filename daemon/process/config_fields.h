// The list of all keys of all daemons. Visitors read, list and print the keys: a visitor has one
// member function for each kind of field, and its map() calls its argument with a visitor for the
// keys below one key.
//
// A visitor is a class with these members, each a template or an overload where the type of the
// field varies:
//
//   void name(std::string_view key, size_t longest, std::string& out);
//   void address(std::string_view key, AddressUse use, std::string& out);
//   void path(std::string_view key, std::string& out);
//   void path_or_off(std::string_view key, std::string& out);
//   void named_paths(std::string_view key, std::map<std::string, std::string>& out);
//   void local_users(std::string_view key, LocalUsers& out);
//   void worker_limits(std::string_view key, WorkerLimits& out);
//   void boolean(key, out), integer(key, range, out), bytes(key, out), duration(key, out);
//   void choice(key, names, out), choices(key, names, out);
//   void map(std::string_view key, const std::function<void(Visitor&)>& visit_fields);
//
// FieldReader reads a config; the two visitors of config_reader.cc list the keys and print the
// values. A new key of a daemon is one line here and one field in daemon_config.h.
#pragma once

#include <array>
#include <string_view>

#include "daemon/base/yaml_reader.h"
#include "daemon/process/daemon_config.h"

namespace leat {

// The use of an address decides which forms it may have.
enum class AddressUse : uint8_t {
  bind,         // a literal address or localhost, with a port
  bind_or_off,  // like bind, or "off"
  dial,         // a host name is allowed; the port is not 0
  advertise,    // like dial, or a host without a port
};

// The names of enums, in the order of their values. An enum's value is the index of its name, so a
// new name goes where the new value stands.
inline constexpr auto kLogLevels =
    std::to_array<std::string_view>({"debug", "info", "warning", "error", "off"});
inline constexpr auto kLogFormats = std::to_array<std::string_view>({"text", "json"});
inline constexpr auto kConfines =
    std::to_array<std::string_view>({"auto", "required", "best_effort", "insecure_off"});
inline constexpr auto kLocalRoles =
    std::to_array<std::string_view>({"none", "viewer", "submitter", "operator", "admin", "worker"});
inline constexpr auto kJobsVisible = std::to_array<std::string_view>({"all", "own"});
inline constexpr auto kGpuWires =
    std::to_array<std::string_view>({"none", "ipc", "insecure_nccl", "insecure_all"});
inline constexpr auto kTransports = std::to_array<std::string_view>({"local", "shm", "tcp"});

// In bytes: the room for the cluster's name in a hello message.
inline constexpr size_t kMaxClusterName = 32;
// In bytes: the longest host name of Linux.
inline constexpr size_t kMaxWorkerName = 64;
// The workers of `leatd dev` are threads of one process.
inline constexpr int64_t kMaxDevWorkers = 64;
// 0 stands for all cores that the process may use.
inline constexpr IntRange kThreads = {.min = 0, .max = 1024};

// visit() calls a member function of `v` for each key of a struct, in the order of the
// documentation.
template <typename Visitor>
void visit(Visitor& v, LogConfig& c) {
  v.choice("level", kLogLevels, c.level);
  v.choice("format", kLogFormats, c.format);
  v.path("file", c.file);
}

template <typename Visitor>
void visit(Visitor& v, SecurityConfig& c) {
  v.path("secret_file", c.secret_file);
  v.path("previous_secret_file", c.previous_secret_file);
  v.path("certificate_file", c.certificate.certificate);
  v.path("certificate_key_file", c.certificate.key);
  v.path("authority_file", c.certificate.authority);
  v.path("revoked_file", c.certificate.revoked);
  v.path("http_token_file", c.http_token_file);
  v.path("http_certificate_file", c.http_certificate_file);
  v.path("http_key_file", c.http_key_file);
  v.boolean("insecure_http_plaintext", c.insecure_http_plaintext);
  v.boolean("insecure_allow_network_without_authentication",
            c.insecure_allow_network_without_authentication);
  v.boolean("insecure_plaintext", c.insecure_plaintext);
  v.boolean("seal_loopback", c.seal_loopback);
}

template <typename Visitor>
void visit(Visitor& v, RunnerUserRange& c) {
  // Below are the accounts of people and services.
  v.integer("first", {.min = 0, .max = 4'000'000'000}, c.first);
  v.integer("count", {.min = 1, .max = 65'536}, c.count);
}

template <typename Visitor>
void visit(Visitor& v, RunnerLimits& c) {
  v.integer("max_runners", {.min = 1, .max = 1024}, c.max_runners);
  v.duration("start_deadline", c.start_deadline);
  v.duration("stop_deadline", c.stop_deadline);
  v.integer("open_files", {.min = 256, .max = 1 << 20}, c.open_files);
  v.boolean("core_dumps", c.core_dumps);
  v.choice("confine", kConfines, c.confine);
  v.map("users", [&](Visitor& users) { visit(users, c.users); });
}

template <typename Visitor>
void visit(Visitor& v, Retention& c) {
  v.duration("max_age", c.max_age);
  v.integer("max_jobs", {.min = 0, .max = 1'000'000}, c.max_jobs);
  v.bytes("max_bytes", c.max_bytes);
}

template <typename Visitor>
void visit(Visitor& v, Quotas& c) {
  v.integer("jobs", {.min = 0, .max = 1'000'000}, c.jobs);
  v.integer("workers", {.min = 0, .max = 1'000'000}, c.workers);
  v.integer("sessions", {.min = 0, .max = 1'000'000}, c.sessions);
  v.bytes("uploads", c.uploads);
  v.bytes("user_uploads", c.user_uploads);
}

template <typename Visitor>
void visit(Visitor& v, WorkerLimit& c) {
  v.bytes("memory", c.memory);
  v.integer("cores", {.min = 0, .max = kMostDeviceThreads}, c.cores);
  v.integer("devices", {.min = 0, .max = 64}, c.devices);
  v.bytes("device_memory", c.device_memory);
}

template <typename Visitor>
void visit(Visitor& v, MasterConfig& c) {
  v.name("cluster", kMaxClusterName, c.cluster);
  v.address("listen", AddressUse::bind, c.listen);
  v.address("http", AddressUse::bind_or_off, c.http);
  v.path("state_dir", c.state_dir);
  v.path_or_off("local_socket", c.local_socket);
  v.local_users("local_users", c.local_users);
  v.choice("jobs_visible", kJobsVisible, c.jobs_visible);
  v.place("checkpoint_copies", c.checkpoint_copies);
  v.path("checkpoint_key_file", c.checkpoint_key_file);
  v.path("previous_checkpoint_key_file", c.previous_checkpoint_key_file);
  visit(v, c.security);
  v.path("http_write_token_file", c.http_write_token_file);
  v.integer("max_workers", {.min = 1, .max = 4096}, c.max_workers);
  v.duration("grow_after", c.grow_after);
  v.map("retention", [&](Visitor& retention) { visit(retention, c.retention); });
  v.map("quotas", [&](Visitor& quotas) { visit(quotas, c.quotas); });
  v.worker_limits("worker_limits", c.worker_limits);
  v.boolean("audit_to_log", c.audit_to_log);
  v.boolean("chaos", c.chaos);
  v.boolean("new_journal", c.new_journal);
  v.map("log", [&](Visitor& log) { visit(log, c.log); });
}

template <typename Visitor>
void visit(Visitor& v, WorkerConfig& c) {
  v.name("cluster", kMaxClusterName, c.cluster);
  v.name("name", kMaxWorkerName, c.name);
  v.address("master", AddressUse::dial, c.master);
  v.address("http", AddressUse::bind_or_off, c.http);
  v.address("data", AddressUse::bind, c.data);
  v.address("data_address", AddressUse::advertise, c.data_address);
  v.integer("threads", kThreads, c.threads);
  v.bytes("memory_limit", c.memory_limit);
  v.boolean("gpus", c.gpus);
  v.integer("runners_per_gpu", {.min = 1, .max = 16}, c.runners_per_gpu);
  v.choice("gpu_wires", kGpuWires, c.gpu_wires);
  v.named_paths("datasets", c.datasets);
  v.boolean("local_paths", c.local_paths);
  v.path("state_dir", c.state_dir);
  visit(v, c.security);
  v.choices("transports", kTransports, c.transports);
  v.map("runner", [&](Visitor& runner) { visit(runner, c.runner); });
  v.duration("adopt_within", c.adopt_within);
  v.duration("name_patience", c.name_patience);
  v.map("log", [&](Visitor& log) { visit(log, c.log); });
}

template <typename Visitor>
void visit(Visitor& v, DevConfig& c) {
  v.integer("workers", {.min = 0, .max = kMaxDevWorkers}, c.workers);
  v.integer("threads", kThreads, c.threads);
  v.address("listen", AddressUse::bind, c.listen);
  v.address("http", AddressUse::bind_or_off, c.http);
  v.named_paths("datasets", c.datasets);
  v.map("log", [&](Visitor& log) { visit(log, c.log); });
}

}  // namespace leat

// The keys of a master that say who may do what: local_socket, local_users, jobs_visible,
// worker_limits.
#include "tests/catch.h"
#include "tests/daemon/config/config_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

using Catch::Contains;

std::string refusal(const std::string& text) {
  const ConfigFile file(text);
  return message_of(file, load_master_config(file.sources));
}

TEST_CASE("the Unix socket is where systemd has a folder for it, else in the state folder") {
  ConfigFile file("state_dir: /var/lib/leat/master\n");
  CHECK(must(load_master_config(file.sources)).local_socket == "/var/lib/leat/master/master.sock");
  file.sources.environment["RUNTIME_DIRECTORY"] = "/run/leat-master:/run/other";
  CHECK(must(load_master_config(file.sources)).local_socket == "/run/leat-master/master.sock");
  const ConfigFile set("local_socket: sockets/m\n");
  CHECK(must(load_master_config(set.sources)).local_socket == set.folder / "sockets/m");
  const ConfigFile off("local_socket: off\n");
  CHECK(must(load_master_config(off.sources)).local_socket == "off");
  // A default that is too long for a socket is none; a path that somebody sets is an error.
  const ConfigFile deep("state_dir: /" + std::string(120, 'd') + "\n");
  CHECK(must(load_master_config(deep.sources)).local_socket == "off");
  CHECK_THAT(refusal("local_socket: /" + std::string(120, 'd') + "\n"),
             Contains("c.yaml:1:15: local_socket: expected a path of at most 103 bytes, received "
                      "121"));
}

TEST_CASE("local_users has users, numbers and groups with roles, and the others") {
  ConfigFile file(
      "local_users: {ann: admin, 'uid:1000': operator, 'group:staff': worker, '*': viewer}\n");
  file.sources.flags = {{"local_users.bob", "none", "--set local_users.bob=none"}};
  const auto config = must(load_master_config(file.sources));
  CHECK(config.local_users == LocalUsers{{"ann", LocalRole::admin},
                                         {"uid:1000", LocalRole::operate},
                                         {"group:staff", LocalRole::worker},
                                         {"*", LocalRole::viewer},
                                         {"bob", LocalRole::none}});
  CHECK(must(load_master_config(ConfigFile("{}\n").sources)).local_users.empty());
  CHECK_THAT(refusal("local_users: {ann: root}\n"),
             Contains("c.yaml:1:20: local_users.ann: expected one of none, viewer, submitter") ||
                 Contains("local_users.ann: "));
  for (const char* bad : {"'uid:x'", "'uid:'", "'uid:-1'", "'group:'", "'user:ann'"}) {
    INFO(bad);
    CHECK_THAT(refusal(std::string("local_users: {") + bad + ": viewer}\n"),
               Contains("expected a user's name, uid:NUMBER, group:NAME, or * for all others"));
  }
}

TEST_CASE("jobs_visible is all or own") {
  CHECK(must(load_master_config(ConfigFile("{}\n").sources)).jobs_visible == JobsVisible::all);
  const ConfigFile own("jobs_visible: own\n");
  CHECK(must(load_master_config(own.sources)).jobs_visible == JobsVisible::own);
  CHECK_THAT(refusal("jobs_visible: mine\n"), Contains("jobs_visible: "));
}

TEST_CASE("worker_limits keeps the order of the text, in which the first glob counts") {
  const ConfigFile file(
      "worker_limits:\n"
      "  gpu-*: {memory: 64GiB, devices: 4, device_memory: 80GiB, cores: 64}\n"
      "  '*': {memory: 1GiB}\n"
      "  a: {}\n");
  const auto limits = must(load_master_config(file.sources)).worker_limits;
  REQUIRE(limits.size() == 3);
  CHECK(limits[0].first == "gpu-*");
  CHECK(limits[0].second.memory == uint64_t{64} << 30);
  CHECK(limits[0].second.devices == 4);
  CHECK(limits[0].second.device_memory == uint64_t{80} << 30);
  CHECK(limits[0].second.cores == 64);
  CHECK(limits[1].first == "*");
  CHECK(limits[1].second.memory == uint64_t{1} << 30);
  CHECK(limits[1].second.cores == 0);
  CHECK(limits[2].first == "a");
  CHECK_THAT(refusal("worker_limits: {w: {memroy: 1GiB}}\n"),
             Contains("worker_limits.w.memroy: unknown key (did you mean 'memory'?)"));
  CHECK_THAT(refusal("worker_limits: {w: {cores: -1}}\n"), Contains("worker_limits.w.cores: "));
}

TEST_CASE("config show prints the entries of these keys") {
  const ConfigFile file("local_users: {ann: operator}\nworker_limits: {'w*': {cores: 2}}\n");
  std::vector<ConfigValue> values;
  must(load_master_config(file.sources, &values).status());
  const auto value = [&](const std::string& key) {
    for (const ConfigValue& each : values) {
      if (each.key == key) return each.value + " " + each.origin;
    }
    return std::string("none");
  };
  CHECK_THAT(value("local_users.ann"), Catch::StartsWith("operator ") && Contains("c.yaml:1:"));
  CHECK_THAT(value("worker_limits.w*.cores"), Catch::StartsWith("2 ") && Contains("c.yaml:2:"));
  CHECK(value("jobs_visible") == "all default");
}

}  // namespace
}  // namespace leat

#include "daemon/process/config_reader.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/daemon/config/config_testing.h"

namespace leat {
namespace {

using Catch::Contains;

ConfigSources::Flag set(const std::string& key, const std::string& value) {
  return {key, value, "--set " + key + "=" + value};
}

// Returns the value with this key.
ConfigValue value_of(const std::vector<ConfigValue>& values, const std::string& key) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const auto& value) { return value.key == key; });
  REQUIRE(found != values.end());
  return *found;
}

TEST_CASE("with no sources everything is on loopback at its own port") {
  const auto master = load_master_config({});
  const auto worker = load_worker_config({});
  const auto dev = load_dev_config({});
  REQUIRE(master.status().message() == "");
  REQUIRE(worker.status().message() == "");
  REQUIRE(dev.status().message() == "");
  CHECK(master->listen == "127.0.0.1:17461");
  CHECK(master->http == "127.0.0.1:17460");
  CHECK(worker->master == "127.0.0.1:17461");
  CHECK(worker->http == "127.0.0.1:17462");
  CHECK(worker->data == "127.0.0.1:17463");
  CHECK(worker->name != "");
  CHECK(dev->listen == "127.0.0.1:17461");
  CHECK(dev->workers == 0);  // 0: as many as jobs ask for
}

TEST_CASE("every key of a worker's file arrives in its field") {
  ConfigFile file(R"(
cluster: lab
name: w1
master: "[::1]:7000"
http: off
data: 127.0.0.1:7001
data_address: localhost:7002
threads: 6
memory_limit: 2GiB
datasets: {fashion: data/fashion, other: /srv/other, far: "s3://bucket/a//b"}
state_dir: state
secret_file: secret
http_token_file: token
insecure_allow_network_without_authentication: true
transports: [shm, tcp]
gpu_wires: insecure_all
runner: {max_runners: 2, start_deadline: 1m, stop_deadline: 1500ms, open_files: 1024, core_dumps: true}
log: {level: debug, format: json, file: ../worker.log}
)");
  write_text(file.folder / "secret", std::string(32, 's') + "\n");
  write_text(file.folder / "token", std::string(40, 't'));
  const auto worker = load_worker_config(file.sources);
  REQUIRE(message_of(file, worker) == "");
  CHECK(worker->cluster == "lab");
  CHECK(worker->name == "w1");
  CHECK(worker->master == "[::1]:7000");
  CHECK(worker->http == "off");
  CHECK(worker->data == "127.0.0.1:7001");
  CHECK(worker->data_address == "localhost:7002");
  CHECK(worker->threads == 6);
  CHECK(worker->memory_limit == uint64_t{2} << 30);
  CHECK(worker->datasets ==
        std::map<std::string, std::string>{{"fashion", file.folder / "data/fashion"},
                                           {"far", "s3://bucket/a//b"},
                                           {"other", "/srv/other"}});
  CHECK(worker->state_dir == file.folder / "state");
  CHECK(worker->security.secret_file == file.folder / "secret");
  CHECK(worker->security.secret == std::string(32, 's'));
  CHECK(worker->security.http_token == std::string(40, 't'));
  CHECK(worker->security.insecure_allow_network_without_authentication);
  CHECK(worker->transports == std::vector{WorkerTransport::shm, WorkerTransport::tcp});
  CHECK(worker->gpu_wires == GpuWires::insecure_all);
  CHECK(worker->runner.max_runners == 2);
  CHECK(worker->runner.start_deadline == std::chrono::minutes(1));
  CHECK(worker->runner.stop_deadline == std::chrono::milliseconds(1500));
  CHECK(worker->runner.open_files == 1024);
  CHECK(worker->runner.core_dumps);
  CHECK(worker->log.level == LogLevel::debug);
  CHECK(worker->log.format == LogFormat::json);
  CHECK(worker->log.file ==
        file.folder.path().substr(0, file.folder.path().rfind('/')) + "/worker.log");
}

TEST_CASE("a flag wins over the environment, that over the file, and that over the default") {
  ConfigFile file("max_workers: 2\ncluster: of-file\nlisten: 127.0.0.1:2\n");
  file.sources.environment = {{"LEAT_MASTER_CLUSTER", "of-environment"},
                              {"LEAT_MASTER_LISTEN", "127.0.0.1:3"},
                              {"LEAT_MASTER_LOG_LEVEL", "debug"},
                              {"LEAT_MASTER_HTTP", ""},            // counts as absent
                              {"LEAT_WORKER_CLUSTER", "no-one"}};  // another daemon's
  file.sources.flags = {{"listen", "127.0.0.1:4", "--listen 127.0.0.1:4"},
                        set("listen", "127.0.0.1:5")};
  std::vector<ConfigValue> values;
  const auto master = load_master_config(file.sources, &values);
  REQUIRE(message_of(file, master) == "");
  CHECK(master->max_workers == 2);
  CHECK(master->cluster == "of-environment");
  CHECK(master->listen == "127.0.0.1:5");
  CHECK(master->log.level == LogLevel::debug);
  CHECK(master->http == "127.0.0.1:17460");

  CHECK(value_of(values, "max_workers").origin == file.path() + ":1:14");
  CHECK(value_of(values, "cluster").origin == "LEAT_MASTER_CLUSTER");
  CHECK(value_of(values, "listen").origin == "--set listen=127.0.0.1:5");
  CHECK(value_of(values, "http").origin == "default");
  CHECK(value_of(values, "log.level").value == "debug");
}

TEST_CASE("the retention of ended jobs can be set") {
  ConfigFile file("retention: {max_age: 720h, max_bytes: 20GiB}\n");
  file.sources.environment = {{"LEAT_MASTER_RETENTION_MAX_JOBS", "50"}};
  const auto master = load_master_config(file.sources, nullptr);
  REQUIRE(message_of(file, master) == "");
  CHECK(master->retention.max_age == std::chrono::hours(720));
  CHECK(master->retention.max_bytes == uint64_t{20} << 30);
  CHECK(master->retention.max_jobs == 50);
}

TEST_CASE("every value that is printed can be set again") {
  ConfigFile file("datasets: {a: /srv/a}\nmemory_limit: 1536\nrunner: {stop_deadline: 90s}\n");
  std::vector<ConfigValue> values, again;
  REQUIRE(load_worker_config(file.sources, &values).ok());
  ConfigSources sources;
  for (const ConfigValue& value : values) sources.flags.push_back(set(value.key, value.value));
  const auto worker = load_worker_config(sources, &again);
  REQUIRE(worker.status().message() == "");
  REQUIRE(again.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(again[i].key == values[i].key);
    CHECK(again[i].value == values[i].value);
    CHECK((again[i].origin.starts_with("--set ") || values[i].value.empty()));
  }
}

TEST_CASE("a text is taken as it stands from a flag and the environment") {
  ConfigSources sources;
  sources.environment = {{"LEAT_WORKER_NAME", "007"}};
  sources.flags = {set("data", "[::1]:9"), set("state_dir", "/srv/a: b # c")};
  const auto worker = load_worker_config(sources);
  REQUIRE(worker.status().message() == "");
  CHECK(worker->name == "007");
  CHECK(worker->data == "[::1]:9");
  CHECK(worker->state_dir == "/srv/a: b # c");
}

TEST_CASE("a text from a flag or the environment has no control characters") {
  ConfigSources sources;
  sources.flags = {set("state_dir", "/srv/a\nb")};
  CHECK_THAT(load_worker_config(sources).status().message(),
             Contains("state_dir") && Contains(": expected text without control characters"));
  sources.flags.clear();
  sources.environment = {{"LEAT_WORKER_STATE_DIR", "/srv/\x7f"}};
  CHECK(load_worker_config(sources).status().message() ==
        "LEAT_WORKER_STATE_DIR: expected text without control characters");
}

TEST_CASE("a data set has a name that a job can say") {
  const auto refusal = [](const std::string& name) {
    const ConfigFile file("datasets: {\"" + name + "\": /data}\n");
    return message_of(file, load_worker_config(file.sources));
  };
  CHECK(refusal("mnist-1_a") == "");
  for (const std::string& name : {std::string("a b"), std::string("-a"), std::string("a.b"),
                                  std::string("a/b"), std::string(65, 'a')}) {
    INFO(name);
    CHECK_THAT(refusal(name), Contains("expected a name of letters, digits, '-' and '_', at most "
                                       "64 and a letter or digit first"));
  }
}

TEST_CASE("the address of a data set has no user") {
  const ConfigFile file("datasets: {a: \"https://me:secret@host/x\"}\n");
  CHECK_THAT(message_of(file, load_worker_config(file.sources)),
             Contains("the address of a store: expected none with a user"));
}

TEST_CASE("a file of comments alone says nothing, and that is fine") {
  ConfigFile file("# listen: 127.0.0.1:1\n\n   # and no more\n");
  CHECK(message_of(file, load_master_config(file.sources)) == "");
}

TEST_CASE("a bad file is refused with line, column and the nearest key") {
  const auto refusal = [](const std::string& text) {
    const ConfigFile file(text);
    return message_of(file, load_master_config(file.sources));
  };
  CHECK(refusal("listn: 127.0.0.1:1\n") ==
        "c.yaml:1:1: listn: unknown key (did you mean 'listen'?)");
  CHECK(refusal("log: {levle: info}\n") ==
        "c.yaml:1:7: log.levle: unknown key (did you mean 'level'?)");
  CHECK(refusal("cluster: a\ncluster: b\n") ==
        "c.yaml:2:1: duplicate key 'cluster', first written at line 1, column 1");
  CHECK_THAT(refusal("max_workers: many\n"),
             Contains("c.yaml:1:14: max_workers: expected an integer from 1 to 4096"));
  CHECK_THAT(refusal("log: {level: loud}\n"), Contains("c.yaml:1:14: log.level: expected one of"));
  CHECK_THAT(refusal("cluster: a b\n"), Contains("c.yaml:1:10: cluster: expected letters"));
  CHECK_THAT(refusal("cluster: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"), Contains("at most 32"));
  CHECK_THAT(refusal("listen: off\n"), Contains("c.yaml:1:9: listen: expected an address"));
  CHECK_THAT(refusal("secret: abc\n"), Contains("secret: unknown key"));
}

TEST_CASE("an address must be one that can be used for what it is for") {
  const auto refused = [](const std::string& key, const std::string& value) {
    ConfigSources sources;
    sources.flags = {set(key, value)};
    const std::string message = load_worker_config(sources).status().message();
    return message.find(key + ": expected") != std::string::npos;
  };
  for (const char* bad : {"127.0.0.1", "localhost:", "example.org:80", "127.0.0.1:65536", ":80",
                          "::1:80", "[::1]:x"}) {
    INFO(bad);
    CHECK(refused("data", bad));
    CHECK(refused("http", bad));
  }
  for (const char* bad : {"127.0.0.1", "127.0.0.1:0", "a b:80", "http://a:80", "localhost:080"}) {
    INFO(bad);
    CHECK(refused("master", bad));
  }
  for (const char* good : {"worker-1", "worker-1.example:17463", "10.0.0.1", "[fd00::1]:17463"}) {
    INFO(good);
    CHECK_FALSE(refused("data_address", good));
  }
  CHECK(refused("data_address", "worker-1:0"));
  CHECK_FALSE(refused("http", "off"));
  CHECK_FALSE(refused("data", "127.0.0.1:0"));
}

TEST_CASE("an environment variable that is nearly a key is refused") {
  ConfigSources sources;
  sources.environment = {{"LEAT_MASTER_LISTNE", "127.0.0.1:1"}};
  CHECK(load_master_config(sources).status().message() ==
        "LEAT_MASTER_LISTNE: unknown variable (did you mean 'LEAT_MASTER_LISTEN'?)");
  CHECK(load_worker_config(sources).ok());
}

// Kubernetes sets such variables in every pod of a namespace with services of these names.
TEST_CASE("variables that Kubernetes makes for services are not ours") {
  ConfigSources sources;
  for (const std::string service : {"LEAT_MASTER_", "LEAT_WORKER_", "LEAT_DEV_", "LEAT_"}) {
    for (const char* rest :
         {"PORT", "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT_17460_TCP",
          "PORT_17460_TCP_ADDR", "PORT_17460_TCP_PORT", "PORT_17460_TCP_PROTO"}) {
      sources.environment[service + rest] = "tcp://10.0.0.1:17460";
    }
  }
  CHECK(load_master_config(sources).status().message() == "");
  CHECK(load_worker_config(sources).status().message() == "");
  CHECK(load_dev_config(sources).status().message() == "");
}

TEST_CASE("the state's folder is systemd's, the system's or the user's") {
  ConfigSources sources;
  sources.environment = {{"HOME", "/home/ada"}};
  CHECK(load_master_config(sources)->state_dir == "/home/ada/.local/state/leat/master");
  sources.environment["XDG_STATE_HOME"] = "/state";
  CHECK(load_master_config(sources)->state_dir == "/state/leat/master");
  sources.is_root = true;
  CHECK(load_worker_config(sources)->state_dir == "/var/lib/leat/worker");
  sources.environment["STATE_DIRECTORY"] = "/var/lib/private/a:/var/lib/b";
  CHECK(load_worker_config(sources)->state_dir == "/var/lib/private/a");
}

TEST_CASE("a config file that is not there is named") {
  ConfigSources sources;
  sources.file = "/nonexistent/leat.yaml";
  CHECK_THAT(load_dev_config(sources).status().message(), Contains("/nonexistent/leat.yaml"));
}

}  // namespace
}  // namespace leat

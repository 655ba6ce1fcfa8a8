#include "daemon/process/config_checks.h"

#include <unistd.h>

#include "tests/catch.h"
#include "tests/daemon/config/config_testing.h"

namespace leat {
namespace {

using Catch::Contains;

std::string master_refusal(const std::string& text) {
  const ConfigFile file(text);
  write_text(file.folder / "secret", std::string(32, 's'));
  return message_of(file, load_master_config(file.sources));
}

std::string worker_refusal(const std::string& text) {
  const ConfigFile file(text);
  write_text(file.folder / "secret", std::string(32, 's'));
  return message_of(file, load_worker_config(file.sources));
}

TEST_CASE("an address beyond loopback needs what authenticates") {
  for (const char* address : {"0.0.0.0:17461", "\"[::]:17461\"", "192.168.0.1:17461"}) {
    INFO(address);
    const std::string listen = std::string("listen: ") + address + "\n";
    CHECK_THAT(master_refusal(listen),
               Contains("c.yaml:1:9: listen: expected a loopback address, or a secret_file"));
    CHECK(master_refusal(listen + "secret_file: secret\n") == "");
    CHECK(master_refusal(listen + "insecure_allow_network_without_authentication: true\n") == "");
  }
  for (const char* address : {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "\"[::1]:1\""}) {
    INFO(address);
    CHECK(master_refusal(std::string("listen: ") + address + "\n") == "");
  }
}

TEST_CASE("NCCL needs a GPU for each runner") {
  for (const char* wires : {"none", "ipc", "insecure_nccl", "insecure_all"}) {
    INFO(wires);
    const std::string text = std::string("gpu_wires: ") + wires + "\n";
    CHECK(worker_refusal(text) == "");
    const std::string shared = worker_refusal(text + "runners_per_gpu: 2\n");
    if (text.find("insecure") == std::string::npos) {
      CHECK(shared == "");
    } else {
      CHECK_THAT(shared, Contains("c.yaml:1:12: gpu_wires: expected none or ipc with "
                                  "runners_per_gpu 2, since NCCL needs a GPU for each runner"));
    }
  }
}

TEST_CASE("the keys of checkpoints are files like a secret, and the one before needs the next") {
  CHECK(master_refusal("checkpoint_key_file: secret\n") == "");
  CHECK(master_refusal("checkpoint_key_file: secret\nprevious_checkpoint_key_file: secret\n") ==
        "");
  CHECK_THAT(master_refusal("previous_checkpoint_key_file: secret\n"),
             Contains("previous_checkpoint_key_file: expected a checkpoint_key_file beside it"));
  CHECK_THAT(master_refusal("checkpoint_key_file: none\n"), Contains("checkpoint_key_file: "));
  const ConfigFile file("checkpoint_key_file: short\n");
  write_text(file.folder / "short", std::string(31, 's'));
  CHECK_THAT(message_of(file, load_master_config(file.sources)),
             Contains("expected from 32 to 4096 bytes, received 31"));
}

TEST_CASE("a cluster's secret does not open the HTTP port") {
  const std::string http = "http: 0.0.0.0:17460\nsecret_file: secret\n";
  CHECK_THAT(master_refusal(http),
             Contains("http: expected a loopback address, or an http_token_file"));
  const std::string token = http + "http_token_file: secret\n";
  CHECK_THAT(master_refusal(token), Contains("or an http_certificate_file with its http_key_file"));
  CHECK(master_refusal(token + "insecure_http_plaintext: true\n") == "");
  const std::string certificate = token + "http_certificate_file: c.pem\n";
  CHECK(master_refusal(certificate + "http_key_file: k.pem\n") == "");
  CHECK_THAT(master_refusal(certificate), Contains("received one of them"));
  CHECK_THAT(worker_refusal(http), Contains("or an http_token_file"));
}

TEST_CASE("a worker neither listens beyond loopback nor trusts a master there without a secret") {
  const std::string address = "data_address: worker-1\n";
  CHECK_THAT(worker_refusal(address + "data: 0.0.0.0:17463\n"),
             Contains("data: expected a loopback address"));
  CHECK_THAT(worker_refusal("master: master.example:17461\n"),
             Contains("master: expected a loopback address, or a secret_file"));
  CHECK(worker_refusal("master: master.example:17461\nsecret_file: secret\n") == "");
}

TEST_CASE("a wildcard needs an address that peers can dial") {
  const std::string data = "secret_file: secret\ndata: 0.0.0.0:17463\n";
  CHECK_THAT(worker_refusal(data), Contains("data: expected data_address beside it"));
  CHECK_THAT(worker_refusal("secret_file: secret\ndata: \"[::]:17463\"\n"),
             Contains("data_address"));
  CHECK(worker_refusal(data + "data_address: 10.0.0.7\n") == "");
}

TEST_CASE("two ports of one daemon differ") {
  CHECK(master_refusal("listen: 127.0.0.1:17460\n") ==
        "c.yaml:1:9: listen: expected a port of its own, received 17460, which is that of http, "
        "too");
  CHECK(worker_refusal("data: 127.0.0.1:5\nhttp: localhost:5\n") ==
        "c.yaml:2:7: http: expected a port of its own, received 5, which is that of data, too");
  CHECK(worker_refusal("data: 127.0.0.1:0\nhttp: 127.0.0.1:0\n") == "");
}

TEST_CASE("runners have users that no account has, and none beside local_paths") {
  CHECK_THAT(worker_refusal("local_paths: true\nrunner: {confine: required}\n"),
             Contains("local_paths: expected runner.confine to be auto or best_effort beside it"));
  CHECK(worker_refusal("local_paths: true\nrunner: {confine: best_effort}\n") == "");
  CHECK_THAT(worker_refusal("runner: {users: {first: 33}}\n"),
             Contains("users.first: expected 0 or at least 1000, received 33"));
  CHECK(worker_refusal("runner: {users: {first: 300000, count: 10}}\n") == "");
  CHECK_THAT(worker_refusal("runner: {confine: sometimes}\n"), Contains("insecure_off"));
}

TEST_CASE("dev listens on loopback alone") {
  ConfigSources sources;
  sources.flags = {{"http", "0.0.0.0:17460", "--http 0.0.0.0:17460"}};
  CHECK_THAT(load_dev_config(sources).status().message(),
             Contains("--http 0.0.0.0:17460: http: expected a loopback address"));
}

TEST_CASE("a secret that others can read, or that is no secret, is refused where it is named") {
  const ConfigFile file("secret_file: secret\n");
  const auto refusal = [&] { return message_of(file, load_master_config(file.sources)); };
  CHECK_THAT(refusal(), Contains("c.yaml:1:14: secret_file: 'secret': No such file"));
  write_text(file.folder / "secret", "");
  CHECK_THAT(refusal(), Contains("expected from 32 to 4096 bytes, received 0"));
  write_text(file.folder / "secret", std::string(31, 's') + "\n");
  CHECK_THAT(refusal(), Contains("received 31"));
  write_text(file.folder / "secret", std::string(4097, 's'));
  CHECK_THAT(refusal(), Contains("received more"));
  for (const mode_t mode : {0640, 0604, 0620, 0660}) {
    write_text(file.folder / "secret", std::string(32, 's'), mode);
    CHECK_THAT(refusal(), Contains("expected a file that its owner alone may read"));
  }
  write_text(file.folder / "secret", std::string(4096, 's') + "\n", 0600);
  CHECK(refusal() == "");
}

TEST_CASE("a secret is in a regular file of its user") {
  const ConfigFile file("secret_file: secret\n");
  const std::string path = file.folder / "secret";
  const auto refusal = [&] { return message_of(file, load_master_config(file.sources)); };
  SECTION("a folder") {
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    CHECK_THAT(refusal(), Contains("secret_file: 'secret': expected a regular file"));
  }
  SECTION("a pipe") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_THAT(refusal(), Contains("secret_file: 'secret': expected a regular file"));
  }
  SECTION("a file that cannot be read") {
    REQUIRE(::symlink("/proc/self/mem", path.c_str()) == 0);  // nothing is at address 0
    CHECK_THAT(refusal(), Contains("secret_file: 'secret': Input/output error"));
  }
  SECTION("another user's") {
    write_text(path, std::string(32, 's'));
    if (::chown(path.c_str(), 1, 1) != 0) return;  // only root can give files away
    CHECK_THAT(refusal(), Contains("'secret': expected a file of user 0 or of root, received one "
                                   "of user 1"));
  }
}

TEST_CASE("systemd's credentials are not judged by the mode that their ACL shows") {
  ConfigFile file("secret_file: secret\n");
  write_text(file.folder / "secret", std::string(32, 's'), 0440);
  CHECK_FALSE(load_master_config(file.sources).ok());
  file.sources.environment["CREDENTIALS_DIRECTORY"] = file.folder.path();
  CHECK(message_of(file, load_master_config(file.sources)) == "");
}

TEST_CASE("no message and no value shows a secret") {
  const std::string canary = "canary-canary-canary-canary-canary";
  ConfigFile file("secret_file: secret\nlisten: 127.0.0.1:17460\n");
  write_text(file.folder / "secret", canary);
  std::vector<ConfigValue> values;
  const std::string refused = load_master_config(file.sources, &values).status().message();
  CHECK_THAT(refused, Contains("expected a port of its own") && !Contains("canary"));
  file.sources.flags = {{"http", "off", "--http off"}};
  const auto master = load_master_config(file.sources, &values);
  REQUIRE(message_of(file, master) == "");
  CHECK(master->security.secret == canary);
  for (const ConfigValue& value : values) CHECK_THAT(value.value, !Contains("canary"));
}

}  // namespace
}  // namespace leat

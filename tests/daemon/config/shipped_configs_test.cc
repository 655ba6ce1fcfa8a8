// Tests the configs in configs/, and the page that explains them.
#include <filesystem>
#include <map>

#include "tests/catch.h"
#include "tests/daemon/config/config_testing.h"
#include "tests/daemon/leatd_process.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// Returns the daemon of each shipped config. A new config must be added here.
std::map<std::string, std::string> shipped_configs() {
  std::map<std::string, std::string> found;
  const fs::path root = fs::path(LEAT_SOURCE_DIR) / "configs";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = fs::relative(entry.path(), root).string();
    if (entry.path().extension() != ".yaml") continue;
    if (name.starts_with("jobs/") || name.starts_with("programs/")) continue;  // job files
    found[entry.path().string()] =
        entry.path().filename().string().starts_with("master") ? "master" : "worker";
  }
  return found;
}

// Replaces the secrets that the configs name, which only an administrator has.
std::vector<ConfigSources::Flag> with_secrets_of(const TemporaryDirectory& folder) {
  write_text(folder / "secret", std::string(64, 's') + "\n");
  return {{"secret_file", folder / "secret", "--secret-file"},
          {"http_token_file", folder / "secret", "--set http_token_file"}};
}

// Returns the keys of both tables, with the values set in either.
std::vector<ConfigValue> all_values() {
  std::vector<ConfigValue> values, all;
  REQUIRE(load_master_config({}, &values).ok());
  all = values;
  REQUIRE(load_worker_config({}, &values).ok());
  all.insert(all.end(), values.begin(), values.end());
  REQUIRE(load_dev_config({}, &values).ok());
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

TEST_CASE("every shipped config loads") {
  const auto configs = shipped_configs();
  CHECK(configs.size() >= 6);
  const TemporaryDirectory folder;
  for (const auto& [path, daemon] : configs) {
    INFO(path);
    ConfigSources sources;
    sources.file = path;
    if (path.find("cluster-3-machines") != std::string::npos) {
      const std::string refused = daemon == "master"
                                      ? load_master_config(sources).status().message()
                                      : load_worker_config(sources).status().message();
      CHECK_THAT(refused, Catch::Contains("/etc/leat/secret"));
      sources.flags = with_secrets_of(folder);
    }
    if (daemon == "master") {
      CHECK(load_master_config(sources).status().message() == "");
    } else {
      CHECK(load_worker_config(sources).status().message() == "");
    }
  }
}

TEST_CASE("every shipped config starts its daemon, which stops in order") {
  for (const auto& [path, daemon] : shipped_configs()) {
    INFO(path);
    const TemporaryDirectory folder;
    std::vector<std::string> words = {daemon, "--config", path};
    for (const auto& flag : with_secrets_of(folder)) {
      words.insert(words.end(), {"--set", flag.key + "=" + flag.value});
    }
    words.insert(words.end(), {"--http", "127.0.0.1:0", "--state-dir", folder / "state"});
    if (daemon == "master") {
      words.insert(words.end(), {"--listen", "127.0.0.1:0"});
    } else {
      words.insert(words.end(), {"--data", "127.0.0.1:0", "--master", "127.0.0.1:1"});  // none
    }
    LeatdProcess process(words);
    CHECK(process.ready().http != "");
    CHECK(process.stop() == 0);
  }
}

TEST_CASE("dev starts without a config, and stops in order") {
  LeatdProcess dev({"dev", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workers", "2"});
  CHECK(dev.ready().listen != "");
  CHECK(dev.ready().http != "");
  CHECK(dev.stop() == 0);
}

TEST_CASE("the page about the daemons has every key and its default") {
  const std::string page = contents_of(std::string(LEAT_SOURCE_DIR) + "/docs/daemons.md");
  for (const ConfigValue& value : all_values()) {
    INFO(value.key);
    CHECK_THAT(page, Catch::Contains("| `" + value.key + "` |"));
    const bool of_machine = value.key == "name" || value.key == "state_dir" ||
                            value.key == "local_socket";  // in the state folder
    if (!of_machine && !value.value.empty()) {
      CHECK_THAT(page, Catch::Contains("`" + value.value + "`"));
    }
  }
}

}  // namespace
}  // namespace leat

#include <fstream>
#include <iterator>
#include <map>

#include "daemon/cli/cluster_connection.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

Environment of(std::map<std::string, std::string> variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

std::string text_of_settings(const Result<std::vector<SettingOrigin>>& settings) {
  if (!settings.ok()) return settings.status().message();
  std::string text;
  for (const SettingOrigin& each : *settings)
    text += cat(each.key, "=", each.value, " (", each.origin, ")\n");
  return text;
}

}  // namespace

TEST_CASE("a setting is from its flag, the environment, the user's file or its default") {
  const TemporaryDirectory home;
  CHECK(text_of_settings(explain_cluster({}, of({}))) ==
        "master=127.0.0.1:17461 (default)\ncluster=leat (default)\nsecret_file= (default)\n"
        "certificate_file= (default)\ninsecure_plaintext= (default)\n");
  const Environment environment = of({{"XDG_CONFIG_HOME", home.path()}, {"LEAT_CLUSTER", "lab"}});
  const std::string path = must(write_setting("master", "10.0.0.1:1", environment));
  CHECK(path == home / "leat/config.yaml");
  must(write_setting("cluster", "other", environment));
  ClusterOptions options;
  options.secret_file = "s";
  CHECK(text_of_settings(explain_cluster(options, environment)) ==
        cat("master=10.0.0.1:1 (", path, ")\ncluster=lab (LEAT_CLUSTER)\n",
            "secret_file=s (--secret-file)\ncertificate_file= (default)\n",
            "insecure_plaintext= (default)\n"));
  // The flag of a secret is meant, also where a certificate is usual.
  must(write_setting("certificate_file", "c.pem", environment));
  CHECK(must(find_cluster({}, environment)).certificate_file == "c.pem");
  CHECK(must(find_cluster(options, environment)).certificate_file == "");
  options.certificate_file = "d.pem";
  CHECK(must(find_cluster(options, environment)).certificate_file == "d.pem");
  CHECK(must(find_cluster(options, environment)).cluster == "lab");
}

TEST_CASE("a setting is written into the user's file and leaves the others") {
  const TemporaryDirectory home;
  const Environment environment = of({{"HOME", home.path()}});
  const std::string path = must(write_setting("cluster", "a: b", environment));
  CHECK(path == home / ".config/leat/config.yaml");
  must(write_setting("secret_file", "/etc/leat/secret", environment));
  CHECK(must(find_cluster({}, environment)).cluster == "a: b");
  must(write_setting("cluster", "", environment));
  CHECK(must(find_cluster({}, environment)).cluster == "leat");
  CHECK(must(find_cluster({}, environment)).secret_file == "/etc/leat/secret");
}

TEST_CASE("TLS is turned off for a client by the environment or the file, and by no mistake") {
  for (const auto& [value, seal] :
       {std::pair{"true", Seal::never}, std::pair{"false", Seal::beyond_loopback},
        std::pair{"", Seal::beyond_loopback}}) {
    const auto settings = must(find_cluster({}, of({{"LEAT_INSECURE_PLAINTEXT", value}})));
    CHECK(must(client_options_of(settings)).seal == seal);
  }
  CHECK(find_cluster({}, of({{"LEAT_INSECURE_PLAINTEXT", "yes"}})).status().message() ==
        "LEAT_INSECURE_PLAINTEXT: expected true or false, received 'yes'");
}

TEST_CASE("a setting that is none, or a file with an error, is left as it was") {
  const TemporaryDirectory home;
  const Environment environment = of({{"HOME", home.path()}});
  CHECK(write_setting("masters", "x", environment).status().message() ==
        "key: expected master, cluster, secret_file, certificate_file or insecure_plaintext, "
        "received 'masters'");
  CHECK(write_setting("master", "nowhere", environment).status().message() ==
        "master: expected host:port or unix:/PATH, received 'nowhere'");
  CHECK(write_setting("master", "a:1", of({})).status().code() == Code::failed_precondition);
  const std::string path = must(write_setting("master", "a:1", environment));
  std::ofstream(path) << "mastr: a:1\n";
  CHECK_THAT(write_setting("cluster", "x", environment).status().message(),
             Catch::Contains("unknown key"));
  std::ifstream in(path);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "mastr: a:1\n");
}

}  // namespace leat

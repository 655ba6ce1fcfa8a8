// The real `leat ca`, and its certificates in the eyes of the program openssl.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/leat_process.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

Finished run_openssl(const std::string& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "openssl");
  return run_program("/usr/bin/env", folder, arguments, {});
}

bool has_openssl() {
  if (run_openssl(".", {"version"}).exit_code == 0) return true;
  WARN("skipped: no program openssl");
  return false;
}

Finished ca(const TemporaryDirectory& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ca");
  return run_leat(folder.path(), arguments);
}

void must_ca(const TemporaryDirectory& folder, const std::vector<std::string>& arguments) {
  const Finished done = ca(folder, arguments);
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
}

// Whether openssl trusts a certificate by the files of an authority, as a client or a server.
std::string verify(const TemporaryDirectory& folder, const std::string& file,
                   const std::string& purpose = "sslclient",
                   const std::string& authority = "leat-ca") {
  const Finished done = run_openssl(
      folder.path(), {"verify", "-x509_strict", "-purpose", purpose, "-crl_check", "-CRLfile",
                      authority + "/revoked.pem", "-CAfile", authority + "/authority.pem", file});
  return done.exit_code == 0 ? "ok" : done.out + done.err;
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777u;
}

TEST_CASE("leat ca makes certificates that openssl accepts, with the fields of the profile") {
  if (!has_openssl()) return;
  const TemporaryDirectory folder;
  must_ca(folder, {"init"});
  must_ca(folder, {"issue", "--role", "worker", "--name", "w-1", "--host", "w.example", "--host",
                   "10.0.0.7", "--host", "fe80::7"});
  must_ca(folder, {"issue", "--role", "submitter", "--name", "alice", "-o", "a.pem"});
  CHECK(verify(folder, "w-1.pem") == "ok");
  CHECK(verify(folder, "w-1.pem", "sslserver") == "ok");
  CHECK(verify(folder, "a.pem") == "ok");
  CHECK(verify(folder, "a.pem", "sslserver") != "ok");

  const std::string text = run_openssl(folder.path(), {"x509", "-in", "w-1.pem", "-text"}).out;
  for (const char* part : {"Version: 3", "Issuer: CN = leat leat authority ", "Subject: CN = w-1\n",
                           "ASN1 OID: prime256v1", "ecdsa-with-SHA256",
                           "URI:spiffe://leat/worker/w-1, DNS:w.example, IP Address:10.0.0.7, IP "
                           "Address:FE80:0:0:0:0:0:0:7\n",
                           "X509v3 Basic Constraints: critical\n                CA:FALSE\n",
                           "X509v3 Key Usage: critical\n                Digital Signature\n",
                           "TLS Web Client Authentication, TLS Web Server Authentication\n",
                           "X509v3 Subject Key Identifier", "X509v3 Authority Key Identifier"}) {
    CHECK_THAT(text, Catch::Contains(part));
  }
  const std::string root =
      run_openssl(folder.path(), {"x509", "-in", "leat-ca/authority.pem", "-text"}).out;
  for (const char* part :
       {"X509v3 Basic Constraints: critical\n                CA:TRUE, pathlen:0\n",
        "X509v3 Key Usage: critical\n                Certificate Sign, CRL Sign",
        "X509v3 Subject Key Identifier"})
    CHECK_THAT(root, Catch::Contains(part));
  // The file has all that a process needs, and the key belongs to the certificate.
  const auto of_key = run_openssl(folder.path(), {"pkey", "-in", "w-1.pem", "-pubout"});
  const auto of_certificate =
      run_openssl(folder.path(), {"x509", "-in", "w-1.pem", "-noout", "-pubkey"});
  CHECK(of_key.exit_code == 0);
  CHECK(of_key.out == of_certificate.out);
  CHECK(run_openssl(folder.path(), {"verify", "-CAfile", "w-1.pem", "w-1.pem"}).exit_code == 0);
}

TEST_CASE("only their user can read the keys that leat ca makes, whatever the umask") {
  const TemporaryDirectory folder;
  const Finished made = run_program(
      "/bin/sh", folder.path(),
      {"-c", cat("umask 0; ", leat_binary(), " ca init && ", leat_binary(),
                 " ca issue --role admin --name root && ", leat_binary(), " ca export -o all.pem")},
      {});
  REQUIRE(made.exit_code == 0);
  CHECK(mode_of(folder / "leat-ca") == 0700);
  for (const char* file : {"authority.key", "authority.pem", "revoked.pem", "issued.jsonl"})
    CHECK(mode_of(folder / ("leat-ca/" + std::string(file))) == 0600);
  CHECK(mode_of(folder / "root.pem") == 0600);
  CHECK_THAT(contents_of(folder / "root.pem"), Catch::StartsWith("-----BEGIN PRIVATE KEY-----"));
  CHECK_THAT(contents_of(folder / "all.pem"),
             Catch::StartsWith("-----BEGIN CERTIFICATE-----") && !Catch::Contains("PRIVATE"));
}

TEST_CASE("leat ca replaces a file only with --renew, and then at once") {
  const TemporaryDirectory folder;
  must_ca(folder, {"init", "--dir", "my"});
  const std::vector<std::string> issue = {"ca",     "issue", "--role", "viewer",
                                          "--name", "bob",   "--host", "b"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), issue.begin(), issue.end());
    return run_program(leat_binary(), folder.path(), more, {"LEAT_CA_DIR=my"});
  };
  REQUIRE(with({}).exit_code == 0);
  const std::string before = contents_of(folder / "bob.pem");
  CHECK_THAT(with({}).err, Catch::Contains("'bob.pem': expected a file that does not exist yet"));
  CHECK(contents_of(folder / "bob.pem") == before);
  CHECK(with({"--renew"}).exit_code == 0);
  CHECK(contents_of(folder / "bob.pem") != before);
  // A certificate whose file cannot be written does not stay good.
  CHECK(with({"-o", "none/bob.pem"}).exit_code != 0);
  const Finished list = run_leat(folder.path(), {"ca", "list", "--json", "--dir", "my"});
  std::vector<std::string> states;
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);)
    states.push_back(nlohmann::json::parse(line)["state"]);
  CHECK(states == std::vector<std::string>{"GOOD", "GOOD", "REVOKED"});
  CHECK_THAT(run_leat(folder.path(), {"ca", "list", "--dir", "my"}).out,
             Catch::StartsWith("SERIAL ") && Catch::Contains("viewer  bob   GOOD "));
  CHECK_THAT(run_leat(folder.path(), {"ca", "list"}).err,
             Catch::Contains("'leat-ca': expected the folder of an authority"));
}

TEST_CASE("openssl refuses a certificate that leat ca has revoked") {
  if (!has_openssl()) return;
  const TemporaryDirectory folder;
  must_ca(folder, {"init"});
  must_ca(folder, {"issue", "--role", "worker", "--name", "good"});
  must_ca(folder, {"issue", "--role", "worker", "--name", "bad"});
  CHECK(verify(folder, "bad.pem") == "ok");
  must_ca(folder, {"revoke", "bad"});
  CHECK_THAT(verify(folder, "bad.pem"), Catch::Contains("certificate revoked"));
  CHECK(verify(folder, "good.pem") == "ok");
  CHECK(ca(folder, {"revoke", "bad"}).exit_code == 6);
}

TEST_CASE("both authorities of a rotation are trusted, and then the new one alone") {
  if (!has_openssl()) return;
  const TemporaryDirectory folder;
  must_ca(folder, {"init"});
  must_ca(folder, {"issue", "--role", "worker", "--name", "w", "-o", "old.pem"});
  must_ca(folder, {"issue", "--role", "worker", "--name", "x", "-o", "x.pem"});
  const Finished rotated = ca(folder, {"rotate"});
  CHECK_THAT(rotated.out, Catch::Contains("leat-ca/authority.pem to all daemons and people") &&
                              Catch::Contains("leat ca rotate --finish"));
  must_ca(folder, {"issue", "--role", "worker", "--name", "w", "-o", "new.pem"});
  CHECK(verify(folder, "old.pem") == "ok");
  CHECK(verify(folder, "new.pem") == "ok");
  // A holder of the new file trusts the holder of the old one.
  CHECK(run_openssl(folder.path(), {"verify", "-CAfile", "new.pem", "old.pem"}).exit_code == 0);
  must_ca(folder, {"revoke", "x"});
  CHECK_THAT(verify(folder, "x.pem"), Catch::Contains("certificate revoked"));

  const Finished refused = ca(folder, {"rotate", "--finish"});
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.out, Catch::Contains("of worker w of the old authority ends on ") &&
                              Catch::Contains(" and has been renewed"));
  CHECK(verify(folder, "old.pem") == "ok");
  must_ca(folder, {"rotate", "--finish", "--force"});
  CHECK(verify(folder, "old.pem") != "ok");
  CHECK(verify(folder, "new.pem") == "ok");
}

TEST_CASE("a certificate of another authority of a cluster of the same name is refused") {
  if (!has_openssl()) return;
  const TemporaryDirectory folder;
  must_ca(folder, {"init"});
  must_ca(folder, {"init", "--dir", "other"});
  must_ca(folder, {"init", "--dir", "prod", "--cluster", "prod"});
  must_ca(folder, {"issue", "--role", "admin", "--name", "eve", "--dir", "other"});
  must_ca(folder, {"issue", "--role", "admin", "--name", "eve", "--dir", "prod", "-o", "p.pem"});
  CHECK(verify(folder, "eve.pem", "sslclient", "other") == "ok");
  CHECK(verify(folder, "eve.pem") != "ok");
  CHECK(verify(folder, "p.pem") != "ok");
  CHECK_THAT(run_openssl(folder.path(), {"x509", "-in", "p.pem", "-text"}).out,
             Catch::Contains("URI:spiffe://prod/admin/eve\n"));
}

TEST_CASE("a certificate request gives its public key and nothing else") {
  if (!has_openssl()) return;
  const TemporaryDirectory folder;
  must_ca(folder, {"init"});
  const auto request = [&](const std::string& name, const std::string& key) {
    const Finished made = run_openssl(
        folder.path(), {"req", "-new", "-newkey", "ec", "-pkeyopt", key, "-nodes", "-keyout",
                        name + ".key", "-out", name + ".csr", "-subj", "/CN=admin", "-addext",
                        "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign",
                        "-addext", "subjectAltName=URI:spiffe://leat/admin/eve"});
    INFO(made.err);
    REQUIRE(made.exit_code == 0);
  };
  request("w", "ec_paramgen_curve:P-256");
  const std::vector<std::string> issue = {"issue", "--role", "viewer", "--name",
                                          "v",     "-o",     "v.pem",  "--csr"};
  const auto with = [&](const std::string& file) {
    std::vector<std::string> all = issue;
    all.push_back(file);
    return ca(folder, all);
  };
  REQUIRE(with("w.csr").exit_code == 0);
  CHECK(verify(folder, "v.pem") == "ok");
  CHECK_THAT(contents_of(folder / "v.pem"), !Catch::Contains("PRIVATE KEY"));
  const std::string text = run_openssl(folder.path(), {"x509", "-in", "v.pem", "-text"}).out;
  CHECK_THAT(text, Catch::Contains("URI:spiffe://leat/viewer/v\n") && Catch::Contains("CA:FALSE") &&
                       !Catch::Contains("admin") && !Catch::Contains("Certificate Sign"));
  CHECK(run_openssl(folder.path(), {"x509", "-in", "v.pem", "-noout", "-pubkey"}).out ==
        run_openssl(folder.path(), {"pkey", "-in", "w.key", "-pubout"}).out);

  // Another's key under a signature of one's own, weak or strange keys, and what is no request.
  std::string changed = contents_of(folder / "w.csr");
  const size_t end = changed.find("\n-----END");
  changed[end - 20] = changed[end - 20] == 'A' ? 'B' : 'A';
  std::ofstream(folder / "changed.csr") << changed;
  request("p384", "ec_paramgen_curve:P-384");
  std::ofstream(folder / "empty.csr") << "";
  for (const char* wrong :
       {"changed.csr", "p384.csr", "empty.csr", "w.key", "leat-ca/authority.pem", "none.csr"}) {
    INFO(wrong);
    must_ca(folder, {"list"});
    std::filesystem::remove(folder / "v.pem");
    const Finished refused = with(wrong);
    CHECK(refused.exit_code != 0);
    CHECK(refused.errors().size() == 1);
    CHECK_FALSE(std::filesystem::exists(folder / "v.pem"));
  }
}

TEST_CASE("processes of leat ca that run at once lose no certificate") {
  const TemporaryDirectory folder;
  const auto run_all = [&](const std::vector<std::vector<std::string>>& commands) {
    std::vector<std::unique_ptr<ChildProcess>> children;
    ChildProcess::Options options;
    options.folder = folder.path();
    for (const auto& arguments : commands)
      children.push_back(std::make_unique<ChildProcess>(leat_binary(), arguments, options));
    size_t good = 0;
    for (const auto& child : children) good += child->wait(std::chrono::minutes(2)) == 0 ? 1 : 0;
    return good;
  };
  CHECK(run_all({4, {"ca", "init"}}) == 1);
  std::vector<std::vector<std::string>> issues;
  for (const char* name : {"a", "b", "c", "d", "e", "f"})
    issues.push_back({"ca", "issue", "--role", "worker", "--name", name});
  CHECK(run_all(issues) == 6);
  const Finished list = ca(folder, {"list", "--no-headers"});
  CHECK(std::count(list.out.begin(), list.out.end(), '\n') == 6);
  // One file for all: the first one has it.
  CHECK(run_all({4, {"ca", "issue", "--role", "admin", "--name", "one"}}) == 1);
  // Nothing is left of those that came too late: seven certificates, and the authority's folder.
  const auto entries = [](const std::string& path) {
    return std::distance(std::filesystem::directory_iterator(path), {});
  };
  CHECK(entries(folder.path()) == 8);
  CHECK(entries(folder / "leat-ca") == 4);
}

TEST_CASE("leat ca refuses wrong arguments as wrong usage") {
  const TemporaryDirectory folder;
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{},
                                             {"issue"},
                                             {"issue", "--role", "runner", "--name", "r"},
                                             {"init", "--lasts", "10y"},
                                             {"init", "--lasts", "36501d"},
                                             {"export"},
                                             {"rotate", "--force"}}) {
    CHECK(ca(folder, wrong).exit_code == 2);
  }
  CHECK(ca(folder, {"init", "--cluster", "Not/One"}).exit_code == 7);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace leat

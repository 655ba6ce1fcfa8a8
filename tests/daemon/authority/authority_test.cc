// The folder of an authority, in this process. tests/daemon/authority/ca_command_test.cc has the
// certificates, as another program sees them.
#include "daemon/authority/authority.h"

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <map>

#include "daemon/base/private_file.h"
#include "devices/base/failpoint.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr const char* kFiles[] = {"authority.key", "authority.pem", "revoked.pem", "issued.jsonl"};
constexpr std::chrono::seconds kDay = std::chrono::hours(24);

// An authority in a folder of its own, for a cluster "leat", which lasts 100 days.
class Scene {
 public:
  Scene() { must(Authority::make(path(), "leat", 100 * kDay, clock)); }

  std::string path() const { return folder_ / "ca"; }
  std::string path_of(const std::string& file) const { return cat(path(), "/", file); }
  Result<Authority> open() const { return Authority::open(path(), clock); }
  MadeCertificate issue(const std::string& role, const std::string& name) const {
    auto authority = must(open());
    return must(authority.issue({role, name, {}, 10 * kDay, ""}));
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const char* file : kFiles) all[file] = contents_of(path_of(file));
    return all;
  }
  // The mode of the file stays as it is.
  void put(const std::string& file, const std::string& text) const {
    std::ofstream(path_of(file)) << text;
  }

  ManualClock clock;

 private:
  TemporaryDirectory folder_;
};

std::string error_of(const Result<Authority>& opened) {
  return opened.ok() ? "(no error)" : opened.status().message();
}

TEST_CASE("an authority remembers what it has issued and revoked") {
  Scene scene;
  const auto alice = scene.issue("submitter", "alice").issued;
  const auto worker = scene.issue("worker", "alice").issued;
  const auto bob = scene.issue("admin", "bob").issued;
  CHECK(must(scene.open()).issued() == std::vector{alice, worker, bob});
  CHECK(alice.serial.size() == 32);
  CHECK(alice.until - alice.from == 10 * kDay.count() + 300);

  CHECK(must(must(scene.open()).revoke("alice")).size() == 2);
  CHECK_THAT(must(scene.open()).revoke("alice").status().message(),
             Catch::Contains("'alice': expected the serial number or the name"));
  CHECK(must(must(scene.open()).revoke(bob.serial)).size() == 1);
  const auto authority = must(scene.open());
  for (const auto& each : authority.issued()) CHECK(each.revoked);
}

TEST_CASE("a certificate ends with its authority or before") {
  Scene scene;
  auto authority = must(scene.open());
  CHECK(authority.issue({"worker", "w", {}, 100 * kDay, ""}).ok());
  const auto refused =
      authority.issue({"worker", "w", {}, 100 * kDay + std::chrono::seconds(1), ""});
  CHECK_THAT(refused.status().message(),
             Catch::Contains("lasts: expected a certificate that ends with its authority on ") &&
                 Catch::Contains(", received one until "));
  CHECK_THAT(authority.issue({"worker", "w", {}, {}, ""}).status().message(),
             Catch::Contains("lasts: expected a time to come, received 0"));
  scene.clock.advance(101 * kDay);
  CHECK_FALSE(authority.issue({"worker", "w", {}, kDay, ""}).ok());
}

TEST_CASE("roles, names, hosts and clusters that are none get no certificate") {
  Scene scene;
  auto authority = must(scene.open());
  const auto wrong = [&](const CertificateOrder& order) {
    const auto made = authority.issue(order);
    return made.ok() ? "(no error)" : made.status().message();
  };
  for (const std::string role : {"", "runner", "member", "Admin", "admin/x", "operate"}) {
    INFO(role);
    CHECK_THAT(wrong({role, "a", {}, kDay, ""}), Catch::Contains("role: expected"));
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("-x"), std::string("../up"),
        std::string("a/admin/b"), std::string("a,URI:spiffe://leat/admin/b"), std::string("a b"),
        std::string("a\0b", 3), std::string("a\n"), std::string("\xc3\xa4"),
        std::string(65, 'a')}) {
    INFO(name);
    CHECK_THAT(wrong({"viewer", name, {}, kDay, ""}), Catch::Contains("name"));
  }
  for (const std::string& host :
       {std::string(), std::string("a,URI:spiffe://leat/admin/b"), std::string("*.example"),
        std::string("a..b"), std::string("-a.example"), std::string("1.2.3.999"),
        std::string("10.0.0.1\0x", 10), std::string("a\0b", 3), std::string("::g"),
        std::string("http://a"), std::string(64, 'a'), std::string(254, 'a')}) {
    INFO(host);
    CHECK_THAT(wrong({"worker", "w", {host}, kDay, ""}), Catch::Contains("host: expected"));
  }
  CHECK(authority.issued().empty());
  CHECK_THAT(contents_of(scene.path_of("issued.jsonl")),
             Catch::StartsWith("{\"certificates\": 0}"));
  const TemporaryDirectory other;
  for (const std::string cluster : {"", "Leat", "a/b", "a b", "a authority b"}) {
    INFO(cluster);
    CHECK_FALSE(Authority::make(other / "ca", cluster, kDay, scene.clock).ok());
  }
  for (const std::string host : {"10.0.0.1", "fe80::1", "a", "w-1.example", "3com.example"})
    CHECK(check_host(host).ok());
}

TEST_CASE("an authority is made in no folder that has files") {
  Scene scene;
  const auto before = scene.files();
  CHECK_THAT(Authority::make(scene.path(), "leat", kDay, scene.clock).message(),
             Catch::Contains("expected a folder that is empty or not there"));
  CHECK(scene.files() == before);
  const TemporaryDirectory other;
  std::ofstream(other / "mine") << "mine";
  CHECK_FALSE(Authority::make(other.path(), "leat", kDay, scene.clock).ok());
  CHECK(contents_of(other / "mine") == "mine");
}

// Checks that opening fails with the path of the file, and changes no file.
void check_file_refused(const Scene& scene, const std::string& file) {
  const auto before = scene.files();
  const std::string message = error_of(scene.open());
  CHECK_THAT(message, Catch::Contains("'" + scene.path_of(file) + "'"));
  CHECK(scene.files() == before);
}

TEST_CASE("a damaged file of an authority is an error with its name, and loses nothing") {
  Scene scene;
  scene.issue("worker", "w");
  scene.issue("submitter", "alice");
  must(must(scene.open()).revoke("alice"));
  must(must(scene.open()).rotate());
  scene.issue("worker", "w");
  must(must(scene.open()).revoke("w"));
  const auto whole = scene.files();
  for (const std::string file : kFiles) {
    INFO(file);
    const std::string& text = whole.at(file);
    // Without its last newline a .pem file has all that it had.
    for (size_t size = 0; size + 1 < text.size(); size += size % 5 == 0 ? 1 : 13) {
      INFO(size);
      scene.put(file, text.substr(0, size));
      check_file_refused(scene, file);
    }
    // A block or a line less.
    for (size_t end = text.find('\n'); end + 1 < text.size(); end = text.find('\n', end + 1)) {
      INFO(end);
      scene.put(file, text.substr(0, end + 1));
      check_file_refused(scene, file);
    }
    for (const std::string& garbage :
         {std::string(3000, '\0'), std::string(3000, 'x'), whole.at("issued.jsonl") + "x",
          whole.at(file == "authority.pem" ? "revoked.pem" : "authority.pem")}) {
      scene.put(file, garbage);
      check_file_refused(scene, file);
    }
    must(real_files().remove(scene.path_of(file)));
    check_file_refused(scene, file);
    must(write_private_file(scene.path_of(file), text, IfThere::refuse));
  }
  CHECK(must(scene.open()).issued().size() == 3);
}

TEST_CASE("a changed byte in the keys and lists of an authority is found") {
  Scene scene;
  scene.issue("worker", "w");
  must(must(scene.open()).revoke("w"));
  const std::string id = must(scene.open()).id();
  size_t harmless = 0;
  for (const std::string file : {"authority.key", "authority.pem", "revoked.pem"}) {
    INFO(file);
    const std::string text = contents_of(scene.path_of(file));
    // The last group of four digits may have bits that stand for nothing.
    const size_t begin = text.find('\n', text.find("-----BEGIN")) + 1;
    for (size_t at = begin; at + 5 < text.find("\n-----END"); at += 2) {
      if (text[at] == '\n') continue;
      INFO(at);
      std::string changed = text;
      changed[at] = text[at] == 'A' ? 'B' : 'A';
      scene.put(file, changed);
      const auto opened = scene.open();
      // A file of a key has two numbers beside the key, which libcrypto does not look at.
      if (file == "authority.key" && opened.ok()) {
        CHECK(opened->id() == id);
        ++harmless;
      } else {
        CHECK_THAT(error_of(opened), Catch::Contains(file));
      }
    }
    scene.put(file, text);
  }
  CHECK(harmless < 8);
}

TEST_CASE("an older list of issued certificates than that of the revoked ones is refused") {
  Scene scene;
  const std::string before = contents_of(scene.path_of("issued.jsonl"));
  scene.issue("worker", "w");
  const std::string issued = contents_of(scene.path_of("issued.jsonl"));
  must(must(scene.open()).revoke("w"));
  // A crash between the two files of a revocation: the list counts.
  scene.put("issued.jsonl", issued);
  CHECK(must(scene.open()).issued().at(0).revoked);
  scene.put("issued.jsonl", before);
  CHECK_THAT(error_of(scene.open()), Catch::Contains("the file is older"));
}

TEST_CASE("an older list of revoked certificates than that of the issued ones is refused") {
  Scene scene;
  scene.issue("worker", "w");
  const std::string before = contents_of(scene.path_of("revoked.pem"));
  must(must(scene.open()).revoke("w"));
  const std::string after = contents_of(scene.path_of("revoked.pem"));
  scene.put("revoked.pem", before);
  CHECK_THAT(error_of(scene.open()), Catch::Contains("revoked.pem': expected the certificate") &&
                                         Catch::Contains("the file is older"));
  scene.put("revoked.pem", after);
  CHECK(scene.open().ok());
}

TEST_CASE("a serial number that is none is refused, and what a killed process left is removed") {
  Scene scene;
  const auto w = scene.issue("worker", "w");
  const std::string issued = contents_of(scene.path_of("issued.jsonl"));
  for (const std::string wrong : {"", "zz", "12 ", "ABC"}) {
    CAPTURE(wrong);
    std::string text = issued;
    text.replace(text.find(w.issued.serial), w.issued.serial.size(), wrong);
    scene.put("issued.jsonl", text);
    CHECK_THAT(error_of(scene.open()), Catch::Contains("serial: expected "));
  }
  scene.put("issued.jsonl", issued);
  scene.put("authority.key.tmp.x1Yz0a", "a private key");
  for (const char* copy : {"authority.key.bak", "issued.jsonl.old", "revoked.pem.tmp.old"})
    scene.put(copy, "a copy of somebody's own");
  CHECK(scene.open().ok());
  CHECK(!real_files().exists(scene.path_of("authority.key.tmp.x1Yz0a")).value());
  for (const char* copy : {"authority.key.bak", "issued.jsonl.old", "revoked.pem.tmp.old"})
    CHECK(real_files().exists(scene.path_of(copy)).value());
}

TEST_CASE("the key of another authority is refused") {
  Scene scene, other;
  for (const std::string file : {"authority.key", "authority.pem", "revoked.pem"}) {
    const std::string own = contents_of(scene.path_of(file));
    scene.put(file, contents_of(other.path_of(file)));
    CHECK_THAT(error_of(scene.open()), Catch::Contains("expected the "));
    scene.put(file, own);
  }
  CHECK(scene.open().ok());
}

TEST_CASE("an authority that others may read or replace is refused") {
  Scene scene;
  for (const mode_t mode : {0640, 0604, 0620}) {
    REQUIRE(::chmod(scene.path_of("authority.key").c_str(), mode) == 0);
    CHECK_THAT(error_of(scene.open()),
               Catch::Contains("authority.key': expected it to be of user"));
  }
  REQUIRE(::chmod(scene.path_of("authority.key").c_str(), 0400) == 0);
  CHECK(scene.open().ok());
  for (const mode_t mode : {0750, 0701, 0777}) {
    REQUIRE(::chmod(scene.path().c_str(), mode) == 0);
    CHECK_THAT(error_of(scene.open()), Catch::Contains("/ca': expected it to be of user"));
  }
}

TEST_CASE("a rotation trusts both authorities until it is finished") {
  Scene scene;
  const auto before = scene.issue("worker", "w").issued;
  must(must(scene.open()).rotate());
  const auto after = scene.issue("worker", "w").issued;
  auto authority = must(scene.open());
  CHECK(after.authority == authority.id());
  CHECK(before.authority != authority.id());
  CHECK(authority.trusts(before.authority));
  CHECK(authority.good_of_old() == std::vector{before});
  CHECK_THAT(authority.finish_rotation(false).message(),
             Catch::Contains("expected no good certificates of older authorities, received 1"));
  CHECK(must(authority.revoke(before.serial)).size() == 1);
  must(authority.finish_rotation(false));
  CHECK(authority.issued().size() == 2);
  CHECK_THAT(authority.finish_rotation(false).message(),
             Catch::Contains("expected an older authority"));
}

TEST_CASE("a rotation ends without force once the old certificates have expired") {
  Scene scene;
  scene.issue("worker", "w");
  must(must(scene.open()).rotate());
  scene.clock.advance(11 * kDay);
  must(must(scene.open()).finish_rotation(false));
}

TEST_CASE("a change of an authority that stops anywhere leaves it whole, and can be repeated") {
  using Change = std::function<Status(Authority&)>;
  const std::map<std::string, Change> changes = {
      {"issue",
       [](Authority& a) {
         return a.issue({"worker", "x", {}, kDay, ""}).status();
       }},
      {"revoke", [](Authority& a) { return a.revoke("old").status(); }},
      {"rotate", [](Authority& a) { return a.rotate(); }},
      {"finish", [](Authority& a) { return a.finish_rotation(true); }}};
  for (const auto& [name, change] : changes) {
    for (const std::string failpoint : {"files/rename", "files/sync_directory"}) {
      bool was_whole = false;
      for (uint64_t pass = 1; !was_whole; ++pass) {
        INFO(name << " " << failpoint << " " << pass);
        REQUIRE(pass < 20);
        Scene scene;
        const auto old = scene.issue("worker", "old").issued;
        if (name == "finish") must(must(scene.open()).rotate());
        {
          auto authority = must(scene.open());
          const ScopedFailpoint fails(failpoint, unavailable("stopped"), pass);
          was_whole = change(authority).ok();
        }
        {
          auto again = must(scene.open());
          CHECK(again.issued().at(0).serial == old.serial);
          if (name != "finish") CHECK(again.trusts(old.authority));
          const Status repeated = change(again);
          INFO(repeated.to_string());
          // The second try may find that the first one has done it.
          CHECK((repeated.ok() || repeated.code() == Code::failed_precondition));
        }
        const auto again = must(scene.open());
        if (name == "revoke") CHECK(again.issued().at(0).revoked);
        if (name == "finish") CHECK_FALSE(again.trusts(old.authority));
      }
    }
  }
}

TEST_CASE("a list of issued certificates reads back as it was") {
  std::vector<IssuedCertificate> issued = {
      {"80ff", "worker", "123", {"10.0.0.1", "fe80::1", "null", "1e3"}, -5, 7, "ab", std::nullopt},
      {"90", "admin", "true", {}, 0, INT64_MAX, "cd", 9}};
  CHECK(must(read_issued(text_of(issued), "list")) == issued);
  CHECK(must(read_issued(text_of({}), "list")).empty());
  const std::string text = text_of(issued);
  for (const std::string& wrong :
       {std::string(), text.substr(text.find('\n') + 1), text + text, text + "\n",
        "{\"serial\": 5}\n" + text, "[]\n" + text, std::string("{\"certificates\": -1}\n")}) {
    INFO(wrong);
    CHECK_THAT(read_issued(wrong, "list").status().message(), Catch::StartsWith("list"));
  }
}

}  // namespace
}  // namespace leat

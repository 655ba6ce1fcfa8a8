// The roles of users of the master's machine that prove no key.
#include "daemon/master/local_access.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "daemon/master/local_names.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr uid_t kOwn = 500, kAnn = 1001, kBob = 1002, kNameless = 4242;

LocalAccount account(uid_t user) {
  if (user == kAnn) return {"ann", {"ann", "staff", "night"}};
  if (user == kBob) return {"bob", {"bob"}};
  return {cat("uid-", user), {}};
}

// "submitter ann", "member", or the reason of a refusal.
std::string judged(const LocalUsers& users, uid_t user, RpcRole role = RpcRole::client) {
  const auto grant = LocalAccess(users, kOwn, account).judge({user, 0}, role);
  if (!grant.ok()) return grant.status().message();
  return cat(right_name(grant->right), " ", grant->name);
}

TEST_CASE("the master's own user and root may do everything, whatever the config says") {
  const LocalUsers users = {
      {"*", LocalRole::none}, {"uid:0", LocalRole::none}, {cat("uid:", kOwn), LocalRole::viewer}};
  for (const RpcRole role : {RpcRole::client, RpcRole::worker, RpcRole::runner}) {
    CHECK(judged(users, 0, role) == "member uid-0");
    CHECK(judged(users, kOwn, role) == "member uid-500");
  }
}

TEST_CASE("without an entry a user of the machine may do nothing") {
  CHECK(judged({}, kAnn) ==
        "user 'ann' (uid 1001): expected a role in local_users that may be a client, received "
        "none");
  CHECK_THAT(judged({}, kAnn, RpcRole::worker), Catch::Contains("that may be a worker"));
  CHECK_THAT(judged({}, kAnn, RpcRole::runner), Catch::Contains("that may be a runner"));
  CHECK_THAT(judged({}, kNameless), Catch::Contains("user 'uid-4242' (uid 4242)"));
}

TEST_CASE("an entry of the user itself counts before those of its groups, and these before '*'") {
  const LocalUsers users = {{"*", LocalRole::viewer},
                            {"group:staff", LocalRole::submitter},
                            {"group:night", LocalRole::operate}};
  CHECK(judged(users, kBob) == "viewer bob");
  CHECK(judged(users, kNameless) == "viewer uid-4242");
  CHECK(judged(users, kAnn) == "operator ann");  // several groups add up
  LocalUsers more = users;
  more["ann"] = LocalRole::viewer;
  CHECK(judged(more, kAnn) == "viewer ann");
  more["ann"] = LocalRole::none;
  CHECK_THAT(judged(more, kAnn), Catch::Contains("received none"));
  more["uid:1001"] = LocalRole::admin;
  CHECK(judged(more, kAnn) == "admin ann");
}

TEST_CASE("a user listed by number keeps its name while the accounts cannot be asked") {
  bool answers = true;
  int asked = 0;
  const auto find = [&](uid_t user) {
    ++asked;
    LocalAccount found = account(user);
    if (!answers) found = {cat("uid-", user), {}};
    found.is_known = answers;
    return found;
  };
  const LocalUsers users = {{"uid:1001", LocalRole::submitter}, {"bob", LocalRole::viewer}};
  const LocalAccess forgets(users, kOwn, find, std::chrono::seconds(0));
  CHECK(forgets.judge({kAnn, 0}, RpcRole::client)->name == "ann");
  answers = false;
  CHECK(forgets.judge({kAnn, 0}, RpcRole::client)->name == "ann");
  CHECK(forgets.judge({kBob, 0}, RpcRole::client).status().code() == Code::unavailable);
  // A connection of a user that was never told by name waits once, and not each time again.
  const LocalAccess remembers(users, kOwn, find);
  CHECK(remembers.judge({kAnn, 0}, RpcRole::client)->name == "uid-1001");
  const int before = asked;
  REQUIRE(remembers.judge_known({kAnn, 0}, RpcRole::client));
  CHECK((*remembers.judge_known({kAnn, 0}, RpcRole::client))->name == "uid-1001");
  CHECK(asked == before);
  CHECK_FALSE(remembers.judge_known({kBob, 0}, RpcRole::client));
}

TEST_CASE("jobs of a user belong to one name, whatever becomes of its account") {
  const TemporaryDirectory folder;
  std::map<uid_t, std::string> accounts;
  const auto find = [&](uid_t user) -> LocalAccount {
    const auto found = accounts.find(user);
    return {found == accounts.end() ? cat("uid-", user) : found->second, {}};
  };
  const LocalUsers users = {{"*", LocalRole::submitter}, {"eve", LocalRole::none}};
  // Each call is of a master that has just started.
  const auto owner = [&](uid_t user) {
    const auto names = must(LocalNames::open(real_files(), folder / "local_names", {}));
    const LocalAccess access(users, kOwn, find, std::chrono::seconds(0),
                             [&](uid_t number, const LocalAccount& account) {
                               return names->name_of(number, account.name, account.is_known);
                             });
    const auto grant = access.judge({user, 0}, RpcRole::client);
    return grant.ok() ? grant->name : std::string(code_name(grant.status().code()));
  };
  accounts = {{kAnn, "ann"}, {kNameless, "eve"}};
  CHECK(owner(kAnn) == "ann");
  CHECK(owner(kBob) == "uid-1002");
  CHECK(owner(kNameless) == "failed_precondition");  // of eve nothing is noted
  accounts = {{kBob, "bob"}, {kNameless, "ann"}};
  CHECK(owner(kAnn) == "ann");
  CHECK(owner(kBob) == "uid-1002");
  CHECK(owner(kNameless) == "uid-4242");  // the jobs of ann are not its own
  // While the accounts cannot be asked, nothing is noted for good.
  {
    const auto names = must(LocalNames::open(real_files(), folder / "local_names", {}));
    CHECK(names->name_of(1007, "uid-1007", false) == "uid-1007");
    CHECK(names->name_of(1007, "dora") == "dora");
    CHECK(names->name_of(1007, "uid-1007", false) == "dora");
  }
  std::ofstream(folder / "local_names") << "1001 ann\n1002 ann\n";
  const auto broken = LocalNames::open(real_files(), folder / "local_names", {}).status();
  CHECK(broken.code() == Code::invalid_argument);
  CHECK_THAT(broken.message(), Catch::Contains("local_names:2: expected the number and the name"));
}

TEST_CASE("names of users outlive a disk that was full") {
  const TemporaryDirectory folder;
  class Full final : public ForwardingFiles {
   public:
    Full() : ForwardingFiles(real_files()) {}
    Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
      if (is_full) return resource_exhausted("full");
      return files_.create(path);
    }
    bool is_full = true;
  } files;
  const auto names = must(LocalNames::open(files, folder / "local_names", {}));
  CHECK(names->name_of(kAnn, "ann") == "ann");
  CHECK(names->name_of(kAnn, "uid-1001") == "ann");
  files.is_full = false;
  CHECK(names->name_of(kAnn, "uid-1001") == "ann");
  const auto later = must(LocalNames::open(files, folder / "local_names", {}));
  CHECK(later->name_of(kAnn, "uid-1001") == "ann");
}

TEST_CASE("a worker is no person, and a person is no worker") {
  const LocalUsers users = {{"ann", LocalRole::worker}, {"bob", LocalRole::admin}};
  CHECK(judged(users, kAnn, RpcRole::worker) == "member ann");
  CHECK(judged(users, kAnn, RpcRole::runner) == "member ann");
  CHECK_THAT(judged(users, kAnn), Catch::Contains("that may be a client"));
  CHECK_THAT(judged(users, kBob, RpcRole::worker), Catch::Contains("that may be a worker"));
  // By two entries it may be both.
  LocalUsers both = users;
  both["uid:1001"] = LocalRole::submitter;
  CHECK(judged(both, kAnn) == "submitter ann");
  CHECK(judged(both, kAnn, RpcRole::worker) == "member ann");
}

TEST_CASE("users and groups of the config that the machine lacks are named") {
  const LocalAccess access({{"root", LocalRole::viewer},
                            {"group:root", LocalRole::viewer},
                            {"no-such-user", LocalRole::viewer},
                            {"group:no-such-group", LocalRole::viewer},
                            {"uid:77", LocalRole::viewer},
                            {"*", LocalRole::none}},
                           kOwn);
  CHECK(access.strangers() == std::vector<std::string>{"group:no-such-group", "no-such-user"});
}

TEST_CASE("the warning about unknown users is safe beside other threads that ask the accounts") {
  // The C library keeps the answer of getpwnam(3) in memory that all threads of a process share.
  const LocalAccess access({{"daemon", LocalRole::viewer}, {"group:daemon", LocalRole::viewer}},
                           kOwn);
  const passwd* const user = ::getpwnam("root");
  const group* const users = ::getgrnam("root");
  REQUIRE((user != nullptr && users != nullptr));
  CHECK(access.strangers().empty());
  CHECK(std::string(user->pw_name) == "root");
  CHECK(std::string(users->gr_name) == "root");
}

TEST_CASE("the accounts of the machine tell the name and the groups of a user") {
  const LocalAccount root = find_account(0);
  CHECK(root.name == "root");
  CHECK(std::find(root.groups.begin(), root.groups.end(), "root") != root.groups.end());
  const LocalAccount nobody = find_account(3'999'999'999);
  CHECK(nobody.name == "uid-3999999999");
  CHECK(nobody.groups.empty());
}

}  // namespace
}  // namespace leat

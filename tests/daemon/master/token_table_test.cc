// The file of a master's tokens.
#include "daemon/master/token_table.h"

#include <fstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr char kOfTokens[] = "the secret that the keys of these tokens are made from";

struct TableScene {
  std::unique_ptr<TokenTable> open() {
    return must(TokenTable::open(real_files(), path, clock, [this] { return ++random; }));
  }
  Status why() {
    return TokenTable::open(real_files(), path, clock, [this] { return ++random; }).status();
  }
  static Grant grant(const std::string& name, int64_t expires = 0) {
    return {Right::submitter, name, 0, expires};
  }
  TemporaryDirectory folder;
  const std::string path = folder / "tokens";
  ManualClock clock;
  uint64_t random = 40;
};

TEST_CASE("tokens are there again after a restart, with those that were revoked") {
  TableScene scene;
  TokenView alice, bob;
  {
    const auto table = scene.open();
    alice = must(table->add(TableScene::grant("alice"), "admin 'x' at 127.0.0.1:1", kOfTokens));
    bob = must(table->add(TableScene::grant("bob", 1'000'000), "y", kOfTokens));
    CHECK(alice.grant.number != bob.grant.number);
    CHECK(table->is_good(alice.grant));
    CHECK(must(table->revoke(bob.grant.number)).revoked_ms > 0);
  }
  const auto table = scene.open();
  CHECK(table->all(kOfTokens, "").size() == 2);
  CHECK(table->all(kOfTokens, "")[0] == alice);
  CHECK(table->is_good(alice.grant));
  CHECK_FALSE(table->is_good(bob.grant));
  // The table knows the whole grant and not the number alone.
  Grant other = alice.grant;
  other.name = "carol";
  CHECK_FALSE(table->is_good(other));
  CHECK(table->revoke(99).status().code() == Code::failed_precondition);
}

TEST_CASE("a token that cannot be is not made") {
  TableScene scene;
  const auto table = scene.open();
  for (const char* name : {"", "a b", "-a", "a:b", "a\nb", "../x"})
    CHECK(table->add(TableScene::grant(name), "x", kOfTokens).status().code() ==
          Code::invalid_argument);
  CHECK(table->add(TableScene::grant("a", 1), "x", kOfTokens).status().code() ==
        Code::invalid_argument);
  CHECK(table->add({Right::member, "a", 0, 0}, "x", kOfTokens).status().code() ==
        Code::invalid_argument);
  CHECK(table->add({Right::runner, "a", 0, 0}, "x", kOfTokens).status().code() ==
        Code::invalid_argument);
  CHECK(table->all(kOfTokens, "").empty());
}

TEST_CASE("a damaged file of tokens is not passed over") {
  TableScene scene;
  const TokenView alice = must(scene.open()->add(TableScene::grant("alice"), "x", kOfTokens));
  int number = 4;  // behind a comment, the token and the mark of its secret
  for (const char* line : {"nonsense", "7 emperor bob 0 0 0 x", "7 viewer b:b 0 0 0 x"}) {
    std::ofstream(scene.path, std::ios::app) << line << "\n";
    const Status why = scene.why();
    CHECK(why.code() == Code::invalid_argument);
    CHECK_THAT(why.message(), Catch::Contains(cat(scene.path, ":", number, ": ")));
    number = 3;
    std::ofstream(scene.path) << "# tokens\n" << alice.grant.number << " submitter alice 0 0 0 x\n";
  }
  CHECK(scene.open()->is_good(alice.grant));
}

TEST_CASE("the list of tokens tells which of them are of an older secret") {
  TableScene scene;
  const std::string second = "the secret that came in the place of the first one";
  const std::string third = "the secret of today, which has replaced two others";
  using Kinds = std::vector<TokenSecret>;
  const auto kinds = [](const TokenTable& table, const std::string& now, const std::string& then) {
    Kinds kinds;
    for (const TokenView& token : table.all(now, then)) kinds.push_back(token.secret);
    return kinds;
  };
  {
    const auto table = scene.open();
    CHECK(must(table->add(TableScene::grant("a"), "x", kOfTokens)).secret == TokenSecret::current);
    (void)must(table->add(TableScene::grant("b"), "x", second));
    (void)must(table->add(TableScene::grant("c"), "x", third));
    CHECK(kinds(*table, third, second) ==
          Kinds{TokenSecret::old, TokenSecret::previous, TokenSecret::current});
  }
  // The secrets themselves are not in the file, and neither are keys.
  std::ifstream in(scene.path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  for (const std::string& secret : {std::string(kOfTokens), second, third})
    CHECK(text.find(secret) == std::string::npos);
  {
    const auto table = scene.open();
    for (const TokenView& token : table->all(third, "")) {
      for (const std::string& secret : {std::string(kOfTokens), second, third}) {
        const std::string key = write_token({token.grant, key_of(token.grant, secret)});
        CHECK(text.find(key.substr(key.rfind(':') + 1)) == std::string::npos);
      }
    }
    CHECK(kinds(*table, third, "") ==
          Kinds{TokenSecret::old, TokenSecret::old, TokenSecret::current});
    CHECK(kinds(*table, "", "") == Kinds(3, TokenSecret::unknown));
  }
  // A file of before there were marks, as an older leatd writes it.
  std::ofstream(scene.path) << "# tokens\n7 submitter old 0 0 0 x\n";
  CHECK(kinds(*scene.open(), third, second) == Kinds{TokenSecret::unknown});
}

TEST_CASE("tokens that were over long ago leave the file") {
  TableScene scene;
  const auto table = scene.open();
  const TokenView old = must(table->add(TableScene::grant("old"), "x", kOfTokens));
  (void)must(table->revoke(old.grant.number));
  scene.clock.advance(31 * 24h);
  (void)must(table->add(TableScene::grant("new"), "x", kOfTokens));
  CHECK(table->all(kOfTokens, "").size() == 1);
}

}  // namespace
}  // namespace leat

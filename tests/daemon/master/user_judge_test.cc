// Users of the master's machine, judged while its accounts are slow.
#include "daemon/master/user_judge.h"

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kMaster = 500, kAnna = 1001, kRobert = 1002;

// Accounts that answer about people only once they are released.
struct SlowAccounts {
  ~SlowAccounts() { release(); }
  LocalAccess::Find find() {
    return [this](uid_t user) {
      if (user == kMaster || user == 0) return LocalAccount{cat("uid-", user)};
      ++asked;
      released.wait();
      return LocalAccount{user == kAnna ? "ann" : "bob"};
    };
  }
  void release() {
    if (!std::exchange(is_released, true)) gate.set_value();
  }

  std::promise<void> gate;
  std::shared_future<void> released = gate.get_future().share();
  bool is_released = false;
  std::atomic<int> asked{0};
};

const LocalUsers kPeople = {{"ann", LocalRole::submitter}, {"bob", LocalRole::viewer}};

// Judges a client and waits for the outcome.
std::future<std::string> ask_judge(UserJudge& judge, uid_t user) {
  auto outcome = std::make_shared<std::promise<std::string>>();
  judge.judge({user, 0}, RpcRole::client, [outcome](const Result<Grant>& grant) {
    outcome->set_value(grant.ok() ? cat(right_name(grant->right), " ", grant->name)
                                  : grant.status().to_string());
  });
  return outcome->get_future();
}

bool has_outcome(const std::future<std::string>& outcome) {
  return outcome.wait_for(0s) == std::future_status::ready;
}

TEST_CASE("slow accounts hold up neither their caller nor the master's own user and root") {
  SlowAccounts accounts;
  const LocalAccess access(kPeople, kMaster, accounts.find());
  UserJudge judge(access);
  auto ann = ask_judge(judge, kAnna);
  REQUIRE(eventually([&] { return accounts.asked == 1; }));
  CHECK_FALSE(has_outcome(ann));
  CHECK(ask_judge(judge, kMaster).get() == "member uid-500");
  CHECK(ask_judge(judge, 0).get() == "member uid-0");
  accounts.release();
  CHECK(ann.get() == "submitter ann");
  CHECK(ask_judge(judge, kRobert).get() == "viewer bob");
  // The answer is remembered: the next connection of the user waits for nothing.
  auto again = ask_judge(judge, kAnna);
  CHECK(has_outcome(again));
  CHECK(again.get() == "submitter ann");
  CHECK(accounts.asked == 2);
}

TEST_CASE("a user who has waited too long for the accounts is not asked about, and may try again") {
  SlowAccounts accounts;
  const LocalAccess access(kPeople, kMaster, accounts.find());
  UserJudge judge(access, {.patience = -1ms});
  CHECK_THAT(ask_judge(judge, kAnna).get(), Catch::Contains("unavailable: user 1001: expected the "
                                                            "accounts of the machine within"));
  CHECK(accounts.asked == 0);
}

TEST_CASE("only so many connections wait for the accounts") {
  SlowAccounts accounts;
  const LocalAccess access(kPeople, kMaster, accounts.find());
  UserJudge judge(access, {.waiting = 2});
  auto ann = ask_judge(judge, kAnna);
  auto bob = ask_judge(judge, kRobert);
  CHECK_THAT(ask_judge(judge, kAnna).get(),
             Catch::Contains("unavailable: user 1001: expected at most 2"));
  accounts.release();
  CHECK(ann.get() == "submitter ann");
  CHECK(bob.get() == "viewer bob");
  CHECK(ask_judge(judge, kAnna).get() == "submitter ann");
}

TEST_CASE("a judge that stops answers all who wait") {
  SlowAccounts accounts;
  const LocalAccess access(kPeople, kMaster, accounts.find());
  UserJudge judge(access);
  auto ann = ask_judge(judge, kAnna);
  REQUIRE(eventually([&] { return accounts.asked == 1; }));
  auto bob = ask_judge(judge, kRobert);
  const std::string stopping = "cancelled: the master is stopping";
  auto stopped = std::async(std::launch::async, [&] { judge.stop(); });
  CHECK(eventually([&] {
    auto more = ask_judge(judge, kRobert);
    return has_outcome(more) && more.get() == stopping;
  }));
  accounts.release();
  stopped.get();
  CHECK(ann.get() == "submitter ann");
  CHECK(bob.get() == stopping);
  CHECK(accounts.asked == 1);
}

}  // namespace
}  // namespace leat

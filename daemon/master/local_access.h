// Decides what a process of the master's machine may do that proves no key: by its user.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/process/daemon_config.h"
#include "devices/base/status.h"
#include "transport/rpc/grant.h"
#include "transport/rpc/peer_user.h"
#include "transport/rpc/rpc_role.h"

namespace leat {

// A user in the accounts of the machine.
struct LocalAccount {
  std::string name;
  std::vector<std::string> groups = {};  // also its first one
  // The accounts could be asked; an account that they lack is known, too.
  bool is_known = true;
  // The accounts told that they lack it. An error that may mean the same, or that a directory
  // service is down (ENOENT of some), leaves it false: nothing that lasts may follow from it.
  bool is_certain = true;
  std::string owner = {};  // the name that its jobs belong to; "": `name`
};
// Asks the accounts. May wait for a directory service.
LocalAccount find_account(uid_t user);

// An answer of the accounts counts for so long, since connections may come in quick succession.
inline constexpr std::chrono::milliseconds kRememberAccounts{10'000};

// Threads: any.
class LocalAccess {
 public:
  using Find = std::function<LocalAccount(uid_t)>;
  // The name that jobs of a user belong to, of its number and its account.
  using NameOwner = std::function<std::string(uid_t, const LocalAccount&)>;

  // `own`: the master's user. Asks the accounts for the names of this user and root, which may do
  // everything. An answer about another user counts for `remember`. Asks `name_owner` about users
  // that have a role; without it their jobs belong to the name in the accounts.
  LocalAccess(LocalUsers users, uid_t own, Find find = find_account,
              std::chrono::milliseconds remember = kRememberAccounts, NameOwner name_owner = {});

  // The rights of the user in a role. The master's own user and root are members. For the others
  // the entries of the user itself decide, if there are any; then those of its groups; then "*".
  // Several add up. A role of people is for clients, and the grant has the name that the user's
  // jobs belong to; `worker` lets the user be any worker, and its runners. failed_precondition,
  // with the user, if nothing fits. May wait for the accounts.
  Result<Grant> judge(const LocalPeer& peer, RpcRole role) const;
  // The same judgement if it needs no question to the accounts; nothing if it does.
  std::optional<Result<Grant>> judge_known(const LocalPeer& peer, RpcRole role) const;

  // The users and groups of the config that the accounts lack, for a warning. May wait for them.
  std::vector<std::string> strangers() const;

 private:
  // An answer of find_, which is asked again once it is old.
  struct Found {
    LocalAccount account;
    std::chrono::steady_clock::time_point at;
  };
  std::optional<LocalAccount> remembered(uid_t user) const;
  LocalAccount account_of(uid_t user) const;
  Result<Grant> judge_account(uid_t user, const LocalAccount& account, RpcRole role) const;
  std::vector<LocalRole> roles_of(uid_t user, const LocalAccount& account) const;

  const LocalUsers users_;
  const uid_t own_;
  const Find find_;
  const std::chrono::milliseconds remember_;
  const NameOwner name_owner_;
  const std::map<uid_t, LocalAccount> always_;  // the master's own user and root
  mutable std::mutex mutex_;
  mutable std::map<uid_t, Found> found_;
};

}  // namespace leat

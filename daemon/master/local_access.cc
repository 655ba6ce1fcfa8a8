#include "daemon/master/local_access.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "devices/base/text.h"

namespace leat {
namespace {

// Connections in quick succession ask the accounts once. A change of the accounts counts after it.
constexpr size_t kMostRemembered = 1024;
constexpr size_t kSpace = 16384, kMostSpace = 16u << 20;
constexpr std::string_view kUid = "uid:", kGroup = "group:", kOthers = "*";

// An account that is not there is no error (getpwnam(3) lists the codes that say so).
bool is_failure(int error) {
  return error != 0 && error != ENOENT && error != ESRCH && error != EBADF && error != EPERM;
}

// Asks for one entry with a getpw*_r() or getgr*_r() in `get`, in growing space, and returns its
// error. Threads: any, since the entry is in `space`.
template <typename Get>
int ask_with_space(std::vector<char>& space, const Get& get) {
  int error = 0;
  space.resize(kSpace);
  while ((error = get(space.data(), space.size())) == ERANGE && space.size() < kMostSpace)
    space.resize(2 * space.size());
  return error;
}

// "" for a group without a name; nothing if the accounts cannot be asked.
std::optional<std::string> name_of_group(gid_t group) {
  std::vector<char> space;
  struct group entry {};
  struct group* known = nullptr;
  const int error = ask_with_space(space, [&](char* bytes, size_t size) {
    return ::getgrgid_r(group, &entry, bytes, size, &known);
  });
  if (is_failure(error)) return std::nullopt;
  return known != nullptr ? known->gr_name : "";
}

bool has_user(const char* name) {
  std::vector<char> space;
  passwd entry{};
  passwd* known = nullptr;
  (void)ask_with_space(space, [&](char* bytes, size_t size) {
    return ::getpwnam_r(name, &entry, bytes, size, &known);
  });
  return known != nullptr;
}

bool has_group(const char* name) {
  std::vector<char> space;
  struct group entry {};
  struct group* known = nullptr;
  (void)ask_with_space(space, [&](char* bytes, size_t size) {
    return ::getgrnam_r(name, &entry, bytes, size, &known);
  });
  return known != nullptr;
}

// The right of a client; nothing for `none` and `worker`.
std::optional<Right> right_of(LocalRole role) {
  switch (role) {
    case LocalRole::viewer:
      return Right::viewer;
    case LocalRole::submitter:
      return Right::submitter;
    case LocalRole::operate:
      return Right::operate;
    case LocalRole::admin:
      return Right::admin;
    case LocalRole::none:
    case LocalRole::worker:
      break;
  }
  return std::nullopt;
}

std::optional<Right> strongest(const std::vector<LocalRole>& roles) {
  std::optional<Right> most;
  for (const LocalRole role : roles) {
    const auto right = right_of(role);
    if (right && (!most || includes(*right, *most))) most = right;
  }
  return most;
}

}  // namespace

LocalAccount find_account(uid_t user) {
  LocalAccount account{cat("uid-", user), {}};
  std::vector<char> space;
  passwd entry{};
  passwd* known = nullptr;
  const int error = ask_with_space(space, [&](char* bytes, size_t size) {
    return ::getpwuid_r(user, &entry, bytes, size, &known);
  });
  account.is_known = !is_failure(error);
  account.is_certain = error == 0;
  if (known == nullptr) return account;
  // Names that a grant cannot have give way to the number.
  if (check_name(known->pw_name).ok()) account.name = known->pw_name;
  // The first call says how many there are if the list is too short.
  int count = 64;
  std::vector<gid_t> groups(static_cast<size_t>(count));
  if (::getgrouplist(known->pw_name, known->pw_gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<size_t>(std::max(count, 0)));
    if (::getgrouplist(known->pw_name, known->pw_gid, groups.data(), &count) < 0) {
      account.is_known = false;
      count = 0;
    }
  }
  groups.resize(static_cast<size_t>(std::max(count, 0)));
  for (const gid_t group : groups) {
    const auto name = name_of_group(group);
    account.is_known = account.is_known && name.has_value();
    account.groups.push_back(name.value_or(""));
  }
  return account;
}

LocalAccess::LocalAccess(LocalUsers users, uid_t own, Find find, std::chrono::milliseconds remember,
                         NameOwner name_owner)
    : users_(std::move(users)),
      own_(own),
      find_(std::move(find)),
      remember_(remember),
      name_owner_(std::move(name_owner)),
      always_({{own_, find_(own_)}, {0, find_(0)}}) {}

std::optional<LocalAccount> LocalAccess::remembered(uid_t user) const {
  if (const auto found = always_.find(user); found != always_.end()) return found->second;
  const std::lock_guard lock(mutex_);
  const auto found = found_.find(user);
  const auto now = std::chrono::steady_clock::now();
  if (found == found_.end() || now - found->second.at >= remember_) return std::nullopt;
  return found->second.account;
}

LocalAccount LocalAccess::account_of(uid_t user) const {
  if (auto known = remembered(user)) return *std::move(known);
  // Not under the lock: a directory service may take its time.
  LocalAccount account = find_(user);
  const bool judged = account.is_known || users_.contains(cat(kUid, user));
  const auto roles = judged ? roles_of(user, account) : std::vector<LocalRole>();
  const bool has_role = std::any_of(roles.begin(), roles.end(),
                                    [](LocalRole role) { return role != LocalRole::none; });
  if (name_owner_ && has_role) account.owner = name_owner_(user, account);
  const std::lock_guard lock(mutex_);
  const auto last = found_.find(user);
  if (!account.is_known) {
    // Only an entry of the number lets such a user in. It keeps the name that it had, because its
    // jobs and requests are known by it; and the next connection need not wait again.
    if (!users_.contains(cat(kUid, user))) return account;
    if (last != found_.end()) account.name = last->second.account.name;
  }
  if (last == found_.end() && found_.size() >= kMostRemembered) found_.clear();
  found_[user] = {account, std::chrono::steady_clock::now()};
  return account;
}

// The roles of the first level that has an entry: the user, its groups, all others.
std::vector<LocalRole> LocalAccess::roles_of(uid_t user, const LocalAccount& account) const {
  std::vector<LocalRole> roles;
  const auto add = [&](const std::string& who) {
    if (const auto found = users_.find(who); found != users_.end()) roles.push_back(found->second);
  };
  add(account.name);
  add(cat(kUid, user));
  if (!roles.empty()) return roles;
  for (const std::string& group : account.groups) add(cat(kGroup, group));
  if (roles.empty()) add(std::string(kOthers));
  return roles;
}

Result<Grant> LocalAccess::judge(const LocalPeer& peer, RpcRole role) const {
  return judge_account(peer.user, account_of(peer.user), role);
}

std::optional<Result<Grant>> LocalAccess::judge_known(const LocalPeer& peer, RpcRole role) const {
  const auto account = remembered(peer.user);
  if (!account) return std::nullopt;
  return judge_account(peer.user, *account, role);
}

Result<Grant> LocalAccess::judge_account(uid_t user, const LocalAccount& account,
                                         RpcRole role) const {
  Grant grant;
  grant.name = account.owner.empty() ? account.name : account.owner;
  if (user == own_ || user == 0) return grant;
  // An entry of the number needs no accounts.
  if (!account.is_known && !users_.contains(cat(kUid, user))) {
    return unavailable(cat("user ", user, ": expected the accounts of the machine to ",
                           "have its groups, they cannot be asked now"));
  }
  const auto roles = roles_of(user, account);
  if (role == RpcRole::client) {
    const auto right = strongest(roles);
    if (right) grant.right = *right;
    if (right) return grant;
  } else if (std::find(roles.begin(), roles.end(), LocalRole::worker) != roles.end()) {
    return grant;
  }
  return failed_precondition(cat("user '", account.name, "' (uid ", user,
                                 "): expected a role in local_users that may be a ",
                                 rpc_role_name(role), ", received none"));
}

std::vector<std::string> LocalAccess::strangers() const {
  std::vector<std::string> unknown;
  for (const auto& [who, role] : users_) {
    if (who == kOthers || who.starts_with(kUid)) continue;
    const bool group = who.starts_with(kGroup);
    const bool known = group ? has_group(who.c_str() + kGroup.size()) : has_user(who.c_str());
    if (!known) unknown.push_back(who);
  }
  return unknown;
}

}  // namespace leat

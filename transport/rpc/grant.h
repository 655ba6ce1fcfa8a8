// The rights of one end of a control connection, and the keys that prove them.
//
// The secret of the cluster is known to its daemons alone. Each person, worker and runner may have
// a key of its own, which the master derives from the secret and from what the key is for. So a key
// proves no more than its own rights, and nothing can be found out from it about the secret.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "transport/rpc/rpc_role.h"
#include "transport/seal/certificates.h"

namespace leat {

// The rights of people grow from `viewer` to `admin`. `member` is an end that knows the secret
// itself, and may do everything.
enum class Right : uint8_t {
  member = 0,
  viewer,     // reads everything that it may see
  submitter,  // also submits jobs, and changes those that it owns
  operate,    // also changes all jobs, and drains workers: "operator"
  admin,      // also makes and revokes tokens
  worker,     // is the worker of the grant's name
  runner,     // is a runner of the job of the grant's name
};
// "viewer", "operator".
std::string_view right_name(Right right);
// The right of that name, except `member`, `runner`; invalid_argument for others.
Result<Right> right_named(std::string_view name);
// Whether a person with the right `has` may do what needs `needs`.
bool includes(Right has, Right needs);
// Whether an end with this right may be in this role.
bool fits(Right right, RpcRole role);

// The use of a key: whose it is, and until when.
struct Grant {
  static constexpr size_t kMostName = 64;

  Right right = Right::member;
  // Of the person or worker, or the job of a runner: at most 64 letters, digits, '-', '_' and '.',
  // the first of them a letter or a digit. Of a member, the user of the machine by which it is one;
  // empty for a member by the secret.
  std::string name;
  // Tells tokens apart: random, 0 for members and runners.
  uint64_t number = 0;
  // In seconds since 1970; 0: never.
  int64_t expires = 0;

  friend bool operator==(const Grant&, const Grant&) = default;
};
// The rights that a certificate gives the person or worker that it names, until it ends.
// failed_precondition if its role is that of a master, or none.
Result<Grant> grant_of(const PeerCertificate& certificate);
// invalid_argument for a name that is none.
Status check_name(std::string_view name);
// Whether an end with this grant may be the worker of that name: a member, or the worker of the
// grant's name. A machine with several GPUs has one worker for each: "NAME.0", "NAME.1".
bool may_be_worker(const Grant& grant, std::string_view name);

// The key of a grant: 32 bytes, or the secret itself for a member. REQUIRES: a secret.
std::string key_of(const Grant& grant, std::string_view secret);

// A key with what it is for, as it stands in a file.
struct Credential {
  Grant grant;
  std::string key;  // never printed or logged
};
// "leat1:submitter:alice:1f00c2:1767225600:<64 hexadecimal digits>".
std::string write_token(const Credential& credential);
// The token of the runners of a job; empty without a secret.
std::string runner_credential(std::string_view secret, std::string_view job);
// Reads the content of a secret file: a token, or else the secret of a member. invalid_argument if
// it begins like a token and is none. The message never contains the key.
Result<Credential> read_credential(std::string_view content);

}  // namespace leat

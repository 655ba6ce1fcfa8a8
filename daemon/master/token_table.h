// The tokens that a master has made, in a file of its state folder. A token is good only while the
// table has it: the key alone proves nothing once the token was revoked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/token_view.h"
#include "devices/base/clock.h"
#include "devices/base/files.h"

namespace leat {

// The file has one line for each token, and each change replaces it as a whole. It holds no keys:
// these follow from the cluster's secret. A comment behind the line has a mark of that secret, by
// which the master tells tokens of an old one. Tokens that expired or were revoked more than 30
// days ago are left out of it.
//
// Threads: any.
class TokenTable {
 public:
  static constexpr size_t kMost = 10'000;

  // Reads the file; there need not be one. invalid_argument, with the line, if it is damaged: to go
  // on without it would forget what was revoked. `files` and `clock` outlive it. `random` returns
  // numbers for new tokens.
  static Result<std::unique_ptr<TokenTable>> open(Files& files, std::string path,
                                                  const Clock& clock,
                                                  std::function<uint64_t()> random);

  // Adds a token, whose key is of this secret, and returns it with its number. Blocks on the disk.
  // invalid_argument for a name that is none, a right that no token has, or a time that is over;
  // resource_exhausted beyond kMost; or the disk's error, and then there is no such token.
  Result<TokenView> add(Grant grant, const std::string& by, std::string_view secret);
  // Revokes a token and returns it; one that was revoked before stays as it is. Blocks on the disk.
  // failed_precondition if there is no token of this number.
  Result<TokenView> revoke(uint64_t number);
  // Whether the table has this very grant, and it was not revoked. Expiry is not looked at.
  bool is_good(const Grant& grant) const;
  // All of them, the oldest first, each with the kind of its secret. `previous`: "" if there is
  // none.
  std::vector<TokenView> all(std::string_view secret, std::string_view previous) const;

 private:
  TokenTable(Files& files, std::string path, const Clock& clock, std::function<uint64_t()> random)
      : files_(files), path_(std::move(path)), clock_(clock), random_(std::move(random)) {}
  Status read();
  int64_t now_ms() const;
  // REQUIRES: the mutex of changes is held.
  Status write(const std::map<uint64_t, TokenView>& tokens) const;

  Files& files_;
  const std::string path_;
  const Clock& clock_;
  const std::function<uint64_t()> random_;
  std::mutex changes_;        // one change at a time, which may wait for the disk
  mutable std::mutex mutex_;  // of tokens_, never held while the disk works
  std::map<uint64_t, TokenView> tokens_;
};

}  // namespace leat

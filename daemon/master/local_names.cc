#include "daemon/master/local_names.h"

#include <charconv>
#include <span>
#include <sstream>
#include <utility>

#include "daemon/jobs/grammar.h"
#include "devices/base/text.h"
#include "transport/rpc/grant.h"

namespace leat {
namespace {

// A process may have thousands of numbers by user namespaces. Later users have the names of their
// accounts.
constexpr size_t kMostNames = 10'000;
constexpr uint64_t kMostBytes = 1 << 20;

}  // namespace

Result<std::unique_ptr<LocalNames>> LocalNames::open(Files& files, std::string path, Logger log) {
  std::unique_ptr<LocalNames> names(new LocalNames(files, std::move(path), std::move(log)));
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(names->path_));
  if (!there) return names;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, names->path_, kMostBytes));
  LEAT_RETURN_IF_ERROR(names->read({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return names;
}

Status LocalNames::read(const std::string& text) {
  std::istringstream lines(text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    uid_t user = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), user);
    const bool has_name = error == std::errc() && *end == ' ' && check_name(end + 1).ok();
    if (!has_name || !names_.emplace(user, end + 1).second || !taken_.insert(end + 1).second) {
      return invalid_argument(cat(path_, ":", number,
                                  ": expected the number and the name of a user, each once, "
                                  "received ",
                                  quoted_start(line)));
    }
  }
  return {};
}

std::string LocalNames::name_of(uid_t user, const std::string& account, bool is_certain) {
  const std::lock_guard lock(mutex_);
  if (!written_) write();
  if (const auto found = names_.find(user); found != names_.end()) return found->second;
  std::string name = account;
  for (int i = 0; taken_.contains(name); ++i)
    name = i == 0 ? cat("uid-", user) : cat("uid-", user, "-", i);
  if (!is_certain || names_.size() >= kMostNames) return name;
  names_[user] = name;
  taken_.insert(name);
  write();
  return name;
}

void LocalNames::write() {
  std::string text;
  for (const auto& [user, name] : names_) text += cat(user, " ", name, "\n");
  const Status status = write_file_atomically(files_, path_, std::as_bytes(std::span(text)));
  if (!status.ok() && written_)
    log_.warning("names of users of this machine are kept in memory alone: ", status.message());
  written_ = status.ok();
}

}  // namespace leat

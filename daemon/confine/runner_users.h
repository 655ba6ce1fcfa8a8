// The users of runners. They are numbers without a name, in a range that no account of the machine
// has. All workers of the machine share the range: a lock on a file says that a number is in use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "devices/base/status.h"
#include "transport/io/descriptor.h"

namespace leat {

// The path of the folder that all workers of this machine share, with the users in use and the
// directories of runners: the first of $RUNTIME_DIRECTORY, which systemd makes, else /run/leat for
// root. failed_precondition if there is none.
Result<std::string> shared_path();
// Makes the folder, with mode 0711. failed_precondition if it belongs to another user.
Result<std::string> shared_folder();

// The folder for the directories of the runners of one worker, below the shared one: it is empty,
// and others can pass through it to a directory whose name they know. Also removes those of workers
// that have been killed. The lock tells that this worker lives.
std::string rooms_path(const std::string& shared, const std::string& state_folder);
struct RunnerRooms {
  std::string path;
  Descriptor lock;
};
Result<RunnerRooms> make_rooms(const std::string& shared, const std::string& state_folder);

// A user that no living runner has; it is given back when the object goes.
class RunnerUser {
 public:
  RunnerUser() = default;
  RunnerUser(uint32_t number, Descriptor lock) : number_(number), lock_(std::move(lock)) {}
  uint32_t number() const { return number_; }  // 0: none

 private:
  uint32_t number_ = 0;
  Descriptor lock_;
};

struct UserRange {
  uint32_t first = 0;  // 0: chosen by the machine
  uint32_t count = 0;
};

// Threads: one.
class RunnerUsers {
 public:
  // Ok if this process may start runners as users of the range: it has the capabilities for that,
  // and its user namespace has the numbers. With `first` 0 the range is 70000 and the following,
  // or 60600 where the namespace ends before.
  static Result<RunnerUsers> open(UserRange range, const std::string& shared);
  // resource_exhausted if all are in use.
  Result<RunnerUser> take();
  const UserRange& range() const { return range_; }

 private:
  RunnerUsers(UserRange range, std::string folder) : range_(range), folder_(std::move(folder)) {}

  UserRange range_;
  std::string folder_;
  uint32_t next_ = 0;
};

// Ok if this process has the capabilities to start processes as other users, to end them and to
// give them a directory.
Status may_change_users();

// Kills every process of the user, and removes its files in `directory`. For a user of a runner
// that has ended. Blocks for some milliseconds.
void end_user(uint32_t user, const std::string& directory);

}  // namespace leat

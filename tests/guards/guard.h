// Included by the files of a build whose guards can be switched off one at a time: guards.py writes
// `if (::leat_guards::holds(ID, CONDITION))` in place of `if (CONDITION)`.
//
// Environment: LEAT_GUARD_OFF=ID switches that guard off; LEAT_GUARD_LOG=FILE is a file with one
// byte per guard, in which a guard whose condition was true sets its byte. Both reach child
// processes.
#pragma once

// GCC does not see through a switch that what stands behind the guard was set.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace leat_guards {

struct Switches {
  int off = -1;
  unsigned char* fired = nullptr;
  long count = 0;

  Switches() {
    if (const char* id = std::getenv("LEAT_GUARD_OFF")) off = std::atoi(id);
    const char* path = std::getenv("LEAT_GUARD_LOG");
    if (path == nullptr) return;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    struct stat status {};
    if (fstat(file, &status) == 0 && status.st_size > 0) {
      void* map = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE,
                       MAP_SHARED, file, 0);
      if (map != MAP_FAILED) {
        fired = static_cast<unsigned char*>(map);
        count = status.st_size;
      }
    }
    close(file);
  }
};

inline const Switches& switches() {
  static const Switches once;
  return once;
}

// Opened when the program starts: a test may leave no descriptor for it later.
inline const Switches& opened = switches();

// The condition of guard `id`, which has been evaluated with all that it does; false if it is off.
inline bool holds(int id, bool condition) {
  if (!condition) return false;
  const Switches& set = switches();
  if (set.fired != nullptr && id < set.count) set.fired[id] = 1;
  return id != set.off;
}

}  // namespace leat_guards

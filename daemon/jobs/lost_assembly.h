// The history of a job: its assemblies that ended by a failure, each with the cause, how long it
// took to go on, and what was done twice for it.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// The state from which an assembly's training began.
enum class RecoverySource : uint8_t { unknown = 0, start = 1, checkpoint = 2, memory = 3 };
// "", "start", "checkpoint", "memory"
std::string_view name_of(RecoverySource from);
// `unknown` for any other text.
RecoverySource recovery_source_named(std::string_view name);

// An assembly that failed. Times in milliseconds; what is not known, or not yet, is -1.
struct LostAssembly {
  uint64_t number = 0;  // counts the lost assemblies of the job up from 1
  uint64_t assembly = 0;
  std::string cause;             // the reason's text
  std::string culprit;           // the worker; "" if it is none, or not known
  std::string fault;             // the entry of --chaos that did it; "" if none did
  int64_t began_ms = 0;          // of Unix time, as the next
  int64_t failed_ms = 0;         // when it was detected
  int64_t detected_after = -1;   // since the culprit last showed a sign of life, or the fault fired
  int64_t recovered_after = -1;  // from failed_ms until the first step of a later assembly was done
  int64_t stopped_at = -1;       // steps of the job done, as far as the master had heard
  // Of the assembly that went on:
  int64_t went_on_from = -1;  // steps done
  RecoverySource source = RecoverySource::unknown;
  bool operator==(const LostAssembly&) const = default;

  // Steps that were done twice; nothing while that is not known.
  std::optional<uint64_t> recomputed() const;
};

// Of one job: the last of them, and how many there were.
struct JobHistory {
  static constexpr size_t kKept = 100;
  static constexpr size_t kMaxCause = 512;  // bytes of a cause that are kept

  uint64_t count = 0;
  std::vector<LostAssembly> last;  // ascending
  bool operator==(const JobHistory&) const = default;

  // Adds it, or puts it in place of the one of the same assembly.
  void put(const LostAssembly& lost);
};

}  // namespace leat

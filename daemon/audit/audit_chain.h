// The audit log of a master, as it is on the disk: a folder of segments,
// "audit-000000000001.jsonl", each named by the number of its first entry. An entry is one line:
//
//   {"previous": "<64 hexadecimal digits>", "sequence": 17, "time": "2026-11-29T06:30:00.000Z",
//    "action": "submit", "subject": "mlp-2330", "by": "'ann' at 127.0.0.1:40712", "outcome": "ok"}
//
// `previous` is the SHA-256 of the line before it, without its newline; 64 zeros in the first
// entry. So no entry can be changed, taken out or put in between without changing all that follow.
// The hash of the last line, kept elsewhere, shows also whether the end was cut off or all was
// written anew.
//
// A segment replaces all that the one before it has from the number of its first entry on: it was
// written after a disk had failed. Bytes behind the last newline of a segment are no entry.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The last entry of a chain.
struct AuditHead {
  uint64_t sequence = 0;  // its number; 0: there is no entry
  std::string hash = std::string(64, '0');

  bool operator==(const AuditHead&) const = default;
};

// The name of the segment whose first entry has this number.
std::string audit_segment(uint64_t first);
// The hash by which the next entry names this line, which has no newline.
std::string audit_hash(std::string_view line);

// Checks the chain in the folder, calls `take` with each entry, a line without its newline, and
// returns the last one. failed_precondition, naming segment and line, where the chain is broken:
// `take` has then got the entries before it. An empty or missing folder is an empty chain.
Result<AuditHead> read_audit(Files& files, const std::string& folder,
                             const std::function<void(std::string_view line)>& take = {});

}  // namespace leat

// leat audit: prints the entries of a master's audit log, and checks its chain.
#include <iostream>

#include "daemon/audit/audit_chain.h"
#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/cli/commands.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The folder of segments: `path` itself, or the one of the master whose state is there.
Result<std::string> audit_folder(const std::string& path) {
  const std::string below = path + "/audit";
  LEAT_ASSIGN_OR_RETURN(const bool is_state, real_files().exists(below));
  if (is_state) return below;
  LEAT_ASSIGN_OR_RETURN(const bool exists, real_files().exists(cat(path, "/", audit_segment(1))));
  if (exists) return path;
  return invalid_argument(cat("'", path, "': expected the state folder of a master, or its folder ",
                              "audit, which has ", audit_segment(1)));
}

Status print_audit(const AuditCommand& command) {
  LEAT_ASSIGN_OR_RETURN(const std::string folder, audit_folder(command.path));
  bool has_head = command.head.empty();
  const auto take = [&](std::string_view line) {
    if (!command.verify) std::cout << line << "\n";
    if (!has_head) has_head = audit_hash(line) == command.head;
  };
  LEAT_ASSIGN_OR_RETURN(const AuditHead head, read_audit(real_files(), folder, take));
  if (!has_head) {
    return failed_precondition(cat(folder, ": expected an entry with the hash ", command.head,
                                   ", there is none: entries were cut off, or all are others"));
  }
  if (command.json) {
    JsonLine line;
    std::cout << line.add("apiVersion", kApiVersion)
                     .add("kind", "AuditHead")
                     .add("entries", head.sequence)
                     .add("sha256", head.hash)
                     .text();
  } else if (command.verify) {
    std::cout << head.sequence << (head.sequence == 1 ? " entry" : " entries")
              << ", the chain is whole; the hash of the last one is " << head.hash << "\n";
  }
  return {};
}

}  // namespace

int run_audit(const AuditCommand& command) {
  const Status printed = print_audit(command);
  return printed.ok() ? kExitOk : report(printed, command.color);
}

}  // namespace leat

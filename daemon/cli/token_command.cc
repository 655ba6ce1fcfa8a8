// leat token: makes, lists and revokes the tokens of people and workers.

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <iostream>

#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/base/private_file.h"
#include "daemon/base/terminal.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/table.h"
#include "daemon/jobs/token_view.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

int64_t unix_ms_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string hex_number(uint64_t number) {
  std::array<char, 16> digits;
  const auto [end, failure] = std::to_chars(digits.begin(), digits.end(), number, 16);
  static_cast<void>(failure);  // there is room for all 16
  return std::string(digits.begin(), end);
}

std::string_view state_of_token(const TokenView& token) {
  if (token.revoked_ms != 0) return "REVOKED";
  if (token.grant.expires != 0 && token.grant.expires * 1000 <= unix_ms_now()) return "EXPIRED";
  // The holder needs a token that is made anew: soon if its secret is the previous one.
  if (token.secret == TokenSecret::old) return "OLD SECRET";
  if (token.secret == TokenSecret::previous) return "PREVIOUS SECRET";
  return "GOOD";
}

std::string token_json(const TokenView& token) {
  JsonLine line;
  line.add("apiVersion", kApiVersion)
      .add("kind", "Token")
      .add("number", hex_number(token.grant.number))
      .add("role", right_name(token.grant.right))
      .add("name", token.grant.name)
      .add("state", state_of_token(token))
      .add("expires", token.grant.expires)
      .add("created_ms", token.created_ms)
      .add("revoked_ms", token.revoked_ms)
      .add("by", token.by);
  return line.text();
}

int run_token_create(const TokenCreateCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto lasts =
      std::chrono::ceil<std::chrono::seconds>(command.lasts.value_or(std::chrono::milliseconds(0)));
  // 0 would be without end.
  if (command.lasts && lasts.count() < 1) {
    return connection.report(invalid_argument("--lasts: expected a time to come, received 0"),
                             About::content);
  }
  const auto made = connection.client().create_token(command.role, command.name, lasts);
  if (!made.ok()) return connection.report(made.status(), About::content);
  if (command.output.empty()) {
    std::cout << made->text << "\n";
    return kExitOk;
  }
  const Status written = write_private_file(command.output, made->text + "\n", IfThere::refuse);
  if (!written.ok()) {
    // A token whose text was lost must not stay good.
    (void)connection.client().revoke_token(made->view.grant.number);
    return report(written, command.cluster.color);
  }
  if (command.cluster.json) {
    std::cout << token_json(made->view);
  } else {
    std::cout << "token " << hex_number(made->view.grant.number) << " of "
              << right_name(made->view.grant.right) << " " << made->view.grant.name << " is in "
              << printable(command.output) << "\n";
  }
  return kExitOk;
}

int run_token_list(const TokenListCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto tokens = connection.client().tokens();
  if (!tokens.ok()) return connection.report(tokens.status(), About::cluster);
  if (command.cluster.json) {
    for (const TokenView& token : *tokens) std::cout << token_json(token);
    return kExitOk;
  }
  const int64_t now = unix_ms_now();
  std::vector<std::vector<std::string>> rows;
  for (const TokenView& token : *tokens) {
    const int64_t left = token.grant.expires * 1000 - now;
    rows.push_back({hex_number(token.grant.number), std::string(right_name(token.grant.right)),
                    token.grant.name, std::string(state_of_token(token)),
                    token.grant.expires == 0 || left < 0 ? "-" : format_age(left),
                    format_age(std::max<int64_t>(0, now - token.created_ms)), or_dash(token.by)});
  }
  std::cout << format_table({"NUMBER", "ROLE", "NAME", "STATE", "LASTS", "AGE", "BY"}, rows,
                            command.headers, {stdout_columns(), {{"BY", 12}, {"BY", 0}}});
  return kExitOk;
}

int run_token_revoke(const TokenRevokeCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto tokens = connection.client().tokens();
  if (!tokens.ok()) return connection.report(tokens.status(), About::cluster);
  size_t revoked = 0;
  for (const TokenView& token : *tokens) {
    const bool is_named =
        hex_number(token.grant.number) == command.which || token.grant.name == command.which;
    if (!is_named || token.revoked_ms != 0) continue;
    const auto gone = connection.client().revoke_token(token.grant.number);
    if (!gone.ok()) return connection.report(gone.status(), About::state);
    ++revoked;
    if (command.cluster.json) {
      std::cout << token_json(*gone);
    } else {
      std::cout << "token " << hex_number(gone->grant.number) << " of "
                << right_name(gone->grant.right) << " " << gone->grant.name << " is revoked\n";
    }
  }
  if (revoked > 0) return kExitOk;
  return connection.report(
      failed_precondition(cat("token '", printable(command.which),
                              "': expected the number or the name of tokens that are good, as "
                              "`leat token list` shows them")),
      About::name);
}

}  // namespace

int run_token(const TokenCommand& command) {
  struct Run {
    int operator()(const TokenCreateCommand& create) const { return run_token_create(create); }
    int operator()(const TokenListCommand& list) const { return run_token_list(list); }
    int operator()(const TokenRevokeCommand& revoke) const { return run_token_revoke(revoke); }
  };
  return std::visit(Run(), command);
}

}  // namespace leat

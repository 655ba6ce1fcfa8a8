#include "daemon/master/local_peers.h"

#include <unistd.h>

#include "daemon/audit/audit_log.h"
#include "daemon/master/local_names.h"
#include "daemon/master/wire_client_service.h"
#include "daemon/process/own_secret.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "transport/rpc/server.h"
#include "transport/rpc/socket_path.h"

namespace leat {
namespace {

JudgeUser judge_of(UserJudge& judge) {
  return [&judge](const LocalPeer& peer, RpcRole role, std::function<void(Result<Grant>)> done) {
    judge.judge(peer, role, std::move(done));
  };
}

}  // namespace

RpcIdentity identity_of(const MasterParts& parts) {
  const MasterConfig& config = parts.config;
  RpcIdentity identity;
  identity.role = RpcRole::master;
  identity.cluster = config.cluster;
  identity.secret = config.security.secret;
  identity.secrets = config.security.secrets;
  identity.own_secret = parts.own_secret;
  identity.seal = config.security.seal();
  identity.certificates = config.security.current_certificates();
  return identity;
}

JudgeUser judge_on_loopback(const MasterParts& parts) {
  const SecurityConfig& security = parts.config.security;
  const bool open = security.insecure_allow_network_without_authentication;
  return open || !security.secret.empty() ? JudgeUser() : judge_of(*parts.users);
}

Status open_local_access(MasterParts& parts) {
  LEAT_ASSIGN_OR_RETURN(auto opened,
                        LocalNames::open(real_files(), parts.config.state_dir + "/local_names",
                                         parts.log.named("local_users")));
  const std::shared_ptr<LocalNames> names = std::move(opened);
  parts.local = std::make_unique<LocalAccess>(
      parts.config.local_users, ::geteuid(), find_account, kRememberAccounts,
      [names](uid_t user, const LocalAccount& account) {
        return names->name_of(user, account.name, account.is_known && account.is_certain);
      });
  for (const std::string& who : parts.local->strangers())
    parts.log.warning("local_users: '", who, "' is not in the accounts of this machine");
  parts.users = std::make_unique<UserJudge>(*parts.local);
  if (!judge_on_loopback(parts)) return {};
  auto secret = open_or_make_secret(parts.config.state_dir + "/secret");
  // A file that is there and cannot be used stops the start: a person has to look at it.
  if (!secret.ok() && secret.status().code() == Code::invalid_argument) return secret.status();
  if (!secret.ok()) {
    parts.log.error("runners cannot outlive this master: ", secret.status().message());
    secret = to_hex(random_nonce()) + to_hex(random_nonce());
  }
  parts.own_secret = *std::move(secret);
  return {};
}

Result<std::unique_ptr<RpcServer>> listen_locally(MasterParts& parts) {
  const std::string& path = parts.config.local_socket;
  if (path.empty() || path == "off") return std::unique_ptr<RpcServer>();
  RpcServerOptions options;
  options.local_socket = path;
  // No key is proved there.
  options.identity = identity_of(parts);
  options.identity.secret.clear();
  options.identity.secrets.reset();
  options.identity.own_secret.clear();
  options.identity.certificates.reset();
  options.judge_user = judge_of(*parts.users);
  options.on_refused = [audit = parts.audit.get()](const std::string& who, const Status& why) {
    audit->add_refused(who, why);
  };
  options.log = parts.log.named("rpc");
  auto listening = RpcServer::listen(
      *parts.loop, std::move(options),
      [clients = parts.clients.get()](const RpcPeer& peer) -> kj::Maybe<capnp::Capability::Client> {
        if (peer.role != RpcRole::client) return nullptr;
        return capnp::Capability::Client(clients->serve(peer));
      });
  const bool wanted = parts.config.local_socket_given || !parts.config.local_users.empty();
  if (!listening.ok() && !wanted) {
    // Not every file system has sockets.
    parts.log.warning("no Unix socket for the users of this machine: ",
                      listening.status().message());
    return std::unique_ptr<RpcServer>();
  }
  LEAT_RETURN_IF_ERROR(listening.status());
  auto server = *std::move(listening);
  const std::string closed = closed_folder_of(path);
  if (!closed.empty() && !parts.config.local_users.empty()) {
    parts.log.warning("local_users: only user ", ::geteuid(), " and root reach ", server->address(),
                      ", since others may not enter ", closed);
  }
  return server;
}

}  // namespace leat

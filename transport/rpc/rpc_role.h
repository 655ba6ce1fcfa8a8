// The roles of the two ends of a control connection.
#pragma once

#include <cstdint>
#include <string_view>

namespace leat {

// The role of the end that opens a connection. It chooses an interface; the right of the key that
// the end proves has to fit it (grant.h).
enum class RpcRole : uint16_t { none = 0, client, worker, master, runner };
// "client", "worker".
std::string_view rpc_role_name(RpcRole role);

}  // namespace leat

// Conversions of the messages by which workers and runners register with a master, and by which it
// orders runners, for both sides of a connection. Includes Cap'n Proto: for .cc files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/jobs/membership.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/runner_info.h"
#include "daemon/wire/runner_order.h"
#include "devices/base/status.h"
#include "transport/link.h"

namespace leat {

// A worker with the runners that it holds. The reader stops after 1,025 entries of each list:
// Membership::join() refuses a worker with so many.
void write_worker(const WorkerInfo& info, uint64_t incarnation,
                  std::span<const RunnerOrder> runners, wire::WorkerInfo::Builder out);
WorkerInfo read_worker(wire::WorkerInfo::Reader in);
// The tokens of these runners. invalid_argument if one has not 32 bytes.
Result<std::vector<RunnerToken>> read_tokens(wire::WorkerInfo::Reader in);
// `method`: for the message.
Result<RunnerToken> read_token(capnp::Data::Reader in, std::string_view method);

void write_runner(const RunnerInfo& info, std::span<const uint8_t> token,
                  wire::RunnerInfo::Builder out);
// invalid_argument for devices that no plan can be made for.
Result<RunnerInfo> read_runner(wire::RunnerInfo::Reader in);

void write_order(const RunnerOrder& order, wire::RunnerSpec::Builder out);
// invalid_argument if the job's id or a secret is malformed.
Result<RunnerOrder> read_order(wire::RunnerSpec::Reader in);

wire::LinkFault write_fault(LinkFault fault);
// A fault that this build does not know is `lost`, the most serious one.
LinkFault read_fault(wire::LinkFault fault);

}  // namespace leat

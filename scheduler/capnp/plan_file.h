// A plan as bytes: scheduler/capnp/plan.capnp is the format. A master compiles once, sends each
// runner the part that it executes, and the hash says that both mean the same plan.
//
//   const auto sent = encode_plan_for(plan, 1);            // on the master
//   ...                                                    // message and chunks travel
//   const auto plan = decode_plan(*received, catalogue);   // on the runner of partition 1:
//   verified Program::create(*plan, 1, device, resources, exchange);
//
// Nothing here throws: what Cap'n Proto throws becomes a Status.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/capnp/graph_file.h"
#include "ops/graph/op.h"
#include "scheduler/plan/plan.h"

namespace leat {

// Of a plan's message. A graph becomes several times as many instructions as it has nodes.
inline constexpr size_t kPlanMessageBytes = size_t{128} << 20;

// The message, and the chunks of its large constants in order of first use, each once.
struct EncodedPlan {
  Bytes message;
  std::vector<EncodedChunk> chunks;
};

// The whole plan. Equal plans give equal bytes. invalid_argument for what the format cannot hold
// (an attribute that is a region, an instruction without an op) or what is beyond the limits;
// resource_exhausted if the message would be larger than kPlanMessageBytes. The plan is not
// verified: its reader does that.
Result<EncodedPlan> encode_plan(const Plan& plan);

// What the runner of one partition needs: its body, of the other partitions the devices, all edges
// (those of others without their names), feeds and fetches. Ids stay.
Result<EncodedPlan> encode_plan_for(const Plan& plan, uint32_t partition);

// The plan of a message, verified. Trusts nothing: limits are checked before memory is taken. The
// catalogue must outlive the plan; `chunks` is asked for each chunk by digest, and what it gives is
// checked. invalid_argument for a message that is cut, broken, against a limit, or a plan that is
// not safe to execute; an unknown op is named. How much memory the plan asks of a device is for the
// caller to look at (Partition::memory_bytes()) before a Program takes it.
Result<Plan> decode_plan(std::span<const std::byte> message, const ChunkSource& chunks,
                         const Catalogue& catalogue);
Result<Plan> decode_plan(const EncodedPlan& encoded, const Catalogue& catalogue);

// One blob of it, to send, and back. Each piece behind its length (8 bytes, little-endian), the
// message first; nothing follows the last. unpack_plan: invalid_argument for what is cut short or
// against a limit; decode_plan() finds what is wrong inside.
Bytes pack_plan(const EncodedPlan& encoded);
Result<EncodedPlan> unpack_plan(std::span<const std::byte> blob);

// The identity of the whole plan: 64 hexadecimal digits of SHA-256 over encode_plan's message,
// which holds the digests of the chunks.
Result<std::string> plan_hash(const Plan& plan);

}  // namespace leat

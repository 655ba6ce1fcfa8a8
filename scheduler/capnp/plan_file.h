// A plan as bytes, in the format of scheduler/capnp/plan.capnp. The master compiles a plan once and
// sends each runner the partition that it executes. Equal hashes show that two processes have the
// same plan.
//
//   const auto sent = encode_plan_for(plan, 1);            // on the master
//   ...                                                    // message and chunks travel
//   const auto plan = decode_plan(*received, catalogue);   // on the runner of partition 1
//   Program::create(*plan, 1, device, resources, exchange);
//
// All functions are pure, and any thread may call them. None throws: they turn the exceptions of
// Cap'n Proto into a Status.
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

// The size that a plan's message may have. A graph becomes several times as many instructions as it
// has nodes.
inline constexpr size_t kPlanMessageBytes = size_t{128} << 20;

// A plan's message, and the chunks of its large constants: each once, in order of first use.
struct EncodedPlan {
  Bytes message;
  std::vector<EncodedChunk> chunks;
};

// Encodes the whole plan, without verifying it: its reader does that. Equal plans give equal bytes.
// invalid_argument for a plan that the format cannot hold (an attribute that is a region, an
// instruction without an op) or that is beyond its limits; resource_exhausted if the message would
// be larger than kPlanMessageBytes.
Result<EncodedPlan> encode_plan(const Plan& plan);

// Encodes the part of the plan that the runner of one partition needs: the partition itself, the
// devices of the other partitions, all feeds and fetches, and all edges (without the names of those
// that only others use). Ids stay the same.
Result<EncodedPlan> encode_plan_for(const Plan& plan, uint32_t partition);

// Decodes and verifies the plan of a message. It trusts nothing: it checks limits before it
// allocates, and the digest of each chunk that it gets from `chunks`. invalid_argument for a
// message that is cut short, broken or beyond a limit, for an unknown op, and for a plan that is
// not safe to execute. The caller checks with Partition::memory_bytes() that the device has the
// memory for the plan, before it makes a Program. REQUIRES: the catalogue outlives the plan.
Result<Plan> decode_plan(std::span<const std::byte> message, const ChunkSource& chunks,
                         const Catalogue& catalogue);
Result<Plan> decode_plan(const EncodedPlan& encoded, const Catalogue& catalogue);

// Packs message and chunks into one blob, and unpacks them again. The blob has the message and then
// each chunk, each behind its length (8 bytes, little-endian), and nothing after the last.
// unpack_plan() returns invalid_argument for a blob that is cut short or beyond a limit;
// decode_plan() checks the contents.
Bytes pack_plan(const EncodedPlan& encoded);
Result<EncodedPlan> unpack_plan(std::span<const std::byte> blob);

// The identity of the whole plan: the SHA-256 of encode_plan()'s message, which has the digests of
// the chunks in it, as 64 hexadecimal digits.
Result<std::string> plan_hash(const Plan& plan);

}  // namespace leat

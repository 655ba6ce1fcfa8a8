// Checks what concerns several partitions of a plan: edges, borders, and that no two devices wait
// for each other. verify_partition.cc checks each partition by itself.
#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/verify_partition.h"
#include "scheduler/plan/verify_types.h"

namespace leat {
namespace {

// The largest value that a tensor can have: the most elements of the widest type.
constexpr uint64_t kValueBytes = static_cast<uint64_t>(limits::kElements) * 8;

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan), uses_(plan) {}

  // The order matters: partitions index edges and borders, which are checked first, and the last
  // two checks rely on partitions whose operands and edges are valid.
  Status run() {
    LEAT_RETURN_IF_ERROR(check_sizes());
    LEAT_RETURN_IF_ERROR(check_edges());
    LEAT_RETURN_IF_ERROR(check_borders("feed", plan_.feeds));
    LEAT_RETURN_IF_ERROR(check_borders("fetch", plan_.fetches));
    for (uint32_t p = 0; p < plan_.partitions.size(); ++p) {
      LEAT_RETURN_IF_ERROR(PartitionVerifier(plan_, p, uses_).run());
    }
    LEAT_RETURN_IF_ERROR(check_uses());
    return check_progress();
  }

 private:
  Status wrong(const std::string& what) const {
    return internal_error(cat("plan '", plan_.name, "': ", what));
  }
  bool is_here(uint32_t partition) const { return !plan_.partitions[partition].elsewhere; }

  Status check_sizes() const {
    const auto at_most = [&](std::string_view what, size_t most, size_t received) -> Status {
      if (received <= most) return {};
      return wrong(cat("expected at most ", most, " ", what, ", received ", received));
    };
    LEAT_RETURN_IF_ERROR(at_most("partitions", limits::kPartitions, plan_.partitions.size()));
    LEAT_RETURN_IF_ERROR(at_most("edges", limits::kPlanEdges, plan_.edges.size()));
    LEAT_RETURN_IF_ERROR(at_most("feeds", limits::kOperands, plan_.feeds.size()));
    return at_most("fetches", limits::kOperands, plan_.fetches.size());
  }

  Status check_edges() const {
    for (const PlanEdge& edge : plan_.edges) {
      if (edge.from >= plan_.partitions.size() || edge.to >= plan_.partitions.size() ||
          edge.from == edge.to) {
        return wrong(cat("edge '", edge.name, "' joins partitions ", edge.from, " and ", edge.to));
      }
      if (edge.bytes > kValueBytes) {
        return wrong(cat("edge '", edge.name, "' carries ", edge.bytes, " bytes"));
      }
    }
    return {};
  }

  Status check_borders(std::string_view what, const std::vector<PlanBorder>& borders) const {
    for (const PlanBorder& border : borders) {
      const OperandType type{border.dtype, border.shape, Layout::plain, ValueKind::tensor, true};
      if (const std::string fault = fault_of(type); !fault.empty())
        return wrong(cat(what, " '", border.name, "' ", fault));
      if (border.partition >= plan_.partitions.size()) {
        return wrong(cat(what, " '", border.name, "' is of partition ", border.partition));
      }
    }
    return {};
  }

  // An edge is sent once and received and retired once in each step. An end in a partition that is
  // elsewhere was not seen, so it must have been counted 0 times.
  Status check_uses() const {
    for (size_t e = 0; e < plan_.edges.size(); ++e) {
      const PlanEdge& edge = plan_.edges[e];
      const uint32_t sent = is_here(edge.from), received = is_here(edge.to);
      if (uses_.sent[e] == sent && uses_.received[e] == received && uses_.retired[e] == received)
        continue;
      return wrong(cat("edge ", e, " '", edge.name, "' is sent ", uses_.sent[e],
                       " times, received ", uses_.received[e], " times and retired ",
                       uses_.retired[e], " times a step"));
    }
    for (size_t f = 0; f < plan_.fetches.size(); ++f) {
      const uint32_t expected = is_here(plan_.fetches[f].partition);
      if (uses_.fetched[f] == expected) continue;
      return wrong(cat("fetch ", f, " '", plan_.fetches[f].name, "' is made ", uses_.fetched[f],
                       " times a step"));
    }
    return {};
  }

  // A step on paper: each partition in its order, a receive after its send. Sends never wait in
  // it, and those of later steps wait for retires of earlier ones, which are then through.
  Status check_progress() const {
    // `next` is the position of each partition. A partition that comes to a receive whose value was
    // not sent stops there, and goes on when the send wakes it. Each instruction is visited once.
    std::vector<size_t> next(plan_.partitions.size(), 0);
    std::vector<bool> sent(plan_.edges.size(), false);
    std::vector<bool> awaited(plan_.edges.size(), false);
    std::vector<uint32_t> ready;
    for (uint32_t p = 0; p < plan_.partitions.size(); ++p) ready.push_back(p);
    for (uint32_t e = 0; e < plan_.edges.size(); ++e) sent[e] = !is_here(plan_.edges[e].from);
    while (!ready.empty()) {
      const uint32_t p = ready.back();
      ready.pop_back();
      const auto& instructions = plan_.partitions[p].instructions;
      for (; next[p] < instructions.size(); ++next[p]) {
        const PlanInstruction& i = instructions[next[p]];
        if (i.kind == PlanInstruction::Kind::receive && !sent[i.edge]) {
          awaited[i.edge] = true;
          break;
        }
        if (i.kind != PlanInstruction::Kind::send) continue;
        sent[i.edge] = true;
        if (awaited[i.edge]) ready.push_back(plan_.edges[i.edge].to);
      }
    }
    // A partition that is not at its end waits for a partition that waits for it.
    for (uint32_t p = 0; p < plan_.partitions.size(); ++p) {
      if (next[p] == plan_.partitions[p].instructions.size()) continue;
      return wrong(cat("partition ", p, " waits forever for '",
                       plan_.partitions[p].instructions[next[p]].name, "', of edge ",
                       plan_.partitions[p].instructions[next[p]].edge));
    }
    return {};
  }

  const Plan& plan_;
  PlanUses uses_;
};

}  // namespace

Status verify(const Plan& plan) { return Verifier(plan).run(); }

}  // namespace leat

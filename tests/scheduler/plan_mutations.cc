#include "tests/scheduler/plan_mutations.h"

#include <algorithm>

#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

class Mutation {
 public:
  Mutation(Plan& plan, std::mt19937& random)
      : plan_(plan), random_(random), part_(pick(plan.partitions)) {}

  void run() {
    switch (below(12)) {
      case 0:
        return move_value();
      case 1:
        return realias();
      case 2:
        return swap_operands();
      case 3:
        return retype();
      case 4:
        return rehome();
      case 5:
        return swap_instructions();
      case 6:
        return rechain();
      case 7:
        return replace_op();
      case 8:
        return reroute();
      case 9:
        return repeat_or_drop();
      case 10:
        return change_attribute();
      default:
        return exchange_values();
    }
  }

 private:
  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % std::max<size_t>(n, 1)); }
  template <typename T>
  T& pick(std::vector<T>& list) {
    return list[below(list.size())];
  }
  uint32_t any_value() { return below(part_.values.size()); }

  void move_value() {
    PlanValue& value = pick(part_.values);
    value.offset = below(3) == 0 ? pick(part_.values).offset : below(part_.arena_bytes / 64) * 64;
  }
  void realias() {
    PlanValue& value = pick(part_.values);
    value.alias = below(3) == 0 ? kNone : any_value();
    if (value.alias == kNone) return;
    const PlanValue& of = part_.values[value.alias];
    value.home = of.home;
    value.index = of.index;
    value.offset = of.offset;
    if (of.alias != kNone) value.alias = of.alias;
  }
  void swap_operands() {
    PlanInstruction& i = pick(part_.instructions);
    auto& operands = below(2) == 0 || i.outputs.empty() ? i.inputs : i.outputs;
    if (operands.empty()) return;
    pick(operands) = below(8) == 0 ? kNone : any_value();
  }
  void retype() {
    OperandType& type = pick(part_.values).type;
    const OperandType& other = pick(part_.values).type;
    switch (below(4)) {
      case 0:
        type.dtype = other.dtype;
        return;
      case 1:
        type.shape = other.shape;
        return;
      case 2:
        type.layout = other.layout;
        return;
      default:
        type = other;
    }
  }
  void rehome() {
    PlanValue& value = pick(part_.values);
    const PlanValue& other = pick(part_.values);
    value.home = other.home;
    value.index = other.index;
    value.offset = other.offset;
    if (below(2) == 0) value.type = other.type;
  }
  void swap_instructions() {
    const uint32_t a = below(part_.instructions.size()), b = below(part_.instructions.size());
    const bool near = below(2) == 0 && a + 1 < part_.instructions.size();
    std::swap(part_.instructions[a], part_.instructions[near ? a + 1 : b]);
  }
  // A whole chain is cut otherwise, ends earlier, or takes in the instruction behind it.
  void rechain() {
    const uint32_t at = below(part_.instructions.size());
    const uint32_t chain = part_.instructions[at].chain;
    const int64_t rows = below(20);
    if (chain == kNone) {
      if (at == 0) return;
      part_.instructions[at].chain = part_.instructions[at - 1].chain;
      part_.instructions[at].tile_rows = part_.instructions[at - 1].tile_rows;
    } else if (below(2) == 0) {
      for (PlanInstruction& i : part_.instructions) {
        if (i.chain == chain) i.tile_rows = rows;
      }
    } else {
      for (uint32_t i = at; i < part_.instructions.size(); ++i) {
        if (part_.instructions[i].chain == chain) part_.instructions[i].chain = at;
      }
    }
  }
  void replace_op() {
    static const std::vector<const OpDef*> kAll = scheduler_catalogue().all();
    PlanInstruction& i = pick(part_.instructions);
    if (!i.op) return;
    i.op = kAll[below(kAll.size())];
    if (below(2) == 0) i.attrs.clear();
  }
  void reroute() {
    PlanEdge& edge = pick(plan_.edges);
    switch (below(4)) {
      case 0:
        edge.bytes = pick(plan_.edges).bytes;
        return;
      case 1:
        std::swap(edge.from, edge.to);
        return;
      case 2:
        pick(part_.instructions).edge = below(plan_.edges.size());
        return;
      default:
        pick(plan_.fetches).partition = below(plan_.partitions.size());
    }
  }
  void repeat_or_drop() {
    const auto at = part_.instructions.begin() + below(part_.instructions.size());
    if (below(2) == 0) {
      part_.instructions.erase(at);
    } else {
      PlanInstruction again = *at;
      part_.instructions.insert(at, std::move(again));
    }
  }
  void change_attribute() {
    PlanInstruction& i = pick(part_.instructions);
    if (i.attrs.empty()) return;
    auto it = i.attrs.begin();
    std::advance(it, below(i.attrs.size()));
    const std::string name = it->first;
    Attr& attr = i.attrs[name];
    if (below(4) == 0) {
      i.attrs.erase(name);
    } else if (auto* number = std::get_if<int64_t>(&attr)) {
      *number = static_cast<int64_t>(below(40)) - 8;
    } else if (auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
      if (!list->empty()) pick(*list) = static_cast<int64_t>(below(12)) - 3;
    }
  }
  // Two values change places in all instructions.
  void exchange_values() {
    const uint32_t a = any_value(), b = any_value();
    for (PlanInstruction& i : part_.instructions) {
      for (auto* operands : {&i.inputs, &i.outputs}) {
        for (uint32_t& v : *operands) v = v == a ? b : v == b ? a : v;
      }
    }
  }

  Plan& plan_;
  std::mt19937& random_;
  Partition& part_;
};

}  // namespace

void mutate(Plan& plan, std::mt19937& random) {
  for (uint32_t left = 1 + random() % 2; left > 0; --left) Mutation(plan, random).run();
}

void move_instruction(Partition& part, size_t from, size_t to) {
  PlanInstruction moved = std::move(part.instructions[from]);
  part.instructions.erase(part.instructions.begin() + static_cast<std::ptrdiff_t>(from));
  part.instructions.insert(part.instructions.begin() + static_cast<std::ptrdiff_t>(to),
                           std::move(moved));
}

}  // namespace leat

#include "scheduler/runtime/kernel_notes.h"

#include <algorithm>
#include <map>
#include <set>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/graph/cost.h"
#include "ops/graph/kernel_note.h"
#include "ops/graph/limits.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/runtime/workspaces.h"

namespace leat {
namespace {

// A note names so many instructions; the others are counted.
constexpr size_t kShownNames = 4;
constexpr uint64_t kWorkspaceAlignment = 64;  // of a workspace

// "Conv 'conv1'", as messages name an instruction.
std::string subject_of(const PlanInstruction& instruction) {
  return cat(instruction.op->full_name(), " '", instruction.name, "'");
}

// The text of an attribute that is short. For any other kind the name of the instruction stands,
// which makes the instruction like no other one.
std::string text_of(const Attr& attr, const PlanInstruction& of) {
  if (const auto* number = std::get_if<int64_t>(&attr)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&attr)) return shortest(*number);
  if (const auto* text = std::get_if<std::string>(&attr)) return *text;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) return join(*list, ",");
  return of.name;
}

// Equal only for instructions whose kernels are.
std::string likeness(const PlanInstruction& instruction, const OpTypes& types) {
  std::string text = cat(instruction.op->full_name(), " ", instruction.tile_rows);
  for (const auto& [name, attr] : instruction.attrs)
    text += cat(" ", name, "=", text_of(attr, instruction));
  for (const auto* operands : {&types.inputs, &types.outputs}) {
    for (const OperandType& o : *operands) {
      text +=
          cat(" ", o.present ? dtype_name(o.dtype) : "-", o.shape, " ", static_cast<int>(o.layout));
    }
  }
  return text;
}

// Tiles are counted in an int, so more of them may show as less than none. Kernels of no elements
// may have none.
Status check_tiles(const Kernel& kernel, const std::string& subject) {
  for (int phase = 0; phase < kernel.phases(); ++phase) {
    const int tiles = kernel.tiles(phase);
    if (tiles >= 0 && tiles <= limits::kTiles) continue;
    return resource_exhausted(cat(subject, ": expected at most ", limits::kTiles,
                                  " tiles, received ", tiles, " in phase ", phase));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_instruction_kernel(const Partition& partition,
                                                        const PlanInstruction& instruction,
                                                        std::string_view kind, Device* device,
                                                        JobResources* resources) {
  // A kernel is made from a node. The node lives during the call alone, and so do the attributes
  // with their defaults: kernels copy what they need.
  const Attrs attrs = with_defaults(*instruction.op, instruction.attrs);
  Node node;
  node.op = instruction.op;
  node.attrs = instruction.attrs;
  node.source = instruction.source;
  node.first_row = instruction.first_row;
  node.name = instruction.name;
  KernelSetup setup;
  setup.types = partition.types_of(instruction, attrs);
  setup.node = &node;
  setup.tile_rows = instruction.tile_rows;
  setup.tf32 = partition.tf32;
  setup.device = device;
  setup.resources = resources;
  setup.subject = subject_of(instruction);
  // A kernel may look at the elements of a constant when it is made.
  for (uint32_t input : instruction.inputs) {
    const bool known = input != kNone && partition.values[input].home == Home::constant;
    setup.constants.push_back(known ? &partition.constants[partition.values[input].index]
                                    : nullptr);
  }
  // A plan that others made may have a layout that the device's kernels do not know.
  const Layout foreign = kind == "cpu" ? Layout::channels_last : Layout::channels16;
  for (const auto* types : {&setup.types.inputs, &setup.types.outputs}) {
    for (const OperandType& type : *types) {
      if (type.present && type.layout == foreign)
        return invalid_argument(cat(setup.subject,
                                    ": expected operands in a layout that kernels for ", kind,
                                    " know, received one in a layout of other devices"));
    }
  }
  // An op may have kernels for some kinds of devices only.
  const auto factory = instruction.op->kernels.find(kind);
  if (factory == instruction.op->kernels.end()) {
    return unimplemented(cat(setup.subject, ": has no kernel for ", kind));
  }
  // place() asks this, too; a plan may be one that others made.
  const auto supports = instruction.op->supports.find(kind);
  if (supports != instruction.op->supports.end() && !supports->second(setup.types))
    return unimplemented(
        cat(setup.subject, ": has no kernel for ", kind, " that takes these operands"));
  LEAT_ASSIGN_OR_RETURN(auto kernel, factory->second(setup));
  LEAT_RETURN_IF_ERROR(check_tiles(*kernel, setup.subject));
  return kernel;
}

namespace {

// The facts of a kernel that are known before it runs.
struct KernelFacts {
  std::string note;
  uint64_t workspace_bytes = 0;
};

// Calls f(partition, instruction, facts) for each product and convolution on a CPU: the number of
// the partition, that of the instruction in it. Only these have notes, and mostly the large
// workspaces. The kernel of each distinct one is made once, since a deep model repeats its layers.
template <typename F>
Status each_product(const Plan& plan, const F& f) {
  std::map<std::string, KernelFacts> made;  // by likeness
  for (size_t p = 0; p < plan.partitions.size(); ++p) {
    const Partition& partition = plan.partitions[p];
    if (!matches_device("*/cpu", partition.device)) continue;
    for (size_t i = 0; i < partition.instructions.size(); ++i) {
      const PlanInstruction& instruction = partition.instructions[i];
      if (instruction.kind != PlanInstruction::Kind::kernel) continue;
      const Attrs attrs = with_defaults(*instruction.op, instruction.attrs);
      const OpTypes types = partition.types_of(instruction, attrs);
      if (product_flops(*instruction.op, types) == 0) continue;
      const auto [like, fresh] = made.try_emplace(likeness(instruction, types));
      if (fresh) {
        LEAT_ASSIGN_OR_RETURN(const auto kernel, make_instruction_kernel(partition, instruction,
                                                                         "cpu", nullptr, nullptr));
        like->second = {kernel_note(*kernel),
                        align_up(kernel->workspace_bytes(), kWorkspaceAlignment)};
      }
      f(p, i, like->second);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> kernel_notes(const Plan& plan) {
  std::map<std::string, std::set<std::string>> subjects;  // by note
  LEAT_RETURN_IF_ERROR(each_product(plan, [&](size_t p, size_t i, const KernelFacts& facts) {
    if (!facts.note.empty())
      subjects[facts.note].insert(subject_of(plan.partitions[p].instructions[i]));
  }));
  std::vector<std::string> notes;
  for (const auto& [note, names] : subjects) {
    const std::vector<std::string> all(names.begin(), names.end());
    const size_t shown = std::min(all.size(), kShownNames);
    notes.push_back(cat(join(std::span(all).first(shown), ", "),
                        all.size() > shown ? cat(" and ", all.size() - shown, " more") : "", ": ",
                        note));
  }
  return notes;
}

Result<std::vector<uint64_t>> workspace_bytes(const Plan& plan) {
  std::vector<std::vector<uint64_t>> sizes;
  for (const Partition& partition : plan.partitions)
    sizes.emplace_back(partition.instructions.size(), 0);
  LEAT_RETURN_IF_ERROR(each_product(plan, [&](size_t p, size_t i, const KernelFacts& facts) {
    sizes[p][i] = facts.workspace_bytes;
  }));
  std::vector<uint64_t> bytes;
  for (size_t p = 0; p < sizes.size(); ++p)
    bytes.push_back(place_workspaces(plan.partitions[p], sizes[p], false).bytes);
  return bytes;
}

}  // namespace leat

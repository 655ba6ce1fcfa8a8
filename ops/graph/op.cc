#include "ops/graph/op.h"

#include <algorithm>
#include <cassert>

#include "devices/base/text.h"

namespace leat {

// Zero times a symbol is the constant 0, so that an empty shape is known to be empty.
std::optional<Dim> multiply(Dim a, Dim b) {
  if (!a.is_constant() && !b.is_constant()) return std::nullopt;
  const auto factor = checked_mul(a.factor, b.factor);
  if (!factor) return std::nullopt;
  if (*factor == 0) return Dim::of(0);
  return Dim{*factor, a.is_constant() ? b.symbol : a.symbol};
}

std::optional<int64_t> constant_of(Dim d) {
  if (!d.is_constant()) return std::nullopt;
  return d.factor;
}

// The shapes are aligned at their last axes; the axes that only the longer has stay as they are.
std::optional<SymbolicShape> broadcast(InferContext& ctx, const SymbolicShape& a,
                                       const SymbolicShape& b) {
  const SymbolicShape& longer = a.rank() >= b.rank() ? a : b;
  const SymbolicShape& shorter = a.rank() >= b.rank() ? b : a;
  SymbolicShape out = longer;
  const int offset = longer.rank() - shorter.rank();
  const Dim one = Dim::of(1);
  for (int i = 0; i < shorter.rank(); ++i) {
    const Dim x = longer[offset + i], y = shorter[i];
    // `out` has the longer shape's size already.
    if (x == y || y == one) continue;
    if (x == one) {
      out.set(offset + i, y);
    } else if (x.is_constant() && y.is_constant()) {
      return std::nullopt;
    } else if (!x.is_constant() && !y.is_constant()) {
      out.set(offset + i, Dim::of_symbol(ctx.fresh_symbol()));
    } else {
      out.set(offset + i, x.is_constant() ? x : y);  // the symbol must be that constant or 1
    }
  }
  return out;
}

Result<int> normalize_axis(const InferContext& ctx, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return ctx.error(cat("axis: expected in [", -rank, ", ", rank - 1, "] for rank ", rank,
                         ", received ", axis));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Status infer_same_as_first(InferContext& ctx) {
  ctx.set_output(0, ctx.input(0));
  return {};
}

// Broadcasts over all inputs, from the left. Absent optional inputs do not count.
static Status infer_broadcast_to(InferContext& ctx, DType dtype) {
  SymbolicShape shape = ctx.shape(0);
  for (int i = 1; i < ctx.inputs(); ++i) {
    if (!ctx.has_input(i)) continue;
    const auto both = broadcast(ctx, shape, ctx.shape(i));
    if (!both) {
      return ctx.error(
          cat("shapes do not broadcast: ", ctx.text(shape), " and ", ctx.text(ctx.shape(i))));
    }
    shape = *both;
  }
  ctx.set_tensor(0, dtype, shape);
  return {};
}

Status infer_broadcast(InferContext& ctx) { return infer_broadcast_to(ctx, ctx.dtype(0)); }
Status infer_broadcast_bool(InferContext& ctx) { return infer_broadcast_to(ctx, DType::boolean); }

// The part before the first dot is the domain; ops of ONNX have none.
Op::Op(std::string_view name, int since) {
  const size_t dot = name.find('.');
  def_.domain = dot == std::string_view::npos ? "" : std::string(name.substr(0, dot));
  def_.name = std::string(dot == std::string_view::npos ? name : name.substr(dot + 1));
  def_.since = since;
}

Op& Op::input(std::string name, std::string type) {
  def_.inputs.push_back({std::move(name), std::move(type)});
  return *this;
}
Op& Op::optional_input(std::string name, std::string type) {
  def_.inputs.push_back({std::move(name), std::move(type), true});
  return *this;
}
Op& Op::variadic_input(std::string name, std::string type, bool mixed) {
  def_.inputs.push_back({std::move(name), std::move(type), false, true, mixed});
  return *this;
}
Op& Op::output(std::string name, std::string type) {
  def_.outputs.push_back({std::move(name), std::move(type)});
  return *this;
}
Op& Op::optional_output(std::string name, std::string type) {
  def_.outputs.push_back({std::move(name), std::move(type), true});
  return *this;
}
Op& Op::variadic_output(std::string name, std::string type, bool mixed) {
  def_.outputs.push_back({std::move(name), std::move(type), false, true, mixed});
  return *this;
}
// A later call replaces the set: an op may narrow or widen the types that its helper function gave.
Op& Op::type(std::string variable, DTypeSet allowed) {
  def_.types[std::move(variable)] = allowed;
  return *this;
}
// The kind follows from the default, so that an attribute with a default cannot have another kind.
Op& Op::attr(std::string name, Attr fallback) {
  const std::string kind(attr_kind(fallback));
  def_.attributes.push_back({std::move(name), kind, std::move(fallback), false});
  return *this;
}
Op& Op::attr_required(std::string name, std::string kind) {
  def_.attributes.push_back({std::move(name), std::move(kind), std::nullopt, true});
  return *this;
}
Op& Op::attr_optional(std::string name, std::string kind) {
  def_.attributes.push_back({std::move(name), std::move(kind), std::nullopt, false});
  return *this;
}
Op& Op::stateful() {
  def_.stateful = true;
  return *this;
}
Op& Op::random() {
  def_.random = true;
  return *this;
}
Op& Op::per_shard() {
  def_.per_shard = true;
  return *this;
}
// A write makes the op stateful; a read does not, because reading changes nothing.
Op& Op::writes(int input) {
  def_.writes.push_back(input);
  def_.stateful = true;
  return *this;
}
Op& Op::reads(int input) {
  def_.reads.push_back(input);
  return *this;
}
Op& Op::picks(int input) {
  def_.picks.push_back(input);
  return *this;
}
Op& Op::view() {
  def_.view = true;
  return *this;
}
Op& Op::moves() {
  def_.moves = true;
  return *this;
}
Op& Op::commutative() {
  def_.commutative = true;
  return *this;
}
Op& Op::in_place(int output, int input) {
  def_.in_place.emplace_back(output, input);
  return *this;
}
Op& Op::infer(std::function<Status(InferContext&)> f) {
  def_.infer = std::move(f);
  return *this;
}
Op& Op::gradient(std::function<Status(GradientContext&)> f, bool stands_for_floats) {
  def_.stands_for_floats = stands_for_floats;
  def_.gradient = std::move(f);
  return *this;
}
Op& Op::sharding(decltype(OpDef::sharding) f) {
  def_.sharding = std::move(f);
  return *this;
}
Op& Op::flops(std::function<double(const OpTypes&)> f) {
  def_.flops = std::move(f);
  return *this;
}
Op& Op::tiling(std::function<Tiling(const OpTypes&)> f) {
  def_.tiling = std::move(f);
  return *this;
}
Op& Op::layouts(std::function<LayoutSupport(const OpTypes&)> f) {
  def_.layouts = std::move(f);
  return *this;
}
Op& Op::kernel(std::string device_kind, KernelFactory f) {
  def_.kernels[std::move(device_kind)] = std::move(f);
  return *this;
}
Op& Op::resource(std::function<Result<Resource*>(const KernelSetup&)> f) {
  def_.make_resource = std::move(f);
  return *this;
}

// Each OpDef is on the heap, since nodes keep its address for the life of the catalogue.
void Catalogue::add(OpDef op) {
  const std::string name = op.full_name();
  const bool added = ops_.emplace(name, std::make_unique<OpDef>(std::move(op))).second;
  assert(added);
  (void)added;
}

// A later kernel for the same kind of device replaces the earlier one.
void Catalogue::add_kernel(std::string_view full_name, std::string device_kind,
                           KernelFactory factory, KernelSupport supports) {
  const auto it = ops_.find(full_name);
  assert(it != ops_.end());
  if (supports) it->second->supports[device_kind] = std::move(supports);
  it->second->kernels[std::move(device_kind)] = std::move(factory);
}

void Catalogue::add_layouts(std::string_view full_name, std::string device_kind,
                            std::function<LayoutSupport(const OpTypes&)> layouts) {
  const auto it = ops_.find(full_name);
  assert(it != ops_.end());
  it->second->device_layouts[std::move(device_kind)] = std::move(layouts);
}

const OpDef* Catalogue::find(std::string_view full_name) const {
  const auto it = ops_.find(full_name);
  return it == ops_.end() ? nullptr : it->second.get();
}

// "ai.onnx" is the long name of ONNX's default domain.
const OpDef* Catalogue::find(std::string_view domain, std::string_view name) const {
  if (domain.empty() || domain == "ai.onnx") return find(name);
  return find(std::string(domain) + "." + std::string(name));
}

// The map sorts by full name, so the order is that of the header's promise.
std::vector<const OpDef*> Catalogue::all() const {
  std::vector<const OpDef*> out;
  for (const auto& [name, op] : ops_) out.push_back(op.get());
  return out;
}

std::string Catalogue::suggestion(std::string_view full_name) const {
  std::vector<std::string> names;
  for (const auto& [name, op] : ops_) names.push_back(name);
  return did_you_mean(full_name, names);
}

}  // namespace leat

#include "ops/graph/attrs.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace leat {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

// The names are in the order of the variant's alternatives.
std::string_view attr_kind(const Attr& attr) {
  static constexpr std::string_view kKinds[] = {"int",  "float",  "string",  "tensor",
                                                "ints", "floats", "strings", "graph"};
  return kKinds[attr.index()];
}

// Floats and tensors are equal if their bits are, since 1/0.0 and 1/-0.0 differ. Regions are
// compared by address, so two equal graphs in different objects count as different.
bool attrs_equal(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  if (const auto* tensor = std::get_if<Tensor>(&a)) return tensor->identical(std::get<Tensor>(b));
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Tensor>)
          return false;
        else if constexpr (std::is_same_v<T, double>)
          return same_bits(value, std::get<T>(b));
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return std::ranges::equal(value, std::get<T>(b), same_bits);
        else
          return value == std::get<T>(b);
      },
      a);
}

Attrs::Attrs(std::initializer_list<value_type> list)
    : shared_(list.size() == 0 ? nullptr : new Shared{Map(list)}) {}

// A new owner needs no order: the thread that copies holds an owner already, so the map cannot go.
Attrs::Attrs(const Attrs& other) noexcept : shared_(other.shared_) {
  if (shared_) shared_->owners.fetch_add(1, std::memory_order_relaxed);
}

// The last owner deletes the map. acq_rel orders the reads of the other owners before that.
Attrs::~Attrs() {
  if (shared_ && shared_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared_;
}

const Attrs::Map& Attrs::map() const {
  static const Map none;
  return shared_ ? shared_->map : none;
}

// With one owner, no other thread can reach the map, and it may change in place. The acquire pairs
// with the release of owners that have just left.
Attrs::Map& Attrs::own() {
  if (!shared_)
    shared_ = new Shared;
  else if (shared_->owners.load(std::memory_order_acquire) != 1)
    *this = Attrs(new Shared{shared_->map});
  return shared_->map;
}

// Looks before it owns: a failed call copies no shared map.
bool Attrs::emplace(std::string name, Attr attr) {
  if (contains(name)) return false;
  return own().emplace(std::move(name), std::move(attr)).second;
}

void Attrs::insert_or_assign(std::string name, Attr attr) {
  own().insert_or_assign(std::move(name), std::move(attr));
}

size_t Attrs::erase(std::string_view name) {
  if (!contains(name)) return 0;
  Map& map = own();
  map.erase(map.find(name));
  return 1;
}

int64_t attr_int(const Attrs& attrs, std::string_view name, int64_t fallback) {
  const auto it = attrs.find(name);
  const int64_t* value = it == attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return value ? *value : fallback;
}

// An int is accepted for a float, as validate() accepts it.
double attr_float(const Attrs& attrs, std::string_view name, double fallback) {
  const auto it = attrs.find(name);
  if (it == attrs.end()) return fallback;
  if (const auto* value = std::get_if<double>(&it->second)) return *value;
  if (const auto* value = std::get_if<int64_t>(&it->second)) return static_cast<double>(*value);
  return fallback;
}

std::string attr_string(const Attrs& attrs, std::string_view name, std::string_view fallback) {
  const auto it = attrs.find(name);
  const auto* value = it == attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  return value ? *value : std::string(fallback);
}

std::vector<int64_t> attr_ints(const Attrs& attrs, std::string_view name,
                               std::vector<int64_t> fallback) {
  const auto it = attrs.find(name);
  const auto* value = it == attrs.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  return value ? *value : fallback;
}

bool has_attr(const Attrs& attrs, std::string_view name) { return attrs.find(name) != attrs.end(); }

}  // namespace leat

// The attributes of a node, by name. Copies share one map until one of them is written to: a
// strategy makes thousands of copies of a node, and all of them have the same attributes.
//
// Threads: Attrs is a value. Different threads may read and write copies that share a map; one
// object needs a lock of its own if a thread writes to it.
//
//   Attrs attrs = {{"axis", int64_t{1}}, {"mode", std::string("edge")}};   // the types must be
//   exact attrs["axis"] = int64_t{2}; attr_int(attrs, "axis");        // 2 attr_int(attrs, "group",
//   1);    // 1: the default
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "devices/core/tensor.h"

namespace leat {

class Graph;

// An attribute of a node. Floats are doubles in memory; a float that comes from an ONNX file
// becomes the double with the same shortest decimal (0.9f is 0.9), and goes back to the same float.
using Attr = std::variant<int64_t, double, std::string, Tensor, std::vector<int64_t>,
                          std::vector<double>, std::vector<std::string>, std::shared_ptr<Graph>>;
// "int", "float", "string", "tensor", "ints", "floats", "strings" or "graph": the names that
// AttrDef::kind and messages use.
std::string_view attr_kind(const Attr& attr);
// True if both are of one kind and have the same content: tensors the same dtype, shape and bytes,
// floats the same bits (so 0 differs from -0, and NaN equals itself). Regions are compared by
// address: two equal graphs in different objects count as different.
bool attrs_equal(const Attr& a, const Attr& b);

// A map from names to attributes, copied when it is written to. An empty object has no memory.
class Attrs {
 public:
  using Map = std::map<std::string, Attr, std::less<>>;  // sorted by name
  using value_type = Map::value_type;
  using const_iterator = Map::const_iterator;

  Attrs() = default;
  Attrs(std::initializer_list<value_type> list);
  Attrs(const Attrs& other) noexcept;
  Attrs(Attrs&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  Attrs& operator=(Attrs other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~Attrs();

  // --- reading: in ascending order of the names' bytes; references are valid until a write to this
  // object, whatever happens to its copies ---
  const_iterator begin() const { return map().begin(); }
  const_iterator end() const { return map().end(); }
  const_iterator find(std::string_view name) const { return map().find(name); }
  bool contains(std::string_view name) const { return map().contains(name); }
  size_t count(std::string_view name) const { return map().count(name); }
  // REQUIRES: contains(name); else it throws std::out_of_range.
  const Attr& at(const std::string& name) const { return map().at(name); }
  size_t size() const { return map().size(); }
  bool empty() const { return map().empty(); }
  // True if both have the same map in memory. Two equal objects need not share one.
  bool shares(const Attrs& other) const { return shared_ == other.shared_; }

  // --- writing: iterators and references from before are no longer valid ---
  // The attribute, made as the int 0 if it is new.
  Attr& operator[](const std::string& name) { return own()[name]; }
  // Adds the attribute if `name` is new and returns true; else it changes nothing.
  bool emplace(std::string name, Attr attr);
  void insert_or_assign(std::string name, Attr attr);
  // Removes the attribute and returns 1; returns 0 if there is none. REQUIRES: `name` does not
  // point into this object.
  size_t erase(std::string_view name);
  void erase(const_iterator at) { erase(std::string(at->first)); }
  void clear() { *this = Attrs(); }

 private:
  struct Shared {
    Map map;
    std::atomic<uint64_t> owners{1};
  };
  explicit Attrs(Shared* shared) : shared_(shared) {}
  const Map& map() const;
  Map& own();  // makes the map this object's own first

  Shared* shared_ = nullptr;  // null if there are no attributes
};

// These return the value of an attribute, or the default if it is absent or of another kind:
// validate() has checked kinds. attr_float() accepts an int as well. Defaults of the op are not
// known here: kernels and inference rules get attributes that are filled in with with_defaults(),
// the attributes of a Node are as the file has them.
int64_t attr_int(const Attrs& attrs, std::string_view name, int64_t fallback = 0);
double attr_float(const Attrs& attrs, std::string_view name, double fallback = 0);
std::string attr_string(const Attrs& attrs, std::string_view name, std::string_view fallback = "");
std::vector<int64_t> attr_ints(const Attrs& attrs, std::string_view name,
                               std::vector<int64_t> fallback = {});
bool has_attr(const Attrs& attrs, std::string_view name);

}  // namespace leat

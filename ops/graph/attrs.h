// The attributes of a node, by name. Copies share them until one is written to: of the thousands of
// copies that a strategy makes of a node all have the same.
//
// Threads: a value; those that share may be read and written on different threads.
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
std::string_view attr_kind(const Attr& attr);  // "int", "float", "string", "tensor", "ints", ...
bool attrs_equal(const Attr& a, const Attr& b);

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

  // --- reading ---
  const_iterator begin() const { return map().begin(); }
  const_iterator end() const { return map().end(); }
  const_iterator find(std::string_view name) const { return map().find(name); }
  bool contains(std::string_view name) const { return map().contains(name); }
  size_t count(std::string_view name) const { return map().count(name); }
  const Attr& at(const std::string& name) const { return map().at(name); }
  size_t size() const { return map().size(); }
  bool empty() const { return map().empty(); }
  // Are both the same bytes? Equal ones need not be.
  bool shares(const Attrs& other) const { return shared_ == other.shared_; }

  // --- writing: what was found before is no longer valid ---
  Attr& operator[](const std::string& name) { return own()[name]; }
  // Is `name` new? Otherwise nothing is changed.
  bool emplace(std::string name, Attr attr);
  void insert_or_assign(std::string name, Attr attr);
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
  Map& own();  // shared with nobody

  Shared* shared_ = nullptr;  // none: empty
};

// A value with a default. A wrong kind gives the default: validate() has checked kinds.
int64_t attr_int(const Attrs& attrs, std::string_view name, int64_t fallback = 0);
double attr_float(const Attrs& attrs, std::string_view name, double fallback = 0);
std::string attr_string(const Attrs& attrs, std::string_view name, std::string_view fallback = "");
std::vector<int64_t> attr_ints(const Attrs& attrs, std::string_view name,
                               std::vector<int64_t> fallback = {});
bool has_attr(const Attrs& attrs, std::string_view name);

}  // namespace leat

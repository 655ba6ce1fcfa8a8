#include "ops/text/fix_inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "devices/base/text.h"

namespace leat {
namespace {

std::string sizes_of(const DraftType& type) {
  std::vector<std::string> sizes;
  for (const DraftDim& dim : type.dims)
    sizes.push_back(dim.size ? cat(*dim.size) : dim.symbol.empty() ? "?" : dim.symbol);
  return cat("[", join(sizes, ","), "]");
}

// A symbol and its factor: "2*N".
std::pair<std::string_view, int64_t> split_symbol(std::string_view text) {
  int64_t factor = 1;
  const size_t star = text.find('*');
  if (star == std::string_view::npos) return {text, factor};
  std::from_chars(text.data(), text.data() + star, factor);
  return {text.substr(star + 1), std::max<int64_t>(1, factor)};
}

// The sizes of symbols, by their names.
using Sizes = std::map<std::string, int64_t, std::less<>>;

// Whether a size may be `size`; a symbol that is new gets its own.
bool takes(const DraftDim& dim, int64_t size, Sizes& known) {
  if (dim.size) return *dim.size == size;
  if (dim.symbol.empty()) return true;
  const auto [symbol, factor] = split_symbol(dim.symbol);
  if (size % factor != 0) return false;
  return known.try_emplace(std::string(symbol), size / factor).first->second == size / factor;
}

void set_sizes(std::vector<DraftValue>& values, const Sizes& known) {
  for (DraftValue& value : values) {
    if (!value.type) continue;
    for (DraftDim& dim : value.type->dims) {
      if (dim.size || dim.symbol.empty()) continue;
      const auto [symbol, factor] = split_symbol(dim.symbol);
      const auto found = known.find(symbol);
      if (found == known.end()) continue;
      dim.size = found->second * factor;
      dim.symbol.clear();
    }
  }
}

// An integer or a bool must be the same number in the other type.
bool same_numbers(const Tensor& from, const Tensor& to) {
  if (is_float(to.dtype())) return true;
  for (int64_t i = 0; i < from.elements(); ++i) {
    if (is_float(from.dtype())) {
      const double x = from.at(i);
      if (!(std::abs(x) < 0x1p53) || x != to.at(i)) return false;
    } else if (from.int_at(i) != to.int_at(i) || (from.int_at(i) < 0) != (to.at(i) < 0)) {
      return false;
    }
  }
  return true;
}

Result<Tensor> fit(const DraftValue& input, const Tensor& value, Sizes& known) {
  const DraftType& type = *input.type;
  const Shape& shape = value.shape();
  bool fits = static_cast<size_t>(shape.rank()) == type.dims.size();
  for (int d = 0; fits && d < shape.rank(); ++d)
    fits = takes(type.dims[static_cast<size_t>(d)], shape[d], known);
  if (!fits)
    return invalid_argument(
        cat("expected a value of the shape ", sizes_of(type), ", received ", shape.to_string()));
  if (value.dtype() == type.dtype) return value;
  Tensor converted = value.cast(type.dtype);
  if (same_numbers(value, converted)) return converted;
  return invalid_argument(
      cat("expected numbers of the type ", dtype_name(type.dtype), ", received one that it lacks"));
}

}  // namespace

Status fix_inputs(DraftGraph& graph, const FixedInputs& values, std::string_view file) {
  Sizes known;
  std::vector<DraftNode> constants;
  for (const auto& [name, value] : values) {
    const auto input = std::ranges::find(graph.inputs, name, [](const DraftValue& each) {
      return std::string_view(each.name.name);
    });
    if (input == graph.inputs.end()) {
      std::vector<std::string> names;
      for (const DraftValue& each : graph.inputs) names.push_back(each.name.name);
      return invalid_argument(cat(file, ": expected an input to fix, received '", name, "'",
                                  did_you_mean(name, names), "; the graph has ",
                                  names.empty() ? "none" : cat("'", join(names, "', '"), "'")));
    }
    if (!input->type || input->type->kind != ValueKind::tensor)
      return invalid_argument(cat(file, ": input '", name, "': expected a tensor to fix"));
    auto fitting = fit(*input, value, known);
    if (!fitting.ok())
      return invalid_argument(
          cat(file, ": fixed input '", name, "': ", fitting.status().message()));
    DraftNode& constant = constants.emplace_back();
    constant.offset = input->name.offset;
    constant.op = "Constant";
    constant.outputs = {input->name};
    constant.attrs["value"] = Attr(std::move(*fitting));
    graph.inputs.erase(input);
  }
  set_sizes(graph.inputs, known);
  set_sizes(graph.outputs, known);
  set_sizes(graph.types, known);
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(constants.begin()),
                     std::make_move_iterator(constants.end()));
  return {};
}

}  // namespace leat

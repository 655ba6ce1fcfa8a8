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
  const auto [end, failure] = std::from_chars(text.data(), text.data() + star, factor);
  if (failure != std::errc() || end != text.data() + star || factor < 1) return {text, 1};
  return {text.substr(star + 1), factor};
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

Status set_sizes(std::vector<DraftValue>& values, const Sizes& known, std::string_view file) {
  for (DraftValue& value : values) {
    if (!value.type) continue;
    for (DraftDim& dim : value.type->dims) {
      if (dim.size || dim.symbol.empty()) continue;
      const auto [symbol, factor] = split_symbol(dim.symbol);
      const auto found = known.find(symbol);
      if (found == known.end()) continue;
      int64_t size = 0;
      if (__builtin_mul_overflow(found->second, factor, &size)) {
        return invalid_argument(cat(file, ": '", value.name.name, "': the size ", dim.symbol,
                                    " is too large where ", symbol, " is ", found->second));
      }
      dim.size = size;
      dim.symbol.clear();
    }
  }
  return {};
}

// Whether an integer type, or bool, has these numbers, which are floats.
bool has_numbers(DType type, const Tensor& numbers) {
  const int bits = dtype_bits(type);
  const bool is_signed = is_signed_int(type) || type == DType::i4 || type == DType::i2;
  const double limit = type == DType::boolean ? 2 : std::ldexp(1, is_signed ? bits - 1 : bits);
  for (int64_t i = 0; i < numbers.elements(); ++i) {
    const double x = numbers.at(i);
    if (!(std::abs(x) < 0x1p53) || x != std::floor(x) || x >= limit) return false;
    if (x < (is_signed ? -limit : 0)) return false;
  }
  return true;
}

// The tensor as another type; nothing if an integer or a bool would be another number there.
std::optional<Tensor> converted(const Tensor& from, DType type) {
  const bool is_real = is_float(type) || is_narrow_float(type);
  if (!is_real && is_float(from.dtype()) && !has_numbers(type, from)) return std::nullopt;
  Tensor to = from.cast(type);
  if (is_real || is_float(from.dtype())) return to;
  for (int64_t i = 0; i < from.elements(); ++i) {
    if (from.int_at(i) != to.int_at(i) || (from.int_at(i) < 0) != (to.at(i) < 0))
      return std::nullopt;
  }
  return to;
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
  if (auto as_input = converted(value, type.dtype)) return std::move(*as_input);
  return invalid_argument(
      cat("expected numbers of the type ", dtype_name(type.dtype), ", received one that it lacks"));
}

}  // namespace

Status fix_inputs(DraftGraph& graph, const FixedInputs& fixed, std::string_view file) {
  Sizes known;
  std::vector<DraftNode> constants;
  for (const auto& [name, value] : fixed) {
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
  for (auto* values : {&graph.inputs, &graph.outputs, &graph.types})
    LEAT_RETURN_IF_ERROR(set_sizes(*values, known, file));
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(constants.begin()),
                     std::make_move_iterator(constants.end()));
  return {};
}

}  // namespace leat

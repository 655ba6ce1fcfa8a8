#include "ops/text/print.h"

#include <charconv>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/text/lexer.h"

namespace leat {
namespace {

// True for words that the parser would read as the beginning of a type or a number.
bool is_reserved(std::string_view word) {
  static const std::set<std::string, std::less<>> kWords = {
      "seq", "map", "optional", "sparse_tensor", "opaque", "string", "complex64", "complex128"};
  if (kWords.contains(word) || dtype_from_name(word)) return true;
  std::string lower(word);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower == "inf" || lower == "infinity" || lower == "nan";
}

// A name as the parser reads it back: in quotes unless it is a plain identifier.
std::string id_text(std::string_view name) {
  return is_identifier(name) && !is_reserved(name) ? std::string(name) : quote(name);
}

// The shortest text that gives the same bits when it is read back. Of a NaN only the sign is left.
template <typename T>
std::string real_text(T value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  return shortest(value);
}

// Formats with '.' or an exponent, so that the parser reads a float again.
std::string float_text(double value) {
  std::string text = real_text(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// Joins text(item) of all items with ", ".
template <typename Range, typename F>
std::string list_text(const Range& range, F&& text) {
  std::string out;
  for (const auto& item : range) {
    if (!out.empty()) out += ", ";
    out += text(item);
  }
  return out;
}

std::string tensor_text(const Tensor& tensor) {
  if (!tensor.valid()) return "bool[0] {}";  // invalid in every graph: printed, but not readable
  std::string out(dtype_name(tensor.dtype()));
  if (tensor.shape().rank() > 0) out += tensor.shape().to_string();
  out += " {";
  dispatch_dtype(tensor.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      if (i > 0) out += ", ";
      const T value = tensor.data<T>()[i];
      if constexpr (std::is_floating_point_v<T>) {
        out += real_text(value);
      } else if constexpr (std::is_class_v<T>) {
        out += std::to_string(value.bits);
      } else {
        // Narrow floats are written as their bits, too, and narrow integers as numbers.
        const bool is_number = is_narrow(tensor.dtype()) && !is_narrow_float(tensor.dtype());
        out += is_number ? std::to_string(tensor.int_at(i)) : std::to_string(value);
      }
    }
  });
  return out + "}";
}

// Prints one graph. Each region has a printer of its own.
class Printer {
 public:
  Printer(const Graph& graph, int indent, uint32_t& sources)
      : graph_(graph), indent_(indent), sources_(sources) {
    Result<std::vector<NodeId>> order = graph.topological_order();
    if (order.ok()) {
      order_ = std::move(*order);
    } else {  // a cycle: printed in the order of ids
      for (NodeId id = 0; id < graph.nodes(); ++id) order_.push_back(id);
    }
    name_values();
    name_nodes();
    name_symbols();
  }

  // Prints the name, the borders and the nodes. A region has no header and another rule for its
  // name.
  std::string run(bool top) {
    std::string out = top ? id_text(graph_.name) : region_name();
    out += " (" + list_text(graph_.inputs(), [&](ValueId v) { return border(v); }) + ") => (" +
           list_text(graph_.outputs(), [&](ValueId v) { return border(v); }) + ") {\n";
    for (const NodeId id : order_) add_node(out, id);
    out.append(static_cast<size_t>(indent_), ' ');
    return out + "}";
  }

  // "N<=128, T<=64", of the symbols that have a bound; "" without any.
  std::string bounds() {
    std::string out;
    for (SymbolId id = 0; id < graph_.symbols(); ++id) {
      const Symbol& symbol = graph_.symbol_info(id);
      if (!symbol.bound) continue;
      if (!out.empty()) out += ", ";
      out += cat(symbols_[id], "<=", *symbol.bound);
    }
    return out;
  }

 private:
  // Gives each value the name that the text uses. The number counts all values, also those with a
  // name of their own, because "%12" must be the id that the value has after it was read back.
  void name_values() {
    values_.resize(graph_.values());
    std::unordered_set<std::string_view> used;
    size_t number = 0;
    const auto name = [&](ValueId id) {
      if (id == kNone) return;
      const std::string& own = graph_.value_name(id);
      const bool good = !own.empty() && own[0] != '%' && used.insert(own).second;
      values_[id] = good ? own : cat("%", number);
      ++number;
    };
    for (const ValueId input : graph_.inputs()) name(input);
    for (const NodeId node : order_) {
      for (const ValueId output : graph_.node(node).outputs) name(output);
    }
  }

  // Names the nodes that control edges refer to and that make no value: the text refers to them by
  // their own name.
  void name_nodes() {
    std::unordered_map<std::string_view, int> uses;
    std::unordered_set<NodeId> awaited;
    for (const NodeId id : order_) {
      ++uses[graph_.node(id).name];
      awaited.insert(graph_.node(id).after.begin(), graph_.node(id).after.end());
    }
    std::unordered_set<std::string> brackets;  // values whose names look like a reference to a node
    for (const std::string& value : values_) {
      if (value.starts_with('[')) brackets.insert(value);
    }
    nodes_.resize(graph_.nodes());
    for (size_t position = 0; position < order_.size(); ++position) {
      const NodeId id = order_[position];
      const std::string& own = graph_.node(id).name;
      const bool good = !own.empty() && own[0] != '%';
      const bool needed = awaited.contains(id) && first_output(id) == kNone;
      nodes_[id] = good ? own : "";
      const bool alone = good && uses[own] == 1 && !brackets.contains("[" + own + "]");
      if (needed && !alone) nodes_[id] = cat("%n", position);
    }
  }

  // Gives each symbol a name of its own: two symbols of a graph may have the same name, and the
  // parser would make one of them.
  void name_symbols() {
    std::unordered_set<std::string> used;
    for (SymbolId id = 0; id < graph_.symbols(); ++id) {
      std::string name = graph_.symbol_info(id).name;
      for (int k = 2; name.empty() || !used.insert(name).second; ++k) {
        name = cat(graph_.symbol_info(id).name, "_", k);
      }
      symbols_.push_back(std::move(name));
    }
  }

  // The value by which control edges name the node; kNone if it makes none.
  ValueId first_output(NodeId id) const {
    for (const ValueId output : graph_.node(id).outputs) {
      if (output != kNone) return output;
    }
    return kNone;
  }

  // The name of a region must be an identifier, because the parser would read a quoted one as a
  // string.
  std::string region_name() const {
    std::string name = graph_.name;
    for (char& c : name) {
      if (!is_identifier(std::string{'a', c})) c = '_';
    }
    return is_identifier(name) && !is_reserved(name) ? name : "g" + name;
  }

  std::string name(ValueId id) const { return id == kNone ? "\"\"" : id_text(values_[id]); }

  std::string dim_text(Dim dim) const {
    if (dim.is_constant()) return std::to_string(dim.factor);
    if (dim.factor == 1) return id_text(symbols_[dim.symbol]);
    return quote(cat(dim.factor, "*", symbols_[dim.symbol]));
  }

  // The type in ONNX's syntax: see ops/text/parse.h for the kinds that have no counterpart there.
  std::string type_text(const ValueType& type) const {
    if (type.kind == ValueKind::token) return "opaque(leat.token)";
    std::string out(dtype_name(type.dtype));
    if (type.shape.rank() > 0) {
      std::string sizes;
      for (const Dim dim : type.shape.dims()) sizes += (sizes.empty() ? "" : ",") + dim_text(dim);
      out += "[" + sizes + "]";
    }
    if (type.kind == ValueKind::resource) return "optional(" + out + ")";
    if (type.kind == ValueKind::rows) return "sparse_tensor(" + out + ")";
    return out;
  }

  // An input or output, with its type unless nothing is known of it.
  std::string border(ValueId id) const {
    if (id == kNone) return name(id);
    const ValueType& type = graph_.value(id).type;
    const bool known = type.dtype != DType::invalid || type.kind == ValueKind::token;
    return known ? type_text(type) + " " + name(id) : name(id);
  }

  // Prints one line: [name] outputs = op <attributes> (inputs). A node with a region has its
  // attributes at the end, so that the inputs stand before the many lines of the region.
  void add_node(std::string& out, NodeId id) {
    const Node& node = graph_.node(id);
    out.append(static_cast<size_t>(indent_) + 2, ' ');
    if (!nodes_[id].empty()) out += "[" + id_text(nodes_[id]) + "] ";
    out += list_text(node.outputs, [&](ValueId v) { return name(v); });
    out += node.outputs.empty() ? "= " : " = ";
    out += node.op->full_name();
    bool regions = false;
    for (const auto& [_, attr] : node.attrs) {
      regions = regions || std::holds_alternative<std::shared_ptr<Graph>>(attr);
    }
    const std::string attrs = attrs_text(node);
    if (!regions) out += attrs;
    out += " (" + list_text(node.inputs, [&](ValueId v) { return name(v); }) + ")";
    if (regions) out += attrs;
    out += "\n";
  }

  std::string attrs_text(const Node& node) {
    // The parser counts in the same way: the node first, then the nodes of its regions. A source is
    // written only if it differs from the count. The text has no form for a node without a source.
    const uint32_t source = sources_++;
    std::map<std::string_view, std::string> texts;
    for (const auto& [name, attr] : node.attrs) texts[name] = attr_text(attr);
    if (!node.after.empty()) {
      texts["after"] = " = [" + list_text(node.after, [&](NodeId n) { return reference(n); }) + "]";
    }
    if (!node.device.empty()) texts["device"] = " = " + quote(node.device);
    if (node.source != source && node.source != kNone) texts["source"] = cat(" = ", node.source);
    if (node.first_row != 0) texts["first_row"] = cat(" = ", node.first_row);
    if (texts.empty()) return "";
    return " <" + list_text(texts, [](const auto& t) { return cat(t.first, t.second); }) + ">";
  }

  // How `after` names a node: by its first value, or as "[name]" if it makes none.
  std::string reference(NodeId id) const {
    const ValueId output = first_output(id);
    return quote(output == kNone ? "[" + nodes_[id] + "]" : values_[output]);
  }

  // Formats " = 1" or ": ints = []".
  std::string attr_text(const Attr& attr) {
    const auto list = [](const auto& items, std::string_view kind, auto&& text) {
      return items.empty() ? cat(": ", kind, " = []") : " = [" + list_text(items, text) + "]";
    };
    if (const auto* i = std::get_if<int64_t>(&attr)) return cat(" = ", *i);
    if (const auto* f = std::get_if<double>(&attr)) return " = " + float_text(*f);
    if (const auto* s = std::get_if<std::string>(&attr)) return " = " + quote(*s);
    if (const auto* t = std::get_if<Tensor>(&attr)) return " = " + tensor_text(*t);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&attr)) {
      return list(*v, "ints", [](int64_t i) { return std::to_string(i); });
    }
    if (const auto* v = std::get_if<std::vector<double>>(&attr)) {
      return list(*v, "floats", float_text);
    }
    if (const auto* v = std::get_if<std::vector<std::string>>(&attr)) {
      return list(*v, "strings", [](const std::string& s) { return quote(s); });
    }
    const Graph& region = *std::get<std::shared_ptr<Graph>>(attr);
    return " = " + Printer(region, indent_ + 4, sources_).run(false);
  }

  const Graph& graph_;
  const int indent_;
  uint32_t& sources_;  // the source that the next node has unless it is written
  std::vector<NodeId> order_;
  std::vector<std::string> values_, nodes_, symbols_;
};

}  // namespace

std::string print_graph(const Graph& graph) {
  uint32_t sources = 0;
  Printer printer(graph, 0, sources);
  std::string out = "<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]";
  if (const std::string bounds = printer.bounds(); !bounds.empty()) {
    out += ", metadata_props: [\"leat.bounds\" : " + quote(bounds) + "]";
  }
  return out + ">\n" + printer.run(true) + "\n";
}

}  // namespace leat

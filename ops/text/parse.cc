#include "ops/text/parse.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/text/cursor.h"

namespace leat {
namespace {

// A recursive-descent parser over one text, with one function per rule of the grammar.
class Parser {
 public:
  explicit Parser(Cursor& in) : in_(in) {}

  // Parses the whole file: an optional header in < >, then one graph, then nothing.
  Result<DraftGraph> model() {
    DraftGraph graph;
    std::map<std::string, int64_t, std::less<>> bounds;
    if (in_.accept("<")) LEAT_RETURN_IF_ERROR(header(bounds));
    LEAT_ASSIGN_OR_RETURN(graph, this->graph(0));
    graph.bounds = std::move(bounds);
    if (in_.peek().kind != TokenKind::end) {
      return in_.expected("the end of the file (functions are not supported)");
    }
    return graph;
  }

 private:
  using Bounds = std::map<std::string, int64_t, std::less<>>;

  // Parses: ir_version: 10, opset_import: ["" : 20], ... >
  Status header(Bounds& bounds) {
    do {
      const Token key = in_.take();
      LEAT_RETURN_IF_ERROR(in_.expect(":"));
      // Most keys are read and dropped: they say nothing that a graph of Leat keeps.
      const auto is = [&](std::string_view word) {
        return key.kind == TokenKind::identifier && key.text == word;
      };
      if (is("opset_import")) {
        LEAT_RETURN_IF_ERROR(opset_import());
      } else if (is("metadata_props")) {
        LEAT_RETURN_IF_ERROR(metadata(bounds));
      } else if (is("ir_version") || is("model_version")) {
        LEAT_RETURN_IF_ERROR(in_.integer("a version").status());
      } else if (is("producer_name") || is("producer_version") || is("domain") ||
                 is("doc_string")) {
        LEAT_RETURN_IF_ERROR(in_.string("a string").status());
      } else {
        const std::vector<std::string> known = {
            "ir_version", "opset_import",  "producer_name", "producer_version",
            "domain",     "model_version", "doc_string",    "metadata_props"};
        return in_.expected(cat("a key of the header", did_you_mean(key.text, known)), key);
      }
    } while (in_.accept(","));
    return in_.expect(">");
  }

  // Parses: ["" : 20, "leat" : 1]. Domains that are not known here are accepted: their ops are not,
  // if the graph uses any.
  Status opset_import() {
    LEAT_RETURN_IF_ERROR(in_.expect("["));
    if (in_.accept("]")) return {};
    do {
      LEAT_ASSIGN_OR_RETURN(const std::string domain, in_.string("an opset's domain"));
      LEAT_RETURN_IF_ERROR(in_.expect(":"));
      const Token token = in_.peek();
      LEAT_ASSIGN_OR_RETURN(const int64_t version, in_.integer("a version"));
      if ((domain.empty() || domain == "ai.onnx") && (version < 7 || version > 28)) {
        return in_.expected("an opset of ONNX from 7 to 28", token);
      }
      if (domain == "leat" && version != 1) return in_.expected("version 1 of leat", token);
    } while (in_.accept(","));
    return in_.expect("]");
  }

  // Parses: ["leat.bounds": "N<=128"]. Other keys are ignored, as the metadata of other tools.
  Status metadata(Bounds& bounds) {
    LEAT_RETURN_IF_ERROR(in_.expect("["));
    if (in_.accept("]")) return {};
    do {
      LEAT_ASSIGN_OR_RETURN(const std::string key, in_.string("a key"));
      LEAT_RETURN_IF_ERROR(in_.expect(":"));
      const Token token = in_.peek();
      LEAT_ASSIGN_OR_RETURN(const std::string value, in_.string("a string"));
      if (key == "leat.bounds") LEAT_RETURN_IF_ERROR(parse_bounds(value, token, bounds));
    } while (in_.accept(","));
    return in_.expect("]");
  }

  // Parses: N<=128, T<=64
  Status parse_bounds(std::string_view text, const Token& token, Bounds& bounds) const {
    while (!text.empty()) {
      // The text comes from inside a string, so every error points to the token of that string.
      const size_t comma = std::min(text.find(','), text.size());
      std::string_view one = text.substr(0, comma);
      text.remove_prefix(std::min(comma + 1, text.size()));
      while (one.starts_with(' ')) one.remove_prefix(1);
      const size_t sign = one.find("<=");
      if (sign == 0 || sign == std::string_view::npos || sign > limits::kNameLength) {
        return in_.expected("bounds such as \"N<=128, T<=64\"", token);
      }
      Cursor number(one.substr(sign + 2), "");
      const Result<int64_t> bound = number.integer("a bound");
      if (!bound.ok() || *bound < 0 || number.peek().kind != TokenKind::end) {
        return in_.expected("bounds such as \"N<=128, T<=64\"", token);
      }
      std::string_view name = one.substr(0, sign);
      while (name.ends_with(' ')) name.remove_suffix(1);
      bounds[std::string(name)] = *bound;
    }
    return {};
  }

  // Parses: name (inputs) => (outputs) <initializers and types> { nodes }
  Result<DraftGraph> graph(int nesting) {
    DraftGraph graph;
    LEAT_ASSIGN_OR_RETURN(const DraftName name, in_.name("the graph's name"));
    // The functions call each other for every nested graph, so the limit also bounds the stack.
    if (nesting > limits::kNesting) {
      return in_.error(name.offset, cat("expected at most ", limits::kNesting, " nested graphs"));
    }
    graph.name = name.name;
    // The borders. An output cannot have a value, so it gets no list of constants.
    if (in_.at("(")) LEAT_RETURN_IF_ERROR(values("(", ")", graph.inputs, &graph.constants, true));
    LEAT_RETURN_IF_ERROR(in_.expect("=>"));
    LEAT_RETURN_IF_ERROR(values("(", ")", graph.outputs, nullptr, true));
    if (in_.at("<")) {
      LEAT_RETURN_IF_ERROR(values("<", ">", graph.types, &graph.constants, false));
    }
    LEAT_RETURN_IF_ERROR(in_.expect("{"));
    // The nodes. The end of the file is no node, so the loop ends there with an error.
    while (!in_.accept("}")) {
      LEAT_ASSIGN_OR_RETURN(DraftNode node, this->node(nesting));
      graph.nodes.push_back(std::move(node));
      if (graph.nodes.size() > limits::kNodes) {
        return in_.error(graph.nodes.back().offset,
                         cat("expected at most ", limits::kNodes, " nodes"));
      }
    }
    return graph;
  }

  // Parses a list of `type name`, or `type name = {elements}` if constants are allowed. An input
  // with a value becomes a constant, because it cannot be fed.
  Status values(std::string_view open, std::string_view close, std::vector<DraftValue>& values,
                std::vector<DraftConstant>* constants, bool borders) {
    LEAT_RETURN_IF_ERROR(in_.expect(open));
    if (in_.accept(close)) return {};
    do {
      DraftValue value;
      if (at_type(in_)) {
        LEAT_ASSIGN_OR_RETURN(value.type, parse_type(in_));
      }
      LEAT_ASSIGN_OR_RETURN(value.name, in_.name(borders ? "a value's type or name"
                                                         : "an initializer or a value's type"));
      if (constants != nullptr && value.type && in_.accept("=")) {
        LEAT_ASSIGN_OR_RETURN(Tensor tensor, parse_elements(in_, *value.type));
        constants->push_back({std::move(value.name), std::move(tensor)});
      } else {
        values.push_back(std::move(value));
      }
    } while (in_.accept(","));
    return in_.expect(close);
  }

  // Parses: [name] y, z = domain.Op <attributes> (x, , w) <or attributes here>
  Result<DraftNode> node(int nesting) {
    DraftNode node;
    node.offset = in_.peek().offset;
    // The name of the node, which may be empty.
    if (in_.accept("[")) {
      if (!in_.at("]")) {
        LEAT_ASSIGN_OR_RETURN(DraftName name, in_.name("the node's name"));
        node.name = std::move(name.name);
      }
      LEAT_RETURN_IF_ERROR(in_.expect("]"));
    }
    LEAT_RETURN_IF_ERROR(operands(node.outputs));
    // ONNX allows the attributes before or after the inputs. The printer writes regions after them.
    LEAT_RETURN_IF_ERROR(node.outputs.empty() ? expect_node() : in_.expect("="));
    LEAT_RETURN_IF_ERROR(op(node));
    if (in_.at("<")) LEAT_RETURN_IF_ERROR(attributes(node, nesting));
    LEAT_RETURN_IF_ERROR(in_.expect("("));
    LEAT_RETURN_IF_ERROR(operands(node.inputs));
    LEAT_RETURN_IF_ERROR(in_.expect(")"));
    if (in_.at("<") && node.attrs.empty()) LEAT_RETURN_IF_ERROR(attributes(node, nesting));
    return node;
  }

  // A node without outputs begins with '='.
  Status expect_node() {
    if (in_.accept("=")) return {};
    return in_.expected("a node ('y = Op (x)') or '}'");
  }

  // Parses: domain.Op. The draft's offset moves to the op, which errors of the node refer to.
  Status op(DraftNode& node) {
    node.offset = in_.peek().offset;
    do {
      if (in_.peek().kind != TokenKind::identifier) return in_.expected("an op's name");
      // With each further part, the part before it turns out to belong to the domain.
      if (!node.domain.empty()) node.domain += '.';
      node.domain += node.op;
      node.op = std::string(in_.take().text);
      if (node.domain.size() + node.op.size() > limits::kNameLength) {
        return in_.error(node.offset, "expected an op's name of at most 1024 bytes");
      }
    } while (in_.accept("."));
    if (in_.at(":")) return in_.expected("'(' (overloads are not supported)");
    return {};
  }

  // Parses: x, , "a name". An empty place is an absent operand; a comma at the end adds nothing.
  Status operands(std::vector<DraftName>& names) {
    for (;;) {
      const TokenKind kind = in_.peek().kind;
      if (kind == TokenKind::identifier || kind == TokenKind::string) {
        LEAT_ASSIGN_OR_RETURN(DraftName name, in_.name("a value's name"));
        names.push_back(std::move(name));
      } else if (in_.at(",")) {
        names.push_back({"", in_.peek().offset});
      } else {
        return {};
      }
      if (names.size() > limits::kOperands) {
        return in_.error(names.back().offset,
                         cat("expected at most ", limits::kOperands, " operands"));
      }
      if (!in_.accept(",")) return {};
    }
  }

  // Parses: <axis = 1, kind: ints = []>. Each name may occur once.
  Status attributes(DraftNode& node, int nesting) {
    LEAT_RETURN_IF_ERROR(in_.expect("<"));
    do {
      const Token name = in_.peek();
      if (name.kind != TokenKind::identifier) return in_.expected("an attribute's name");
      in_.take();
      if (name.text.size() > limits::kNameLength) {
        return in_.error(name.offset, "expected an attribute's name of at most 1024 bytes");
      }
      LEAT_ASSIGN_OR_RETURN(DraftAttr value, attribute(nesting));
      if (!node.attrs.emplace(std::string(name.text), std::move(value)).second) {
        return in_.error(name.offset, cat("the attribute '", name.text, "' is given twice"));
      }
      if (node.attrs.size() > limits::kAttributes) {
        return in_.error(name.offset, cat("expected at most ", limits::kAttributes, " attributes"));
      }
    } while (in_.accept(","));
    return in_.expect(">");
  }

  // Parses: : kind = value
  Result<DraftAttr> attribute(int nesting) {
    std::string kind;
    if (in_.accept(":")) {
      const Token word = in_.peek();
      static const std::vector<std::string> kKinds = {"float", "int",    "string", "tensor",
                                                      "graph", "floats", "ints",   "strings"};
      kind = std::string(word.text);
      if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) {
        return in_.expected(
            "an attribute's kind (float, int, string, tensor, graph, floats, ints, "
            "strings)");
      }
      in_.take();
    }
    LEAT_RETURN_IF_ERROR(in_.expect("="));
    // The written kind must be that of the value. For a float it decides how an integer is read.
    const Token begin = in_.peek();
    if (in_.at("[")) return list(kind);
    LEAT_ASSIGN_OR_RETURN(DraftAttr value, single(kind == "float", nesting));
    const std::string_view got = value.index() == 1 ? "graph" : attr_kind(std::get<Attr>(value));
    if (!kind.empty() && kind != got) {
      return in_.error(begin.offset, cat("expected a value of kind ", kind, ", got ", got));
    }
    return value;
  }

  // Parses a value that is no list. The order of the tests matters: the words of numbers and types
  // are identifiers too, and every other identifier is the name of a graph.
  Result<DraftAttr> single(bool as_float, int nesting) {
    const Token token = in_.peek();
    if (token.kind == TokenKind::string) {
      LEAT_ASSIGN_OR_RETURN(std::string text, in_.string("a string"));
      return DraftAttr(Attr(std::move(text)));
    }
    if (at_number(in_)) return number(as_float);
    if (at_type(in_)) return tensor();
    if (token.kind == TokenKind::identifier) {
      LEAT_ASSIGN_OR_RETURN(DraftGraph region, graph(nesting + 1));
      return DraftAttr(std::make_shared<DraftGraph>(std::move(region)));
    }
    return in_.expected("a number, a string, a list, a tensor or a graph");
  }

  // Without a kind, the form of the number decides: 1 is an int, 1.0 a float.
  Result<DraftAttr> number(bool as_float) {
    if (in_.peek().kind == TokenKind::integer && !as_float) {
      LEAT_ASSIGN_OR_RETURN(const int64_t value, in_.integer("an integer"));
      return DraftAttr(Attr(value));
    }
    LEAT_ASSIGN_OR_RETURN(const double value, parse_real(in_));
    return DraftAttr(Attr(value));
  }

  // Parses: float[2,2] name = {1, 2, 3, 4}, with or without the name and '='
  Result<DraftAttr> tensor() {
    LEAT_ASSIGN_OR_RETURN(const DraftType type, parse_type(in_));
    if (in_.peek().kind == TokenKind::identifier || in_.peek().kind == TokenKind::string) {
      in_.take();
    }
    in_.accept("=");
    LEAT_ASSIGN_OR_RETURN(Tensor value, parse_elements(in_, type));
    return DraftAttr(Attr(std::move(value)));
  }

  // Parses: [1, 2], [0.5, 1], ["a", "b"]
  Result<DraftAttr> list(std::string_view kind) {
    const size_t begin = in_.take().offset;
    if (in_.accept("]")) return empty_list(kind, begin);
    // The first element decides the kind of the list, unless "floats" is written: then integers are
    // read as floats as well.
    std::vector<std::string> strings;
    std::vector<double> floats;
    std::vector<int64_t> ints;
    const bool of_strings = in_.peek().kind == TokenKind::string;
    const bool of_floats =
        !of_strings && (kind == "floats" || in_.peek().kind != TokenKind::integer);
    do {
      if (of_strings) {
        LEAT_ASSIGN_OR_RETURN(std::string text, in_.string("a string, as before"));
        strings.push_back(std::move(text));
      } else if (of_floats) {
        LEAT_ASSIGN_OR_RETURN(const double value, parse_real(in_));
        floats.push_back(value);
      } else {
        LEAT_ASSIGN_OR_RETURN(const int64_t value, in_.integer("an integer"));
        ints.push_back(value);
      }
      if (strings.size() + floats.size() + ints.size() > limits::kListLength) {
        return in_.error(begin, cat("expected a list of at most ", limits::kListLength));
      }
    } while (in_.accept(","));
    LEAT_RETURN_IF_ERROR(in_.expect("]"));
    Attr value = of_strings  ? Attr(std::move(strings))
                 : of_floats ? Attr(std::move(floats))
                             : Attr(std::move(ints));
    if (!kind.empty() && kind != attr_kind(value)) {
      return in_.error(begin, cat("expected a value of kind ", kind, ", got ", attr_kind(value)));
    }
    return DraftAttr(std::move(value));
  }

  // An empty list has no element that tells its kind, so the kind must be written.
  Result<DraftAttr> empty_list(std::string_view kind, size_t begin) const {
    if (kind == "ints") return DraftAttr(Attr(std::vector<int64_t>()));
    if (kind == "floats") return DraftAttr(Attr(std::vector<double>()));
    if (kind == "strings") return DraftAttr(Attr(std::vector<std::string>()));
    return in_.error(begin, "expected the kind of an empty list, as in 'axes: ints = []'");
  }

  Cursor& in_;
};

}  // namespace

Result<DraftGraph> parse_draft(std::string_view text, std::string_view file_name) {
  if (text.size() > limits::kTextBytes) {
    return invalid_argument(cat(file_name, ": expected at most ", human_bytes(limits::kTextBytes),
                                " of text, got ", human_bytes(text.size())));
  }
  Cursor in(text, file_name);
  return Parser(in).model();
}

Result<Graph> parse_graph(std::string_view text, const Catalogue& catalogue,
                          std::string_view file_name, const FixedInputs& fixed) {
  LEAT_ASSIGN_OR_RETURN(DraftGraph draft, parse_draft(text, file_name));
  LEAT_RETURN_IF_ERROR(fix_inputs(draft, fixed, file_name));
  // The offsets of the draft are bytes of the text, which become a line and a column for a message.
  return assemble(draft, catalogue, [&](size_t offset) {
    return cat(file_name, ":", line_and_column(text, offset));
  });
}

}  // namespace leat

// Reads the text form of a graph: ONNX's textual syntax (as onnx.parser reads it), over the ops of
// a catalogue. Leat uses that syntax as follows:
//
//   opset_import    "" (or "ai.onnx") from 7 to 28 and "leat" 1; the parser takes the graph as
//                   written for the version that this build implements
//   metadata_props  ["leat.bounds": "N<=128, T<=64"] bounds symbolic sizes
//   dimensions      N a symbol, "2*N" a multiple of one, ? an unknown size
//   types           optional(float[2]) is a resource that holds float[2],
//                   sparse_tensor(float[N,8]) is rows of a table, opaque(leat.token) is a token
//   initializers    become Constant nodes before the others
//   attributes      after, device, source, first_row and captures: see ops/text/draft.h
//
// The parser refuses functions after the graph, sequences, maps, strings as elements and external
// data.
#pragma once

#include <string_view>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/text/draft.h"
#include "ops/text/fix_inputs.h"

namespace leat {

// Parses `text` to a graph that is not validated. An invalid_argument message is "file:line:column:
// expected ..., got '...'"; the limits of ops/graph/limits.h apply. The catalogue must outlive the
// graph.
// `fixed`: values of inputs, as fix_inputs() takes them.
Result<Graph> parse_graph(std::string_view text, const Catalogue& catalogue,
                          std::string_view file_name, const FixedInputs& fixed = {});

// The first half of parse_graph(): the syntax alone, without a catalogue.
Result<DraftGraph> parse_draft(std::string_view text, std::string_view file_name);

}  // namespace leat

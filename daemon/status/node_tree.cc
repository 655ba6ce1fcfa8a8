#include "daemon/status/node_tree.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "daemon/status/page_parts.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"

namespace leat {
namespace {

constexpr int kDeepestScope = 12;     // the rest of a name stays one
constexpr size_t kMostRows = 40'000;  // of all devices
// A browser takes seconds for the tables of more nodes, and a moment for their text.
constexpr size_t kMostInTables = 3'000;
// Among lines of text, the nodes of a smaller scope are lines of the scope around it.
constexpr size_t kLeastFolded = 16;

struct NodeScope {
  std::map<std::string, NodeScope> scopes;
  std::vector<uint32_t> nodes;  // instructions
  size_t count = 0;             // nodes in it and below
  double ms = 0;                // of a step, in it and below
};

// The time of a step that all threads of the device spent on each node, in milliseconds.
std::vector<double> times_of(const RecordedPartition& part, uint64_t first, uint64_t end) {
  std::vector<double> ms(part.nodes.size(), 0);
  for (const RecordedEvent& event : part.events) {
    const bool works = event.kind != RecordedEvent::Kind::wait &&
                       event.kind != RecordedEvent::Kind::wake &&
                       event.kind != RecordedEvent::Kind::limit;
    if (!works || event.instruction >= ms.size() || event.turn < first || event.turn >= end)
      continue;
    ms[event.instruction] +=
        1e-6 * static_cast<double>(event.end - event.begin) / static_cast<double>(end - first);
  }
  return ms;
}

void insert(NodeScope& root, const std::string& name, uint32_t instruction, double ms) {
  NodeScope* scope = &root;
  size_t from = 0;
  for (int depth = 0; depth < kDeepestScope; ++depth) {
    ++scope->count;
    scope->ms += ms;
    const size_t slash = name.find('/', from);
    if (slash == std::string::npos) break;
    scope = &scope->scopes[name.substr(from, slash - from)];
    from = slash + 1;
    if (depth + 1 == kDeepestScope) {
      ++scope->count;
      scope->ms += ms;
    }
  }
  scope->nodes.push_back(instruction);
}

std::string folded(std::string_view name, const NodeScope& scope, const std::string& inside) {
  return cat("<details><summary>", html_escaped(name), " <span class=\"faint\">",
             counted(scope.count, "node"), ", ", milliseconds_text(scope.ms), "</span></summary>\n",
             inside, "</details>\n");
}

// Of nodes that run together, tile by tile, the first has the time of all.
std::string time_of(const RecordedNode& node, double ms) {
  return node.chain != kNotRecorded && ms == 0 ? "in its chain" : milliseconds_text(ms);
}

std::string table_of(const RecordedPartition& part, const std::vector<double>& ms,
                     const std::vector<uint32_t>& nodes) {
  std::string html =
      "<table><thead><tr><th>Node</th><th>Op</th><th>Type</th><th class=\"number\">Bytes</th><th "
      "class=\"number\">Thread time</th></tr></thead><tbody>\n";
  for (const uint32_t at : nodes) {
    const RecordedNode& node = part.nodes[at];
    html += cat("<tr><td class=\"name\">", html_escaped(node.name), "</td><td>",
                html_escaped(node.op), "</td><td>", html_escaped(node.type),
                "</td><td class=\"number\">", node.bytes > 0 ? human_bytes(node.bytes) : "",
                "</td><td class=\"number\">", time_of(node, ms[at]), "</td></tr>\n");
  }
  return html + "</tbody></table>\n";
}

// The same as lines of text in columns.
std::string lines_of(const RecordedPartition& part, const std::vector<double>& ms,
                     const std::vector<uint32_t>& nodes) {
  std::vector<std::array<std::string, 5>> lines;
  std::array<size_t, 5> widths{};
  for (const uint32_t at : nodes) {
    const RecordedNode& node = part.nodes[at];
    lines.push_back({node.name, node.op, node.type, node.bytes > 0 ? human_bytes(node.bytes) : "-",
                     time_of(node, ms[at])});
    for (size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], lines.back()[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i + 1 < line.size(); ++i)
      text += line[i] + std::string(widths[i] - line[i].size() + 2, ' ');
    text += line.back() + "\n";
  }
  return cat("<pre>", html_escaped(text), "</pre>\n");
}

// The form of the rows, and how many the page may still have.
struct Tree {
  bool in_tables = true;
  size_t room = kMostRows;
};

std::string rows(const RecordedPartition& part, const std::vector<double>& ms,
                 const std::vector<uint32_t>& nodes, Tree& tree) {
  if (nodes.empty()) return "";
  if (nodes.size() > tree.room)
    return cat("<p>", counted(nodes.size(), "node"), " not listed.</p>\n");
  tree.room -= nodes.size();
  return tree.in_tables ? table_of(part, ms, nodes) : lines_of(part, ms, nodes);
}

void add_nodes(const NodeScope& scope, std::vector<uint32_t>& nodes) {
  nodes.insert(nodes.end(), scope.nodes.begin(), scope.nodes.end());
  for (const auto& [name, each] : scope.scopes) add_nodes(each, nodes);
}

// Scopes come first, the most expensive one at the top.
std::string inside_of(const RecordedPartition& part, const std::vector<double>& ms,
                      const NodeScope& scope, Tree& tree) {
  std::vector<std::pair<std::string_view, const NodeScope*>> scopes;
  for (const auto& [name, each] : scope.scopes) scopes.emplace_back(name, &each);
  std::stable_sort(scopes.begin(), scopes.end(),
                   [](const auto& a, const auto& b) { return a.second->ms > b.second->ms; });
  std::string html;
  std::vector<uint32_t> nodes;
  for (const auto& [name, each] : scopes) {
    if (tree.in_tables || each->count >= kLeastFolded) {
      html += folded(name, *each, inside_of(part, ms, *each, tree));
    } else {
      add_nodes(*each, nodes);
    }
  }
  nodes.insert(nodes.end(), scope.nodes.begin(), scope.nodes.end());
  return html + rows(part, ms, nodes, tree);
}

}  // namespace

std::string node_tree(const StepRecording& recording) {
  const uint64_t first = recording.first();
  const uint64_t end = recording.whole_end() > first ? recording.whole_end() : recording.end();
  if (first >= end) return "";
  size_t nodes = 0;
  for (const RecordedPartition& part : recording.partitions) nodes += part.nodes.size();
  Tree tree;
  tree.in_tables = nodes <= kMostInTables;
  std::string html;
  if (!tree.in_tables)
    html = "<p>Node, op, type, bytes and thread time of each node, in this order:</p>\n";
  for (const RecordedPartition& part : recording.partitions) {
    const std::vector<double> ms = times_of(part, first, end);
    NodeScope root;
    for (uint32_t i = 0; i < part.nodes.size(); ++i) insert(root, part.nodes[i].name, i, ms[i]);
    html +=
        folded(cat(part.node, " ", short_name(part.device)), root, inside_of(part, ms, root, tree));
  }
  return html;
}

}  // namespace leat

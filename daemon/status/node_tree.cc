#include "daemon/status/node_tree.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "daemon/status/page_parts.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kMostRows = 40'000;  // of all devices
// A browser takes seconds for the tables of more nodes, and a moment for their text.
constexpr size_t kMostInTables = 3'000;
// Among lines of text, the nodes of a smaller scope are lines of the scope around it.
constexpr size_t kLeastFolded = 16;

std::string folded(std::string_view name, const NodeScope& scope, const std::string& inside) {
  return cat("<details><summary>", html_escaped(name), " <span class=\"faint\">",
             counted(scope.count, "node"), ", ", milliseconds_text(scope.ms), "</span></summary>\n",
             inside, "</details>\n");
}

std::string table_of(const ScopedNodes& device, const std::vector<uint32_t>& nodes) {
  std::string html =
      "<table><thead><tr><th>Node</th><th>Op</th><th>Type</th><th class=\"number\">Bytes</th><th "
      "class=\"number\">Thread time</th></tr></thead><tbody>\n";
  for (const uint32_t at : nodes) {
    const RecordedNode& node = device.part->nodes[at];
    html += cat("<tr><td class=\"name\">", html_escaped(node.name), "</td><td>",
                html_escaped(node.op), "</td><td>", html_escaped(node.type),
                "</td><td class=\"number\">", node.bytes > 0 ? human_bytes(node.bytes) : "",
                "</td><td class=\"number\">", device.time_of(at), "</td></tr>\n");
  }
  return html + "</tbody></table>\n";
}

// The same as lines of text in columns.
std::string lines_of(const ScopedNodes& device, const std::vector<uint32_t>& nodes) {
  std::vector<std::array<std::string, 5>> lines;
  std::array<size_t, 5> widths{};
  for (const uint32_t at : nodes) {
    const RecordedNode& node = device.part->nodes[at];
    lines.push_back({node.name, node.op, node.type, node.bytes > 0 ? human_bytes(node.bytes) : "-",
                     device.time_of(at)});
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

std::string rows(const ScopedNodes& device, const std::vector<uint32_t>& nodes, Tree& tree) {
  if (nodes.empty()) return "";
  if (nodes.size() > tree.room)
    return cat("<p>", counted(nodes.size(), "node"), " not listed.</p>\n");
  tree.room -= nodes.size();
  return tree.in_tables ? table_of(device, nodes) : lines_of(device, nodes);
}

void add_nodes(const NodeScope& scope, std::vector<uint32_t>& nodes) {
  nodes.insert(nodes.end(), scope.nodes.begin(), scope.nodes.end());
  for (const auto& [name, each] : scope.scopes) add_nodes(each, nodes);
}

// Scopes come first, the most expensive one at the top.
std::string inside_of(const ScopedNodes& device, const NodeScope& scope, Tree& tree) {
  std::vector<std::pair<std::string_view, const NodeScope*>> scopes;
  for (const auto& [name, each] : scope.scopes) scopes.emplace_back(name, &each);
  std::stable_sort(scopes.begin(), scopes.end(),
                   [](const auto& a, const auto& b) { return a.second->ms > b.second->ms; });
  std::string html;
  std::vector<uint32_t> nodes;
  for (const auto& [name, each] : scopes) {
    if (tree.in_tables || each->count >= kLeastFolded) {
      html += folded(name, *each, inside_of(device, *each, tree));
    } else {
      add_nodes(*each, nodes);
    }
  }
  nodes.insert(nodes.end(), scope.nodes.begin(), scope.nodes.end());
  return html + rows(device, nodes, tree);
}

}  // namespace

std::string node_tree(std::span<const ScopedNodes> devices) {
  size_t nodes = 0;
  for (const ScopedNodes& device : devices) nodes += device.part->nodes.size();
  Tree tree;
  tree.in_tables = nodes <= kMostInTables;
  std::string html;
  if (!tree.in_tables)
    html = "<p>Node, op, type, bytes and thread time of each node, in this order:</p>\n";
  for (const ScopedNodes& device : devices)
    html += folded(device.title(), device.root, inside_of(device, device.root, tree));
  return html;
}

}  // namespace leat

#include "daemon/status/graph_picture.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/status/graph_layout.h"
#include "daemon/status/page_parts.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr size_t kMostBoxes = 120;  // of a picture
constexpr size_t kLeastInGroup = 12;
constexpr size_t kMostDrawn = 2'000;    // of all pictures
constexpr size_t kMostNeighbours = 12;  // on a card
constexpr size_t kNoPicture = SIZE_MAX;
// Pixels.
constexpr size_t kBoxWidth = 152, kBoxHeight = 36, kGapX = 22, kGapY = 34, kMargin = 16;

// A node, a scope, or a group of several parts of a scope.
struct GraphPart {
  std::string name;
  uint32_t node = kNotRecorded;  // the instruction; none of a scope or a group
  std::vector<GraphPart> parts;  // by their first nodes
  uint32_t first = 0;            // the first instruction in it
  size_t count = 1;              // nodes
  double ms = 0;
};

// The text that the second line of a node's box begins with, below its label.
std::string below_label(const RecordedNode& node) {
  return node.name.starts_with('%') ? node.name : node.op;
}

GraphPart part_with(std::string name, std::vector<GraphPart> parts) {
  GraphPart whole;
  whole.name = std::move(name);
  whole.first = parts.front().first;
  whole.count = 0;
  for (const GraphPart& each : parts) {
    whole.count += each.count;
    whole.ms += each.ms;
  }
  whole.parts = std::move(parts);
  return whole;
}

// At most kMostBoxes parts: neighbours become groups, and groups that are too large have groups.
std::vector<GraphPart> grouped(std::vector<GraphPart> parts) {
  if (parts.size() <= kMostBoxes) return parts;
  const size_t each = std::max(kLeastInGroup, (parts.size() + kMostBoxes - 1) / kMostBoxes);
  std::vector<GraphPart> groups;
  for (size_t from = 0; from < parts.size(); from += each) {
    const size_t end = std::min(parts.size(), from + each);
    std::vector<GraphPart> inside(
        std::make_move_iterator(parts.begin() + static_cast<ptrdiff_t>(from)),
        std::make_move_iterator(parts.begin() + static_cast<ptrdiff_t>(end)));
    if (inside.size() == 1) {
      groups.push_back(std::move(inside[0]));
      continue;
    }
    std::string name = cat(inside.front().name, " \xe2\x80\xa6 ", inside.back().name);
    groups.push_back(part_with(std::move(name), grouped(std::move(inside))));
  }
  return groups;
}

// The last part of its name: "conv" of "l1/conv". Of a node that the graph does not name, as "%17",
// the op says more.
std::string label_of(const RecordedNode& node) {
  return node.name.starts_with('%') ? node.op : node.name.substr(node.name.rfind('/') + 1);
}

// Without the retires, which only give memory back.
std::vector<GraphPart> parts_of(const ScopedNodes& device, const NodeScope& scope) {
  std::vector<GraphPart> parts;
  for (const auto& [name, each] : scope.scopes) {
    std::vector<GraphPart> inside = parts_of(device, each);
    if (inside.empty()) continue;
    // A scope with nothing but another scope is one with it.
    const bool same = inside.size() == 1 && inside[0].node == kNotRecorded;
    if (same) inside[0].name = cat(name, "/", inside[0].name);
    parts.push_back(same ? std::move(inside[0]) : part_with(name, std::move(inside)));
  }
  for (const uint32_t at : scope.nodes) {
    const RecordedNode& node = device.part->nodes[at];
    if (node.kind == RecordedNode::Kind::retire) continue;
    GraphPart& part = parts.emplace_back();
    part.name = label_of(node);
    part.node = part.first = at;
    part.ms = device.ms[at];
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const GraphPart& a, const GraphPart& b) { return a.first < b.first; });
  return grouped(std::move(parts));
}

// A box of a picture.
struct GraphBox {
  const GraphPart* part = nullptr;
  size_t inside = kNoPicture;   // its picture
  size_t taken = 0, given = 0;  // values from outside the picture, and to there
};

struct Picture {
  std::string name;
  size_t around = kNoPicture;  // the picture that it is a box of
  size_t device = 0;
  bool of_devices = false;  // its boxes are the devices
  std::vector<GraphBox> boxes;
  GraphEdges edges;
};

class GraphPictures {
 public:
  explicit GraphPictures(std::span<const ScopedNodes> devices) : devices_(devices) {
    for (const ScopedNodes& device : devices) {
      roots_.push_back(part_with_nodes(device));
      drawn_.emplace_back(device.part->nodes.size(), false);
      users_.push_back(users_of(*device.part));
    }
    if (devices.size() > 1) add_devices();
    for (size_t d = 0; d < std::min(devices.size(), kMostBoxes); ++d) {
      if (boxes_ + roots_[d].parts.size() > kMostDrawn) continue;
      if (devices.size() > 1) pictures_[0].boxes[d].inside = pictures_.size();
      add_picture(roots_[d], d, devices.size() > 1 ? 0 : kNoPicture);
    }
    // Pictures that are added here come behind, so the deepest are last.
    for (size_t i = 0; i < pictures_.size(); ++i) open_boxes(i);
  }

  std::string html() const {
    std::string html =
        "<div id=\"graphs\"><p class=\"zoom\">Zoom: "
        "<label><input type=\"radio\" name=\"zoom\" class=\"half\">50 %</label> "
        "<label><input type=\"radio\" name=\"zoom\" checked>100 %</label> "
        "<label><input type=\"radio\" name=\"zoom\" class=\"twice\">200 %</label></p>\n";
    for (size_t i = 0; i < pictures_.size(); ++i) html += picture(i);
    return html + "</div>\n";
  }

 private:
  static GraphPart part_with_nodes(const ScopedNodes& device) {
    std::vector<GraphPart> parts = parts_of(device, device.root);
    if (!parts.empty()) return part_with(device.title(), std::move(parts));
    GraphPart empty;
    empty.name = device.title();
    empty.count = 0;
    return empty;
  }

  static std::vector<std::vector<uint32_t>> users_of(const RecordedPartition& part) {
    std::vector<std::vector<uint32_t>> users(part.nodes.size());
    for (uint32_t i = 0; i < part.nodes.size(); ++i) {
      if (part.nodes[i].kind == RecordedNode::Kind::retire) continue;
      for (const uint32_t input : part.nodes[i].inputs) users[input].push_back(i);
    }
    return users;
  }

  // The picture of all devices, with a line for those of which one sends to the other.
  void add_devices() {
    Picture& all = pictures_.emplace_back();
    all.name = "All devices";
    all.of_devices = true;
    const size_t shown = std::min(devices_.size(), kMostBoxes);
    if (shown < devices_.size())
      all.name = cat("The first ", shown, " of ", devices_.size(), " devices");
    for (size_t d = 0; d < shown; ++d) {
      all.boxes.push_back({&roots_[d]});
      for (const RecordedNode& node : devices_[d].part->nodes) {
        if (node.kind != RecordedNode::Kind::send) continue;
        const size_t peer = device_of(node.peer);
        if (peer < shown && peer != d) all.edges.emplace(d, peer);
      }
    }
    boxes_ += shown;
  }

  // The device with this partition of the plan.
  size_t device_of(uint32_t partition) const {
    for (size_t d = 0; d < devices_.size(); ++d)
      if (devices_[d].part->partition == partition) return d;
    return kNoPicture;
  }

  void add_picture(const GraphPart& whole, size_t device, size_t around) {
    Picture& picture = pictures_.emplace_back();
    picture.name = whole.name;
    picture.around = around;
    picture.device = device;
    const std::vector<RecordedNode>& nodes = devices_[device].part->nodes;
    // The box that each node is in.
    std::vector<size_t> box_of(nodes.size(), kNoPicture);
    for (size_t b = 0; b < whole.parts.size(); ++b) {
      picture.boxes.push_back({&whole.parts[b]});
      put(whole.parts[b], b, box_of);
    }
    boxes_ += picture.boxes.size();
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (box_of[i] == kNoPicture) continue;
      GraphBox& box = picture.boxes[box_of[i]];
      drawn_[device][i] = drawn_[device][i] || box.part->node == i;
      for (const uint32_t input : nodes[i].inputs) {
        box.taken += box_of[input] == kNoPicture;
        if (box_of[input] != kNoPicture && box_of[input] != box_of[i])
          picture.edges.emplace(box_of[input], box_of[i]);
      }
      for (const uint32_t user : users_[device][i]) box.given += box_of[user] == kNoPicture;
    }
  }

  static void put(const GraphPart& part, size_t box, std::vector<size_t>& box_of) {
    if (part.node != kNotRecorded) box_of[part.node] = box;
    for (const GraphPart& each : part.parts) put(each, box, box_of);
  }

  // Adds the pictures of its scopes and groups, as far as there is room.
  void open_boxes(size_t i) {
    if (pictures_[i].of_devices) return;
    for (size_t b = 0; b < pictures_[i].boxes.size(); ++b) {
      const GraphPart& part = *pictures_[i].boxes[b].part;
      if (part.node != kNotRecorded || boxes_ + part.parts.size() > kMostDrawn) continue;
      pictures_[i].boxes[b].inside = pictures_.size();
      add_picture(part, pictures_[i].device, i);
    }
  }

  std::string picture(size_t i) const {
    const Picture& it = pictures_[i];
    const auto rows = rows_of_graph(it.boxes.size(), it.edges);
    size_t columns = 1;
    for (const auto& row : rows) columns = std::max(columns, row.size());
    std::vector<std::pair<size_t, size_t>> at(it.boxes.size());  // of the left upper corner
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t indent = (columns - rows[r].size()) * (kBoxWidth + kGapX) / 2;
      for (size_t c = 0; c < rows[r].size(); ++c) {
        at[rows[r][c]] = {kMargin + indent + c * (kBoxWidth + kGapX),
                          kMargin + r * (kBoxHeight + kGapY)};
      }
    }
    const size_t width = 2 * kMargin + columns * (kBoxWidth + kGapX) - kGapX;
    const size_t height = 2 * kMargin + rows.size() * (kBoxHeight + kGapY);
    std::string svg;
    for (const auto& [from, to] : it.edges) svg += line(at[from], at[to]);
    std::string cards;
    for (size_t b = 0; b < it.boxes.size(); ++b) {
      svg += box(it, it.boxes[b], at[b]);
      if (it.boxes[b].part->node != kNotRecorded) cards += card(i, it.boxes[b].part->node);
    }
    return cat("<section id=\"g", i, "\" class=\"graph\"><p>", path_to(i),
               "</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Graph of ",
               html_escaped(it.name), "\"><svg width=\"", width, "\" height=\"", height,
               "\" viewBox=\"0 0 ", width, " ", height, "\">", svg, "</svg></div>\n", cards,
               "</section>\n");
  }

  // The names of the pictures around it, which lead to them, and its own.
  std::string path_to(size_t i) const {
    const Picture& it = pictures_[i];
    const std::string own = html_escaped(it.name);
    if (it.around == kNoPicture) return own;
    return cat(linked(it.around), " \xe2\x80\xba ", own);
  }
  std::string linked(size_t i) const {
    const Picture& it = pictures_[i];
    return cat(it.around == kNoPicture ? "" : cat(linked(it.around), " \xe2\x80\xba "),
               "<a href=\"#g", i, "\">", html_escaped(it.name), "</a>");
  }

  static std::string line(std::pair<size_t, size_t> from, std::pair<size_t, size_t> to) {
    const size_t x1 = from.first + kBoxWidth / 2, y1 = from.second + kBoxHeight;
    const size_t x2 = to.first + kBoxWidth / 2, y2 = to.second;
    const bool back = y2 < y1;
    return cat("<path class=\"", back ? "back" : "edge", "\" d=\"M", x1, " ", y1, "C", x1, " ",
               y1 + kGapY, " ", x2, " ", y2 < kGapY ? 0 : y2 - kGapY, " ", x2, " ", y2, "\"/>");
  }

  std::string box(const Picture& picture, const GraphBox& box, std::pair<size_t, size_t> at) const {
    const GraphPart& part = *box.part;
    const bool is_node = part.node != kNotRecorded;
    const ScopedNodes& device = devices_[picture.device];
    const std::string second =
        is_node ? cat(below_label(device.part->nodes[part.node]), ", ", device.time_of(part.node))
                : cat(counted(part.count, "node"), ", ", milliseconds_text(part.ms));
    const auto [x, y] = at;
    std::string stubs;
    if (box.taken > 0)
      stubs += cat("<path class=\"back\" d=\"M", x + 12, " ", y - 12, "V", y, "\"/>");
    if (box.given > 0)
      stubs += cat("<path class=\"back\" d=\"M", x + 12, " ", y + kBoxHeight, "v12\"/>");
    const std::string drawing =
        cat(stubs, "<rect class=\"", is_node ? "node" : "scope", "\" x=\"", x, "\" y=\"", y,
            "\" width=\"", kBoxWidth, "\" height=\"", kBoxHeight, "\" rx=\"", is_node ? 12 : 3,
            "\"/><rect class=\"share\" x=\"", x, "\" y=\"", y + kBoxHeight - 3, "\" width=\"",
            share_of(part, picture), "\" height=\"3\"/><text x=\"", x + kBoxWidth / 2, "\" y=\"",
            y + 15, "\" class=\"middle name\">", html_escaped(shortened(part.name, 25)),
            "</text><text x=\"", x + kBoxWidth / 2, "\" y=\"", y + 28, "\" class=\"middle\">",
            html_escaped(shortened(second, 28)), "</text><title>", title(picture, box), "</title>");
    if (!is_node && box.inside == kNoPicture) return cat("<g>", drawing, "</g>");
    return cat("<a href=\"#",
               is_node ? cat("n", picture.device, "-", part.node) : cat("g", box.inside), "\">",
               drawing, "</a>");
  }

  // The width of the bar that shows its share of the device's time.
  size_t share_of(const GraphPart& part, const Picture& picture) const {
    const double all = picture.of_devices ? largest_root() : roots_[picture.device].ms;
    if (all <= 0) return 0;
    return static_cast<size_t>(std::min(1.0, part.ms / all) * static_cast<double>(kBoxWidth));
  }
  double largest_root() const {
    double ms = 0;
    for (const GraphPart& root : roots_) ms = std::max(ms, root.ms);
    return ms;
  }

  std::string title(const Picture& picture, const GraphBox& box) const {
    const GraphPart& part = *box.part;
    std::string text = html_escaped(part.name);
    if (part.node != kNotRecorded)
      text += cat("\n", html_escaped(devices_[picture.device].part->nodes[part.node].type));
    if (box.taken > 0) text += cat("\n", counted(box.taken, "value"), " from outside this picture");
    if (box.given > 0) text += cat("\n", counted(box.given, "value"), " to outside this picture");
    return text;
  }

  // Of a node of picture i.
  std::string card(size_t i, uint32_t at) const {
    const size_t d = pictures_[i].device;
    const ScopedNodes& device = devices_[d];
    const RecordedNode& node = device.part->nodes[at];
    std::string rows;
    const auto row = [&rows](std::string_view name, const std::string& html) {
      if (!html.empty()) rows += cat("<tr><th>", name, "</th><td>", html, "</td></tr>");
    };
    row("Op", html_escaped(node.op));
    row("Type", html_escaped(node.type));
    row("Device", html_escaped(device.title()));
    row("Thread time", device.time_of(at));
    if (node.bytes > 0) row("Bytes", human_bytes(node.bytes));
    const size_t peer = device_of(node.peer);
    if (peer != kNoPicture)
      row(node.kind == RecordedNode::Kind::send ? "To" : "From",
          html_escaped(devices_[peer].title()));
    row("Takes", neighbours(d, node.inputs));
    row("Gives to", neighbours(d, users_[d][at]));
    return cat("<div id=\"n", d, "-", at, "\" class=\"card\"><p><b>", html_escaped(node.name),
               "</b> \xc2\xb7 <a href=\"#g", i, "\">Close</a></p><table class=\"facts\"><tbody>",
               rows, "</tbody></table></div>\n");
  }

  std::string neighbours(size_t device, const std::vector<uint32_t>& nodes) const {
    std::vector<std::string> links;
    for (size_t k = 0; k < std::min(nodes.size(), kMostNeighbours); ++k) {
      const std::string name = html_escaped(devices_[device].part->nodes[nodes[k]].name);
      links.push_back(drawn_[device][nodes[k]]
                          ? cat("<a href=\"#n", device, "-", nodes[k], "\">", name, "</a>")
                          : name);
    }
    const size_t more = nodes.size() - links.size();
    return cat(join(links, ", "), more > 0 ? cat(" and ", counted(more, "other")) : "");
  }

  const std::span<const ScopedNodes> devices_;
  std::vector<GraphPart> roots_;                           // by device
  std::vector<std::vector<bool>> drawn_;                   // by device and node: it has a card
  std::vector<std::vector<std::vector<uint32_t>>> users_;  // by device and node
  std::vector<Picture> pictures_;
  size_t boxes_ = 0;  // of all pictures
};

}  // namespace

std::string graph_picture(std::span<const ScopedNodes> devices) {
  return devices.empty() ? "" : GraphPictures(devices).html();
}

}  // namespace leat

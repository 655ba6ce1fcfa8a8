// The pictures of a partitioned graph.
#include "daemon/status/graph_picture.h"

#include "daemon/status/graph_layout.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/daemon/traces/made_up_recording.h"

namespace leat {
namespace {

using Rows = std::vector<std::vector<size_t>>;

// Adds a node to the first device, and returns its number.
uint32_t add(MadeUp& made, const std::string& name, std::vector<uint32_t> inputs = {}) {
  auto& nodes = made.recording.partitions[0].nodes;
  RecordedNode node;
  node.name = name;
  node.op = "MatMul";
  node.type = "float[2,3]";
  node.inputs = std::move(inputs);
  nodes.push_back(node);
  return static_cast<uint32_t>(nodes.size() - 1);
}

std::string drawn(const MadeUp& made) { return graph_picture(scoped_nodes(made.recording)); }

// The picture with this number.
std::string section(const std::string& html, size_t number) {
  const std::string begin = "<section id=\"g" + std::to_string(number) + "\"";
  const size_t at = html.find(begin);
  REQUIRE(at != std::string::npos);
  return html.substr(at, html.find("</section>", at) - at);
}

TEST_CASE("boxes are below those whose values they take, and close to those that take theirs") {
  CHECK(rows_of_graph(0, {}) == Rows{});
  CHECK(rows_of_graph(3, {{0, 1}, {1, 2}}) == Rows{{0}, {1}, {2}});
  // 2 has no inputs, and stands above its user.
  CHECK(rows_of_graph(4, {{0, 1}, {1, 3}, {2, 3}}) == Rows{{0}, {1, 2}, {3}});
  // An edge back to an earlier box moves nothing.
  CHECK(rows_of_graph(2, {{0, 1}, {1, 0}}) == Rows{{0}, {1}});
  // Those of one parent stand together.
  CHECK(rows_of_graph(6, {{0, 3}, {1, 2}, {0, 5}, {1, 4}}) == Rows{{0, 1}, {3, 5, 2, 4}});
}

TEST_CASE("a row of very many boxes is divided") {
  GraphEdges edges;
  for (size_t i = 1; i <= 2 * kBoxesInRow; ++i) edges.emplace(0, i);
  const Rows rows = rows_of_graph(2 * kBoxesInRow + 1, edges);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].size() == kBoxesInRow);
  CHECK(rows[2].size() == kBoxesInRow);
}

TEST_CASE("each scope has a picture of its parts, and each node a card") {
  MadeUp made;
  made.add_device("w0");
  const uint32_t x = add(made, "x");
  const uint32_t first = add(made, "block/l1/mm", {x});
  const uint32_t second = add(made, "block/l2/mm", {first});
  add(made, "loss", {second, x});
  made.event(0, MadeUp::Kind::kernel, 0, first, 0, 4);
  made.event(0, MadeUp::Kind::kernel, 0, second, 4, 5);
  made.recording.partitions[0].end = 1;
  const std::string html = drawn(made);
  CHECK(count(html, "<section ") == 4);

  const std::string root = section(html, 0);
  CHECK(count(root, "<rect class=\"scope\"") == 1);
  CHECK(count(root, "<rect class=\"node\"") == 2);
  CHECK(count(root, "class=\"edge\"") == 3);  // x to block and loss, block to loss
  CHECK_THAT(root, Catch::Contains("<a href=\"#g1\">") && Catch::Contains("2 nodes, 5.000 ms"));
  CHECK_THAT(root, Catch::Contains("<p>w0 cpu:0</p>"));

  const std::string block = section(html, 1);
  CHECK_THAT(block, Catch::Contains("<a href=\"#g0\">w0 cpu:0</a> \xe2\x80\xba block"));
  CHECK_THAT(block, Catch::Contains("1 value from outside this picture") &&
                        Catch::Contains("1 value to outside this picture"));

  const std::string l1 = section(html, 2);
  CHECK_THAT(l1, Catch::Contains("<a href=\"#n0-1\">") &&
                     Catch::Contains("<div id=\"n0-1\" class=\"card\"><p><b>block/l1/mm</b>"));
  CHECK_THAT(l1, Catch::Contains("<th>Op</th><td>MatMul</td>") &&
                     Catch::Contains("<th>Type</th><td>float[2,3]</td>") &&
                     Catch::Contains("<th>Device</th><td>w0 cpu:0</td>") &&
                     Catch::Contains("<th>Thread time</th><td>4.000 ms</td>") &&
                     Catch::Contains("<th>Takes</th><td><a href=\"#n0-0\">x</a></td>") &&
                     Catch::Contains("<th>Gives to</th><td><a href=\"#n0-2\">block/l2/mm</a>"));
}

TEST_CASE("a node that the graph does not name has its op as its label") {
  MadeUp made;
  made.add_device("w0");
  add(made, "%17");
  CHECK_THAT(drawn(made), Catch::Contains("class=\"middle name\">MatMul</text>") &&
                              Catch::Contains("class=\"middle\">%17, 0.000 ms</text>"));
}

TEST_CASE("several devices have a picture of their transfers") {
  MadeUp made;
  made.add_device("w0");
  made.add_device("w1");
  made.send(0, 0, 1, 6, 7);
  made.receive(1, 0, 0, 8, 8.5);
  const std::string html = drawn(made);
  const std::string all = section(html, 0);
  CHECK(count(all, "<rect class=\"scope\"") == 2);
  CHECK(count(all, "class=\"edge\"") == 1);
  CHECK_THAT(section(html, 1), Catch::Contains("<a href=\"#g0\">All devices</a>") &&
                                   Catch::Contains("<th>To</th><td>w1 cpu:0</td>"));
  CHECK_THAT(section(html, 2), Catch::Contains("<th>From</th><td>w0 cpu:0</td>"));
}

TEST_CASE("many parts of a scope become groups, and the pictures have a bounded size") {
  MadeUp made;
  made.add_device("w0");
  uint32_t last = add(made, "n0");
  for (int i = 1; i < 300; ++i) last = add(made, "n" + std::to_string(i), {last});
  std::string html = drawn(made);
  CHECK(count(section(html, 0), "<rect class=\"scope\"") == 25);  // of 12 nodes
  CHECK_THAT(section(html, 0),
             Catch::Contains("n0 \xe2\x80\xa6 n11") && Catch::Contains("n288 \xe2\x80\xa6 n299"));
  CHECK(count(html, "<rect class=\"node\"") == 300);
  CHECK(count(html, "class=\"edge\"") == 299);

  for (int i = 300; i < 30'000; ++i) last = add(made, "n" + std::to_string(i), {last});
  html = drawn(made);
  const size_t boxes = count(html, "<rect class=\"node\"") + count(html, "<rect class=\"scope\"");
  CHECK(boxes <= 2'000);
  CHECK(boxes > 1'000);
  CHECK(html.size() < 4'000'000);
}

TEST_CASE("pictures of very many devices have a bounded size") {
  MadeUp made;
  for (int d = 0; d < 400; ++d) {
    made.add_device("w" + std::to_string(d));
    for (int i = 0; i < 50; ++i) {
      RecordedNode node;
      node.name = "n" + std::to_string(i);
      made.recording.partitions.back().nodes.push_back(node);
    }
  }
  const std::string html = drawn(made);
  CHECK_THAT(section(html, 0), Catch::Contains("The first 120 of 400 devices"));
  const size_t boxes = count(html, "<rect class=\"node\"") + count(html, "<rect class=\"scope\"");
  CHECK(boxes <= 2'000);
  CHECK(boxes > 1'500);
}

TEST_CASE("names of any text are text in a picture, and no device has none") {
  MadeUp made;
  made.add_device("<w0>");
  add(made, "<script>/\"<&");
  const std::string html = drawn(made);
  CHECK(count(html, "<script") == 0);
  CHECK(count(html, "<w0>") == 0);
  CHECK(drawn(MadeUp()).empty());
  MadeUp empty;
  empty.add_device("w0");
  CHECK(count(drawn(empty), "<section ") == 1);
}

}  // namespace
}  // namespace leat

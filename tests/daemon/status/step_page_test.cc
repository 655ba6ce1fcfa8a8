// The page of recorded steps: its time line, its critical path and its graph.
#include "daemon/status/step_page.h"

#include "daemon/status/node_tree.h"
#include "daemon/status/step_timeline.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/daemon/traces/made_up_recording.h"

namespace leat {
namespace {

// Two devices, of which the second waits for the first in each of four steps of 10 ms.
MadeUp two_devices() {
  MadeUp made;
  made.add_device("w0");
  made.add_device("w1");
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 10.0 * static_cast<double>(turn);
    made.kernel(0, turn, "block/l1/mm", "MatMul", at, at + 2);
    made.kernel(0, turn, "block/l2/mm", "MatMul", at + 2, at + 6);
    made.send(0, turn, 1, at + 6, at + 7);
    made.wait(1, turn, 0, at, at + 7);
    made.wake(1, turn, 0, at + 7, at + 8);
    made.receive(1, turn, 0, at + 8, at + 8.5);
    made.kernel(1, turn, "add", "Add", at + 8.5, at + 10);
  }
  return made;
}

TEST_CASE("a time line has a lane for each thread, a bar for each event, and the transfers") {
  MadeUp made = two_devices();
  made.recording.partitions[0].events[0].thread = 1;
  const std::string html = step_timeline(made.recording);
  CHECK(count(html, "<li>") == 3);
  CHECK(count(html, "<rect class=\"compute\"") == 4 * 3);
  CHECK(count(html, "<rect class=\"transfer\"") == 4 * 2);
  CHECK(count(html, "<rect class=\"wait\"") == 4);
  CHECK(count(html, "<rect class=\"wake-up\"") == 4);
  CHECK(count(html, "class=\"arrow\"") == 4);
  // Of 40 ms: from the send at 6 in the first lane to the receive at 8 in the third.
  CHECK_THAT(html, Catch::Contains("x1=\"15000\" y1=\"9\" x2=\"20000\" y2=\"45\""));
  CHECK_THAT(html, Catch::Contains("block/l2/mm, 4.000 ms, step 3\nMatMul float[2,3]"));
  CHECK_THAT(html, Catch::Contains("From left to right 40.000 ms"));
}

TEST_CASE("events too short to be seen are drawn as one") {
  MadeUp made = two_devices();
  constexpr int kShort = 50'000;
  for (int i = 0; i < kShort; ++i) {
    const double at = 6.5 + 0.4 * i / kShort;
    made.kernel(0, 0, "tiny", "Add", at, at + 0.3 / kShort);
  }
  const std::string html = step_timeline(made.recording);
  CHECK(count(html, "<rect") < 50);
  CHECK_THAT(html, Catch::Contains("50000 events, 0.400 ms"));
}

TEST_CASE("many events give a picture of bounded size") {
  MadeUp made = two_devices();
  // Neighbours are of two kinds, so that they do not become one at once.
  for (int i = 0; i < 30'000; ++i) {
    const double at = 40 + i;
    made.kernel(1, 3, "k", "Add", at, at + 0.5);
    made.wait(1, 3, 0, at + 0.5, at + 1);
  }
  const std::string html = step_timeline(made.recording);
  CHECK(count(html, "<rect") <= 20'000);
  CHECK(count(html, "<rect") > 500);
}

TEST_CASE("a graph of very many nodes has those that there is room for") {
  MadeUp made;
  made.add_device("w0");
  auto& part = made.recording.partitions[0];
  for (int i = 0; i < 30'000; ++i) {
    RecordedNode node;
    node.name = (i < 20'000 ? "a/n" : "b/n") + std::to_string(i);
    part.nodes.push_back(node);
  }
  for (int i = 0; i < 30'000; ++i) {
    RecordedNode node;
    node.name = "c/n" + std::to_string(i);
    part.nodes.push_back(node);
  }
  const std::string html = node_tree(scoped_nodes(made.recording));
  CHECK(count(html, "  -  0.000 ms\n") == 30'000);
  CHECK(count(html, "<tr>") == 0);
  CHECK_THAT(html, Catch::Contains("<p>30000 nodes not listed.</p>"));
  CHECK_THAT(html, Catch::Contains("60000 nodes, 0.000 ms"));
}

TEST_CASE("the graph is folded by the scopes of names, with what each took") {
  const MadeUp made = two_devices();
  const std::string html = node_tree(scoped_nodes(made.recording));
  CHECK_THAT(html, Catch::Contains("w0 cpu:0 <span class=\"faint\">3 nodes, "
                                   "7.000 ms</span>"));
  CHECK_THAT(html,
             Catch::Contains("<summary>block <span class=\"faint\">2 nodes, 6.000 ms</span>"));
  // The more expensive scope is the first.
  CHECK(html.find("<summary>l2 ") < html.find("<summary>l1 "));
  CHECK_THAT(html,
             Catch::Contains("<td class=\"name\">block/l1/mm</td><td>MatMul</td><td>float[2,3]"
                             "</td><td class=\"number\"></td><td class=\"number\">2.000 ms"));
  CHECK_THAT(html, Catch::Contains(">24 B</td>"));
  CHECK(count(html, "<details>") == count(html, "</details>"));
}

TEST_CASE("names of any depth and any text give a page") {
  MadeUp made = two_devices();
  std::string deep = "<script>";
  for (int i = 0; i < 5'000; ++i) deep += "/a";
  made.kernel(0, 0, deep, "\"><script>", 8, 9);
  made.recording.partitions[1].node = "<script>";
  const ExampleSource source;
  const std::string body = step_page(*source.job("fashion-mnist-cnn"), made.recording).body;
  CHECK(count(body, "<script") == 1);  // the page's own
  CHECK_THAT(body, Catch::Contains(std::string(kTimelineScript)));
  CHECK(count(body, "<details>") < 30);
  CHECK_THAT(body, Catch::Contains("href=\"/jobs/fashion-mnist-cnn-7f3a/steps\"") &&
                       Catch::Contains("The critical path of a step"));
  CHECK_THAT(body, !Catch::Contains("http-equiv=\"refresh\""));
}

TEST_CASE("a recording without whole steps has no time line") {
  MadeUp made;
  CHECK(step_timeline(made.recording).empty());
  CHECK(node_tree(scoped_nodes(made.recording)).empty());
}

}  // namespace
}  // namespace leat

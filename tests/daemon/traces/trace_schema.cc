#include "tests/daemon/traces/trace_schema.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "tests/catch.h"

namespace leat {
namespace {

using Json = nlohmann::json;

struct Slice {
  double begin, end;
};

bool lies_in(const std::vector<Slice>& slices, double at) {
  constexpr double kRounding = 0.002;
  for (const Slice& slice : slices) {
    if (at >= slice.begin - kRounding && at <= slice.end + kRounding) return true;
  }
  return false;
}

}  // namespace

TraceFacts check_trace(const std::string& text) {
  const Json trace = Json::parse(text);
  REQUIRE(trace.at("traceEvents").is_array());
  CHECK(trace.at("displayTimeUnit") == "ms");
  TraceFacts facts;
  std::map<std::pair<int, int>, std::vector<Slice>> rows;
  std::set<int> processes;
  for (const Json& event : trace["traceEvents"]) {
    if (event.at("ph") != "X") continue;
    ++facts.slices;
    const double begin = event.at("ts"), duration = event.at("dur");
    REQUIRE(begin >= 0);
    REQUIRE(duration >= 0);
    REQUIRE(event.at("name").is_string());
    REQUIRE(event.at("args").at("step").is_number_unsigned());
    rows[{event.at("pid"), event.at("tid")}].push_back({begin, begin + duration});
    processes.insert(event.at("pid").get<int>());
  }
  double last = 0;
  std::map<int, double> open;
  for (const Json& event : trace["traceEvents"]) {
    const std::string phase = event.at("ph");
    const bool known = phase == "X" || phase == "M" || phase == "s" || phase == "f";
    REQUIRE(known);
    const double at = event.at("ts");
    REQUIRE(at >= last);
    last = at;
    if (phase != "s" && phase != "f") continue;
    REQUIRE(lies_in(rows[{event.at("pid"), event.at("tid")}], at));
    const int id = event.at("id");
    if (phase == "s") {
      REQUIRE(open.emplace(id, at).second);
      continue;
    }
    REQUIRE(open.contains(id));
    REQUIRE(open[id] <= at);
    open.erase(id);
    ++facts.arrows;
  }
  CHECK(open.empty());
  facts.processes = processes.size();
  return facts;
}

}  // namespace leat

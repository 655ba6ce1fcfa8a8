#include "daemon/status/step_timeline.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "daemon/status/page_parts.h"
#include "daemon/traces/event_names.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"

namespace leat {
namespace {

constexpr int64_t kTimelineWidth =
    100'000;                         // units of the picture, from the first event to the last
constexpr int64_t kLaneHeight = 18;  // pixels, as in the style of the pages
// The largest picture is 16 screens wide: less than a pixel of 1,000 on a screen is not seen.
constexpr int64_t kLeastWidth = kTimelineWidth / 16'000;
constexpr int64_t kAnyWidth = 16 * kLeastWidth;  // from here on neighbours of any kind become one
constexpr size_t kMostBars = 20'000;
constexpr size_t kMostArrows = 2'000;
constexpr size_t kMostLanes = 512;

// One thread of a device.
struct Lane {
  const RecordedPartition* part = nullptr;
  uint16_t thread = 0;
  std::vector<const RecordedEvent*> events;  // by begin
};

// Events that are drawn as one.
struct TimelineBar {
  int64_t begin = 0, end = 0;  // nanoseconds
  std::string_view category;   // of the longest of them
  int64_t longest = 0;
  const RecordedEvent* only = nullptr;  // null if there are several
  size_t events = 1;
};

std::string time_between(int64_t begin, int64_t end) {  // nanoseconds
  return milliseconds_text(1e-6 * static_cast<double>(end - begin));
}

class StepTimeline {
 public:
  explicit StepTimeline(const StepRecording& recording)
      : first_(recording.first()), end_(recording.end()) {
    for (const RecordedPartition& part : recording.partitions) add_lanes(part);
    if (lanes_.size() > kMostLanes) {
      left_out_ = lanes_.size() - kMostLanes;
      lanes_.resize(kMostLanes);
    }
    for (Lane& lane : lanes_) {
      std::stable_sort(
          lane.events.begin(), lane.events.end(),
          [](const RecordedEvent* a, const RecordedEvent* b) { return a->begin < b->begin; });
    }
  }

  bool empty() const { return lanes_.empty() || to_ <= from_; }

  std::string html() const {
    std::string labels;
    for (const Lane& lane : lanes_) {
      labels += cat("<li>",
                    html_escaped(cat(lane.part->node, " ", short_name(lane.part->device),
                                     ", thread ", lane.thread)),
                    "</li>");
    }
    const int64_t height = kLaneHeight * static_cast<int64_t>(lanes_.size());
    return cat(
        "<p>From left to right ", time_between(from_, to_),
        ". <span class=\"busy\">Compute</span>, <span class=\"good\">transfer</span>, <span "
        "class=\"warn\">wake-up</span>, <span class=\"rest\">wait</span>. Width: <a "
        "href=\"#x1\">1</a>, <a href=\"#x4\">4</a>, <a href=\"#x16\">16</a></p>\n<div "
        "id=\"x1\"><div id=\"x4\"><div id=\"x16\" class=\"lanes\"><ol>",
        labels,
        "</ol><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Time "
        "line\"><svg height=\"",
        height, "\" viewBox=\"0 0 ", kTimelineWidth, " ", height,
        "\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Work of each thread\">", bars(),
        arrows(), "</svg></div></div></div></div>\n<p id=\"bar\" role=\"status\"></p>\n",
        left_out_ > 0 ? cat("<p>", counted(left_out_, "more lane"), " not drawn.</p>\n") : "");
  }

 private:
  bool is_shown(const RecordedEvent& event) const {
    return event.turn >= first_ && event.turn < end_;
  }

  void add_lanes(const RecordedPartition& part) {
    std::map<uint16_t, Lane> by_thread;
    for (const RecordedEvent& event : part.events) {
      if (!is_shown(event)) continue;
      Lane& lane = by_thread[event.thread];
      lane.part = &part;
      lane.thread = event.thread;
      lane.events.push_back(&event);
      from_ = std::min(from_, event.begin);
      to_ = std::max(to_, event.end);
    }
    for (auto& [thread, lane] : by_thread) lanes_.push_back(std::move(lane));
  }

  int64_t x_of(int64_t at) const {
    return static_cast<int64_t>(static_cast<double>(at - from_) / static_cast<double>(to_ - from_) *
                                static_cast<double>(kTimelineWidth));
  }

  // `least`: the width in units below which neighbours become one; of one category, unless `any`.
  std::vector<TimelineBar> bars_of(const Lane& lane, int64_t least, bool any) const {
    std::vector<TimelineBar> bars;
    for (const RecordedEvent* event : lane.events) {
      const std::string_view category = category_of(event->kind);
      if (!bars.empty()) {
        TimelineBar& last = bars.back();
        const int64_t wide = x_of(last.end) - x_of(last.begin);
        const bool is_near = x_of(event->begin) - x_of(last.end) < least;
        const bool is_short = wide < least || x_of(event->end) - x_of(event->begin) < least;
        if (is_near && (last.category == category ? is_short : any && wide < least)) {
          if (event->end - event->begin > last.longest) {
            last.longest = event->end - event->begin;
            last.category = category;
          }
          last.end = std::max(last.end, event->end);
          last.only = nullptr;
          ++last.events;
          continue;
        }
      }
      bars.push_back({event->begin, event->end, category, event->end - event->begin, event, 1});
    }
    return bars;
  }

  std::string title(const Lane& lane, const TimelineBar& bar) const {
    const std::string time = time_between(bar.begin, bar.end);
    if (bar.only == nullptr) return cat(counted(bar.events, "event"), ", ", time);
    const RecordedEvent& event = *bar.only;
    std::string text =
        cat(title_of(*lane.part, event), ", ", time, ", step ", lane.part->first_step + event.turn);
    if (event.instruction >= lane.part->nodes.size()) return text;
    const RecordedNode& node = lane.part->nodes[event.instruction];
    return cat(text, "\n", node.op, " ", node.type);
  }

  // A lane has at most two bars for each `least`, once any neighbours become one: the lanes have
  // fewer than kMostBars together at some width.
  std::string bars() const {
    std::vector<std::vector<TimelineBar>> all(lanes_.size());
    size_t count = kMostBars + 1;
    for (int64_t least = kLeastWidth; count > kMostBars && least < 2 * kTimelineWidth; least *= 2) {
      count = 0;
      for (size_t i = 0; i < lanes_.size(); ++i) {
        all[i] = bars_of(lanes_[i], least, least >= kAnyWidth);
        count += all[i].size();
      }
    }
    std::string html;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      for (const TimelineBar& bar : all[i]) {
        const int64_t x = x_of(bar.begin);
        html += cat("<rect class=\"", bar.category, "\" x=\"", x, "\" y=\"",
                    kLaneHeight * static_cast<int64_t>(i) + 2, "\" width=\"",
                    std::max(kLeastWidth, x_of(bar.end) - x), "\" height=\"", kLaneHeight - 4,
                    "\"><title>", html_escaped(title(lanes_[i], bar)), "</title></rect>");
      }
    }
    return html;
  }

  // From the begin of each send to the begin of its receive.
  std::string arrows() const {
    struct End {
      int64_t at = 0;
      size_t lane = 0;
    };
    std::map<RecordedTransfer, End> sends;
    std::string html;
    size_t count = 0;
    for (const auto kind : {RecordedEvent::Kind::send, RecordedEvent::Kind::receive}) {
      for (size_t i = 0; i < lanes_.size(); ++i) {
        const Lane& lane = lanes_[i];
        for (const RecordedEvent* event : lane.events) {
          if (event->kind != kind || event->instruction >= lane.part->nodes.size()) continue;
          const RecordedTransfer transfer{lane.part->nodes[event->instruction].edge, event->turn};
          if (kind == RecordedEvent::Kind::send) {
            sends.emplace(transfer, End{event->begin, i});
            continue;
          }
          const auto from = sends.find(transfer);
          if (from == sends.end() || ++count > kMostArrows) continue;
          html += cat("<line class=\"arrow\" x1=\"", x_of(from->second.at), "\" y1=\"",
                      middle_of(from->second.lane), "\" x2=\"", x_of(event->begin), "\" y2=\"",
                      middle_of(i), "\"/>");
        }
      }
    }
    return html;
  }

  static int64_t middle_of(size_t lane) {
    return kLaneHeight * static_cast<int64_t>(lane) + kLaneHeight / 2;
  }

  const uint64_t first_, end_;  // turns
  std::vector<Lane> lanes_;
  size_t left_out_ = 0;  // lanes
  int64_t from_ = std::numeric_limits<int64_t>::max();
  int64_t to_ = std::numeric_limits<int64_t>::min();
};

}  // namespace

const std::string_view kTimelineScript = R"js(
"use strict";
const region = document.querySelector(".lanes .scroll");
const text = document.getElementById("bar");
const bars = region ? [...region.querySelectorAll("rect")] : [];
const number = (bar, name) => Number(bar.getAttribute(name));
const middle = (bar) => number(bar, "x") + number(bar, "width") / 2;
let chosen = null;
function choose(bar) {
  if (chosen) chosen.classList.remove("chosen");
  chosen = bar;
  bar.classList.add("chosen");
  text.textContent = bar.querySelector("title").textContent;
  bar.scrollIntoView({block: "nearest", inline: "nearest"});
}
// The nearest bar in the direction of an arrow: of the same lane, or of the next lane with bars.
function next(key) {
  if (!chosen) return bars[0];
  const across = key === "ArrowLeft" || key === "ArrowRight";
  const ahead = (bar) => across
      ? bar !== chosen && number(bar, "y") === number(chosen, "y") &&
        (middle(bar) > middle(chosen)) === (key === "ArrowRight")
      : key === "ArrowDown" ? number(bar, "y") > number(chosen, "y")
                            : number(bar, "y") < number(chosen, "y");
  const lanes = 1e9;  // a lane counts more than any distance in it
  const distance = (bar) => lanes * Math.abs(number(bar, "y") - number(chosen, "y")) +
      Math.abs(middle(bar) - middle(chosen));
  let best = chosen;
  for (const bar of bars.filter(ahead))
    if (best === chosen || distance(bar) < distance(best)) best = bar;
  return best;
}
if (bars.length > 0) {
  text.textContent = "Choose a bar: click it, or use the arrow keys.";
  region.addEventListener("click", (event) => {
    if (event.target.tagName === "rect") choose(event.target);
  });
  region.addEventListener("keydown", (event) => {
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    choose(next(event.key));
  });
}
)js";

std::string step_timeline(const StepRecording& recording) {
  const StepTimeline timeline(recording);
  return timeline.empty() ? "" : timeline.html();
}

}  // namespace leat

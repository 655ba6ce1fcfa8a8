#include "daemon/status/usage_picture.h"

#include <algorithm>
#include <cstdio>

#include "daemon/status/page_parts.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr double kPictureWidth = 120, kPictureHeight = 28;
constexpr int64_t kShownMs = 30 * 60 * 1000;

// "98.5,12.0": a point of a line. `share`: from 0 to 1.
std::string point_text(int64_t at_ms, int64_t now_ms, double share) {
  const double age = static_cast<double>(std::clamp<int64_t>(now_ms - at_ms, 0, kShownMs));
  char text[48];
  std::snprintf(text, sizeof text, "%.1f,%.1f", kPictureWidth * (1 - age / kShownMs),
                1 + (kPictureHeight - 2) * (1 - std::clamp(share, 0.0, 1.0)));
  return text;
}

}  // namespace

std::string usage_picture(const WorkerView& worker, int64_t now_ms) {
  if (worker.state == WorkerState::lost || !worker.recent || worker.recent->size() < 2) return "";
  const WorkerShare cpu = worker.info.cpu();
  const double threads = cpu.cores, memory = static_cast<double>(cpu.memory);
  std::string cores, resident;
  for (const UsagePoint& point : *worker.recent) {
    if (now_ms - point.at_ms > kShownMs) continue;
    const char* gap = cores.empty() ? "" : " ";
    cores += gap + point_text(point.at_ms, now_ms, point.cores / std::max(threads, 1.0));
    resident += gap + point_text(point.at_ms, now_ms,
                                 static_cast<double>(point.resident_bytes) / std::max(memory, 1.0));
  }
  if (cores.empty()) return "";
  const UsagePoint& last = worker.recent->back();
  const std::string text =
      html_escaped(cat("The last 30 min: ", decimal(last.cores), " of ", decimal(threads),
                       " threads compute, ", human_bytes(last.resident_bytes), " of memory"));
  return cat("<svg class=\"use\" viewBox=\"0 0 ", kPictureWidth, " ", kPictureHeight,
             "\" role=\"img\" aria-label=\"", text, "\"><title>", text,
             "</title><polyline class=\"validation\" points=\"", resident,
             "\"/><polyline class=\"training\" points=\"", cores, "\"/></svg>");
}

}  // namespace leat

#include "scheduler/graph/pieces.h"

#include <algorithm>

namespace leat {
namespace {

// A piece is cut at a multiple of the unit, so that it consists of whole memory pages and can be
// mapped as part of a joined value.
constexpr int64_t kPieceBytes = 4 << 20, kUnitBytes = 256 << 10;
// A smaller value would have one piece only. More than kMostPieces would cost more than they gain.
constexpr int64_t kLeastBytes = 2 * kPieceBytes;
constexpr int64_t kMostPieces = 64;

}  // namespace

std::vector<ElementPiece> cut_in_pieces(const Shape& shape, DType dtype) {
  const auto element = static_cast<int64_t>(dtype_size(dtype));
  const int64_t elements = shape.elements();
  if (element == 0 || elements < kLeastBytes / element) return {};
  // The value has so many units, the last of which may be shorter. A piece gets 16 or more.
  const int64_t units = (elements - 1) / (kUnitBytes / element) + 1;
  const int64_t wanted = std::min(kMostPieces, units / (kPieceBytes / kUnitBytes));
  std::vector<ElementPiece> pieces;
  // The pieces differ by one unit at most. Only the last can end at the end of the value.
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t first = units * i / wanted * (kUnitBytes / element);
    const int64_t end = std::min(elements, units * (i + 1) / wanted * (kUnitBytes / element));
    pieces.push_back({first, end - first});
  }
  return pieces;
}

}  // namespace leat

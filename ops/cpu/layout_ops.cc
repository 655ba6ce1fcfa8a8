// CPU kernels of ops/definitions/layout_ops.cc.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/transpose16.h"
#include "ops/cpu/vectorize.h"

namespace leat {
namespace {

constexpr int64_t kBlockChannels = 16;
// Transposes [16, area] to [area, 16], or back with `to_plain`.
template <typename T>
LEAT_INLINE void transpose_block(const T* from, T* to, int64_t area, bool to_plain) {
  constexpr int64_t kStrip = 16;  // positions at a time: 16 cache lines of the plain side
  for (int64_t begin = 0; begin < area; begin += kStrip) {
    const int64_t end = std::min(begin + kStrip, area);
    for (int64_t c = 0; c < kBlockChannels; ++c) {
      if (to_plain) {
        for (int64_t i = begin; i < end; ++i) to[c * area + i] = from[i * kBlockChannels + c];
      } else {
        for (int64_t i = begin; i < end; ++i) to[i * kBlockChannels + c] = from[c * area + i];
      }
    }
  }
}

// The loop for machines without AVX-512.
LEAT_VECTOR_CLONES void transpose4_plainly(const uint32_t* from, uint32_t* to, int64_t area,
                                           bool to_plain) {
  transpose_block(from, to, area, to_plain);
}

void transpose4(const uint32_t* from, uint32_t* to, int64_t area, bool to_plain) {
  const bool done =
      to_plain ? transpose_nx16_avx512(from, to, area) : transpose_16xn_avx512(from, to, area);
  if (!done) transpose4_plainly(from, to, area, to_plain);
}

void transpose2(const uint16_t* from, uint16_t* to, int64_t area, bool to_plain) {
  const bool done =
      to_plain ? transpose_nx16_avx512(from, to, area) : transpose_16xn_avx512(from, to, area);
  if (!done) transpose_block(from, to, area, to_plain);
}

LEAT_VECTOR_CLONES void transpose1(const uint8_t* from, uint8_t* to, int64_t area, bool to_plain) {
  transpose_block(from, to, area, to_plain);
}

// Transposes one block of 16 channels of one image. Of the dtype only the size of an element
// matters.
void transpose(const std::byte* from, std::byte* to, int64_t area, size_t size, bool to_plain) {
  switch (size) {
    case 1:
      return transpose1(reinterpret_cast<const uint8_t*>(from), reinterpret_cast<uint8_t*>(to),
                        area, to_plain);
    case 2:
      return transpose2(reinterpret_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(to),
                        area, to_plain);
    case 4:
      return transpose4(reinterpret_cast<const uint32_t*>(from), reinterpret_cast<uint32_t*>(to),
                        area, to_plain);
    default:
      return transpose_block(reinterpret_cast<const uint64_t*>(from),
                             reinterpret_cast<uint64_t*>(to), area, to_plain);
  }
}

// The elements of one image, which is a row of the tiles.
int64_t row_elements(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
}

Result<std::unique_ptr<Kernel>> reorder_kernel(const KernelSetup& setup) {
  const OperandType &from = setup.input(0), &to = setup.output(0);
  const Shape shape = from.shape;
  // The layouts are those that the plan chose. If they are equal, the node is a copy of bytes.
  const bool copy = from.layout == to.layout;
  if (!copy && (shape.rank() != 4 || shape[1] % kBlockChannels != 0)) {
    return unimplemented(
        cat(setup.subject,
            ": expected [N,C,H,W] with C a multiple of 16 for a blocked layout, received ", shape));
  }
  const int64_t rows = shape.rank() == 0 ? 1 : shape[0], row = row_elements(shape);
  const int64_t tile_rows = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows, row);
  // An image is `blocks` matrices [16, area] or [area, 16], one after the other in both layouts.
  const int64_t area = copy ? row : shape[2] * shape[3],
                blocks = copy ? 1 : shape[1] / kBlockChannels;
  const bool to_plain = to.layout == Layout::plain;
  const size_t size = dtype_size(from.dtype);
  return make_tiled_kernel(tile_count(rows, tile_rows), [=](KernelContext& context, int tile) {
    const int64_t begin = tile * tile_rows, end = std::min(rows, begin + tile_rows);
    const std::byte* in = context.in<std::byte>(0);
    std::byte* out = context.out<std::byte>(0);
    if (copy) {
      const size_t offset = static_cast<size_t>(begin * row) * size;
      if (in != out)
        std::memcpy(out + offset, in + offset, static_cast<size_t>((end - begin) * row) * size);
      return Progress::done;
    }
    for (int64_t block = begin * blocks; block < end * blocks; ++block) {
      const size_t offset = static_cast<size_t>(block * kBlockChannels * area) * size;
      transpose(in + offset, out + offset, area, size, to_plain);
    }
    return Progress::done;
  });
}

}  // namespace

void add_layout_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Reorder", "cpu", reorder_kernel);
}

}  // namespace leat

// A convolution of a fixed number of images on one thread: what one tile of Conv,
// leat.ConvGradInput and leat.ConvGradWeights runs. Winograd's algorithm if the spec says so,
// oneDNN where it has a fast implementation, plain loops elsewhere.
#pragma once

#include <memory>
#include <string>

#include "devices/base/status.h"
#include "ops/definitions/conv_spec.h"
#include "ops/graph/types.h"

namespace leat {

// Threads: any; run() and pack() of one engine on many threads at once.
// Failure: false when the library fails, which no input can cause.
class ConvEngine {
 public:
  virtual ~ConvEngine() = default;

  // The engine's own format of the weights: bytes, and how many pieces (along output channels or
  // groups) can be packed apart. packs() == false: it takes [outputs, inputs/groups, kernel...].
  virtual bool packs() const = 0;
  virtual size_t packed_bytes() const = 0;
  virtual int slices() const = 0;
  // The elements of slice `slice` in the packed weights: the slices follow each other.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  virtual Range slice(int slice) const = 0;
  // Into the packed format (forward, backward_data) and out of it (backward_weights); pointers to
  // whole weights.
  virtual bool pack(const void* weights, void* packed, int slice) const = 0;
  virtual bool unpack(const void* packed, void* weights, int slice) const = 0;

  virtual size_t scratch_bytes() const = 0;
  // `w` is packed if packs(). Which operands are written follows from the kind; bias may be null
  // where the spec has none.
  virtual bool run(void* x, void* w, void* bias, void* y, std::byte* scratch) const = 0;

  // Why it is far slower than the processor, for people; "" if it is not.
  virtual std::string note() const { return ""; }
};

// The best engine there is: plain loops, with a note, if there is no other. With `like`, an engine
// of the same spec but for the number of images, the packed format is that of `like`, or neither is
// to be used with the other: their packs() differ then.
std::unique_ptr<ConvEngine> make_conv_engine(const ConvSpec& spec,
                                             const ConvEngine* like = nullptr);

// Plain loops, for every spec. Results do not depend on the number of images. `reason`: why nothing
// better runs, for note().
std::unique_ptr<ConvEngine> make_direct_conv(const ConvSpec& spec, std::string reason = "");

}  // namespace leat

// A convolution of a fixed number of images on one thread: the computation of one tile of Conv,
// ConvTranspose, leat.ConvGradInput and leat.ConvGradWeights. make_conv_engine() uses Winograd's
// algorithm if the spec asks for it, else the loops for few channels or oneDNN where they fit, else
// plain loops.
//
//   auto engine = make_conv_engine(spec);  // forward, spec.images images
//   if (engine->packs()) {
//     for (int i = 0; i < engine->slices(); ++i) engine->pack(w, packed, i);
//   }
//   engine->run(x, engine->packs() ? packed : w, bias, y, scratch);  // scratch_bytes() of memory
#pragma once

#include <memory>
#include <string>

#include "devices/base/status.h"
#include "ops/definitions/conv_spec.h"
#include "ops/graph/types.h"

namespace leat {

// An engine is made once, when a plan is registered, and does not change; the kernel owns it.
// Operands, packed weights and scratch memory come from the caller, and none of them may overlap.
//
// Threads: any; many threads may call run() and pack() of one engine at once, each with its own
// scratch memory and outputs. Failure: they return false if the library fails, which no input can
// cause. A conversion that an engine does not have returns false, too: Winograd's has only pack()
// or only unpack(), by the kind.
class ConvEngine {
 public:
  virtual ~ConvEngine() = default;

  // The engine's own format of the weights: its size in bytes, and the number of slices (along
  // output channels or groups) that can be packed independently. packs() == false: the engine takes
  // [outputs, inputs/groups, kernel...].
  virtual bool packs() const = 0;
  virtual size_t packed_bytes() const = 0;
  virtual int slices() const = 0;
  // The elements of slice `slice` in the packed weights. Slices are contiguous.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  virtual Range slice(int slice) const = 0;
  // Converts into the packed format (forward, backward_data) and out of it (backward_weights). The
  // pointers are to whole weights.
  virtual bool pack(const void* weights, void* packed, int slice) const = 0;
  virtual bool unpack(const void* packed, void* weights, int slice) const = 0;

  // The scratch memory in bytes for each thread that calls run(), aligned to 64.
  virtual size_t scratch_bytes() const = 0;
  // `w` is packed if packs(). The kind determines the operands that run() writes (y; x; or w and
  // bias), whose old contents do not matter; bias may be null if the spec has none. The operands
  // have the spec's dtype and layouts, and spec.images images.
  virtual bool run(void* x, void* w, void* bias, void* y, std::byte* scratch) const = 0;

  // The reason why the engine runs far below the processor's speed, for people; else "".
  virtual std::string note() const { return ""; }
};

// Makes the best engine for the spec; it never returns null: plain loops, with a note, if there is
// no other. `like`, if given, is an engine of the same spec but for the number of images: the new
// engine then has its packed format, or their packs() differ, and the two must not be used
// together. `like` is read only during the call. REQUIRES: winograd_fits(spec) if spec.winograd.
std::unique_ptr<ConvEngine> make_conv_engine(const ConvSpec& spec,
                                             const ConvEngine* like = nullptr);

// Plain loops, for every spec. Results do not depend on the number of images. `reason`: why no
// faster engine runs, for note().
std::unique_ptr<ConvEngine> make_direct_conv(const ConvSpec& spec, std::string reason = "");

}  // namespace leat

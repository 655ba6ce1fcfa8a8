// CPU kernel of ops/definitions/digest.cc.
#include "ops/definitions/digest.h"

#include <bit>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"

namespace leat {
namespace {

class DigestKernel final : public Kernel {
 public:
  explicit DigestKernel(const KernelSetup& setup)
      : bytes_(setup.input(0).bytes()),
        failpoint_(cat("digest/", attr_string(setup.attrs(), "of"))) {}

  Progress run(KernelContext& context, int, int) override {
    if (!LEAT_FAILPOINT(failpoint_).ok() && bytes_ > 0) flip(context);
    *context.out<int64_t>(0) =
        std::bit_cast<int64_t>(digest_of({context.in<std::byte>(0), bytes_}));
    return Progress::done;
  }

 private:
  // Changes the value in its place, as a fault of the memory does: other readers see it, too.
  void flip(const KernelContext& context) const {
    auto* const value = static_cast<std::byte*>(context.inputs[0]);
    value[bytes_ / 2] ^= std::byte{0x10};
  }

  const size_t bytes_;
  const std::string failpoint_;
};

Result<std::unique_ptr<Kernel>> make_digest(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<DigestKernel>(setup));
}

}  // namespace

void add_digest_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Digest", "cpu", make_digest);
}

}  // namespace leat

#include "ops/cpu/onednn.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <dnnl.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cpu/conv_engine.h"

// Of the OpenMP runtime that oneDNN is linked with. Each compiler's own header and flags would link
// that compiler's runtime instead.
extern "C" void omp_set_num_threads(int threads);

namespace leat::onednn {
namespace {

using dnnl::memory;

// OpenMP keeps a thread count for each thread, which the library reads at creation and at
// execution.
void single_thread() {
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

// A primitive that many threads may execute at once. The library's memory objects hold the
// addresses, so each execution needs a set of its own: there is one for every core, made at the
// start, and any further threads make temporary ones.
class Primitive {
 public:
  struct Slot {
    int argument;
    memory::desc desc;
  };
  Primitive(const dnnl::engine& engine, dnnl::primitive primitive, std::vector<Slot> slots)
      : engine_(engine),
        primitive_(std::move(primitive)),
        slots_(std::move(slots)),
        sets_(std::max(1u, std::thread::hardware_concurrency())) {
    for (Set& set : sets_) fill(set);
  }

  // Runs the primitive with one address for each slot, in their order.
  bool run(const void* const* addresses) const {
    single_thread();
    // The thread takes the first set that no other thread has. The acquire pairs with the release
    // of the set's last owner, whose addresses this thread then replaces.
    for (Set& set : sets_) {
      if (set.busy.exchange(true, std::memory_order_acquire)) continue;
      const bool ok = execute(set, addresses);
      set.busy.store(false, std::memory_order_release);
      return ok;
    }
    try {
      Set set;
      fill(set);
      return execute(set, addresses);
    } catch (const std::exception&) {
      return false;
    }
  }

 private:
  // The memory objects of one execution. They hold no memory of their own: each execution sets
  // their addresses.
  struct Set {
    std::atomic<bool> busy = false;
    dnnl::stream stream;
    std::vector<memory> memories;
    std::vector<dnnl_exec_arg_t> args;
  };
  void fill(Set& set) const {
    set.stream = dnnl::stream(engine_);
    for (const Slot& slot : slots_) {
      set.memories.push_back(memory(slot.desc, engine_, DNNL_MEMORY_NONE));
      set.args.push_back({slot.argument, set.memories.back().get()});
    }
  }
  bool execute(Set& set, const void* const* addresses) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      void* address = const_cast<void*>(addresses[i]);
      if (dnnl_memory_set_data_handle(set.args[i].memory, address) != dnnl_success) return false;
    }
    return dnnl_primitive_execute(primitive_.get(), set.stream.get(),
                                  static_cast<int>(set.args.size()),
                                  set.args.data()) == dnnl_success;
  }

  dnnl::engine engine_;
  dnnl::primitive primitive_;
  std::vector<Slot> slots_;
  mutable std::vector<Set> sets_;  // never resized
};

// The caller passes the scratchpad, so that an execution allocates nothing.
dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// A reorder and the scratchpad that it needs.
struct Reorder {
  std::unique_ptr<Primitive> primitive;
  size_t scratchpad = 0;

  bool run(const void* from, void* to, void* scratch) const {
    const void* addresses[] = {from, to, scratch};
    return primitive->run(addresses);
  }
};

Reorder make_reorder(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to) {
  const dnnl::reorder::primitive_desc pd(engine, from, engine, to, user_scratchpad());
  std::vector<Primitive::Slot> slots{
      {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}};
  return {std::make_unique<Primitive>(engine, dnnl::reorder(pd), std::move(slots)),
          pd.scratchpad_desc().get_size()};
}

// Row-major strides. A size of 0 counts as 1, so that no stride is 0.
memory::dims strides_of(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * std::max<int64_t>(1, dims[i]);
  return strides;
}

// A row-major matrix with `stride` elements from one row to the next, or its transpose.
memory::desc matrix_desc(int64_t rows, int64_t columns, int64_t stride, bool transposed) {
  const memory::dims strides = transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return {{rows, columns}, memory::data_type::bf16, strides};
}

class OneDnnProduct final : public Bf16Product {
 public:
  // Throws dnnl::error if the library has no implementation; make_bf16_product() catches it.
  OneDnnProduct(const Gemm& g, bool packs) : engine_(dnnl::engine::kind::cpu, 0) {
    const memory::desc a = matrix_desc(g.m, g.k, g.lda, g.trans_a),
                       b = matrix_desc(g.k, g.n, g.ldb, g.trans_b),
                       any({g.k, g.n}, memory::data_type::bf16, memory::format_tag::any),
                       c({g.m, g.n}, memory::data_type::f32, memory::dims{g.ldc, 1});
    const dnnl::matmul::desc desc(a, packs ? any : b, c);
    const dnnl::matmul::primitive_desc pd(desc, user_scratchpad(), engine_);
    info_ = pd.impl_info_str();
    scratch_ = pd.scratchpad_desc().get_size();
    primitive_ = std::make_unique<Primitive>(
        engine_, dnnl::matmul(pd),
        std::vector<Primitive::Slot>{{DNNL_ARG_SRC, a},
                                     {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                     {DNNL_ARG_DST, c},
                                     {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
    if (!packs) return;
    packed_ = pd.weights_desc().get_size();
    reorder_ = make_reorder(engine_, b, pd.weights_desc());
    scratch_ = std::max(scratch_, reorder_.scratchpad);
  }
  bool is_fast() const { return info_.starts_with("brg"); }
  const std::string& info() const { return info_; }

  size_t packed_bytes() const override { return packed_; }
  size_t scratch_bytes() const override { return align_up(scratch_, 64); }
  bool pack(const void* b, void* packed, std::byte* scratch) const override {
    return reorder_.primitive->run(std::array<const void*, 3>{b, packed, scratch}.data());
  }
  bool run(const void* a, const void* b, float* c, std::byte* scratch) const override {
    return primitive_->run(std::array<const void*, 4>{a, b, c, scratch}.data());
  }

 private:
  dnnl::engine engine_;
  std::unique_ptr<Primitive> primitive_;
  Reorder reorder_;
  std::string info_;
  size_t packed_ = 0, scratch_ = 0;
};

constexpr auto kFloat = memory::data_type::f32;

memory::desc plain_desc(const memory::dims& dims, memory::data_type type = kFloat) {
  return {dims, type, strides_of(dims)};
}
// The library chooses the layout that is fastest for its implementation.
memory::desc any_desc(const memory::dims& dims, memory::data_type type) {
  return {dims, type, memory::format_tag::any};
}
memory::desc data_desc(const memory::dims& dims, memory::data_type type, Layout layout) {
  if (layout == Layout::plain) return plain_desc(dims, type);
  return {dims, type, memory::format_tag::nChw16c};
}
size_t element_size(const memory::desc& desc) { return memory::data_type_size(desc.data_type()); }

// The slices of packed weights: they are cut along their first dimension (groups or output
// channels), if that is the outermost in memory too.
struct Slicing {
  int64_t block = 1;                           // of the first dimension, in memory
  int64_t count = 1, per_slice = 0, last = 0;  // slices; sizes of the first dimension
  int64_t elements = 0;                        // of a packed slice that is not the last
};

Slicing slicing_of(const memory::desc& packed) {
  constexpr int64_t kSliceElements = 16 * 1024;
  // The elements of the first dimension that the innermost blocks of the format hold.
  const auto& blocking = packed.data.format_desc.blocking;
  int64_t block = 1;
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    if (blocking.inner_idxs[i] == 0) block *= blocking.inner_blks[i];
  }
  const int64_t size = packed.data.dims[0], blocks = packed.data.padded_dims[0] / block;
  const auto total = static_cast<int64_t>(packed.get_size() / element_size(packed));
  const int64_t stride = blocking.strides[0];
  // If the first dimension is not the outermost in memory, a slice is not contiguous, so the
  // weights are one slice.
  if (blocks <= 1 || stride * blocks != total) return {block, 1, size, size, total};
  const int64_t per_slice = std::clamp<int64_t>(kSliceElements / stride, 1, blocks);
  Slicing s;
  s.block = block;
  s.count = (blocks + per_slice - 1) / per_slice;
  s.per_slice = per_slice * block;
  s.last = size - (s.count - 1) * s.per_slice;
  s.elements = per_slice * stride;
  return s;
}

// As in Relu, NaN stays NaN and -0 becomes 0. The library's own Relu loses NaN.
void rectify(float* y, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] = !(y[i] <= 0.0f) ? y[i] : 0.0f;
}
// The same for bf16, whose bits are the upper half of those of a float. The bits of all numbers
// with a sign, -0 and -infinity among them, are at most 0xff80, and those of a NaN are above.
void rectify(BFloat16* y, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const bool negative = y[i].bits >= 0x8000 && y[i].bits <= 0xff80;
    y[i].bits = negative ? uint16_t{0} : y[i].bits;
  }
}

class OneDnnConv final : public ConvEngine {
 public:
  // Throws dnnl::error if the library has no implementation; make_conv() catches it.
  OneDnnConv(const ConvSpec& spec, const OneDnnConv* like)
      : spec_(spec),
        engine_(dnnl::engine::kind::cpu, 0),
        type_(spec.dtype == DType::bf16 ? memory::data_type::bf16 : kFloat) {
    describe();
    switch (spec.kind) {
      case ConvKind::forward:
        make_forward(like);
        break;
      case ConvKind::backward_data:
        make_backward_data(like);
        break;
      case ConvKind::backward_weights:
        make_backward_weights(like);
        break;
    }
    make_reorders();
  }

  bool is_reference() const { return info_.find("ref") != std::string::npos; }
  const std::string& info() const { return info_; }

  bool packs() const override { return true; }
  size_t packed_bytes() const override { return packed_.get_size(); }
  int slices() const override { return static_cast<int>(slicing_.count); }
  Range slice(int i) const override {
    const auto total = static_cast<int64_t>(packed_.get_size() / element_size(packed_));
    return {i * slicing_.elements, i + 1 == slicing_.count ? total : (i + 1) * slicing_.elements};
  }
  bool pack(const void* weights, void* packed, int i) const override {
    return piece(i).run(static_cast<const std::byte*>(weights) + i * plain_slice_bytes_,
                        static_cast<std::byte*>(packed) + i * packed_slice_bytes_, nullptr);
  }
  bool unpack(const void* packed, void* weights, int i) const override {
    return piece(i).run(static_cast<const std::byte*>(packed) + i * packed_slice_bytes_,
                        static_cast<std::byte*>(weights) + i * plain_slice_bytes_, nullptr);
  }

  size_t scratch_bytes() const override { return own_scratch_ + x_copy_ + y_copy_; }

  bool run(void* x, void* w, void* bias, void* y, std::byte* scratch) const override {
    // The scratch memory has the library's scratchpad, then the copies of x and of y in its own
    // layouts.
    void* library = scratch;
    void* own_x = x_reorder_.primitive ? scratch + own_scratch_ : x;
    void* own_y = y_reorder_.primitive ? scratch + own_scratch_ + x_copy_ : y;
    const bool reads_x = spec_.kind != ConvKind::backward_data,
               reads_y = spec_.kind != ConvKind::forward;
    // Operands that are read are reordered before the execution, and the result after it.
    if (reads_x && own_x != x && !x_reorder_.run(x, own_x, library)) return false;
    if (reads_y && own_y != y && !y_reorder_.run(y, own_y, library)) return false;
    std::array<const void*, 5> addresses{own_x, w, own_y, library, bias};
    if (!primitive_->run(addresses.data())) return false;
    if (spec_.relu) {
      const size_t count = own_y_.get_size() / element_size(own_y_);
      type_ == kFloat ? rectify(static_cast<float*>(own_y), count)
                      : rectify(static_cast<BFloat16*>(own_y), count);
    }
    if (!reads_x && own_x != x && !x_reorder_.run(own_x, x, library)) return false;
    return reads_y || own_y == y || y_reorder_.run(own_y, y, library);
  }

 private:
  // The library wants the dimensions without those that a window of lower rank fills with 1, and
  // counts dilations from 0.
  void describe() {
    const Window& window = spec_.window;
    x_dims_ = {spec_.images, spec_.inputs};
    y_dims_ = {spec_.images, spec_.outputs};
    if (spec_.groups > 1) w_dims_ = {spec_.groups};
    w_dims_.push_back(spec_.outputs / spec_.groups);
    w_dims_.push_back(spec_.inputs / spec_.groups);
    for (auto i = static_cast<size_t>(3 - window.rank); i < 3; ++i) {
      x_dims_.push_back(window.input[i]);
      y_dims_.push_back(window.output[i]);
      w_dims_.push_back(window.kernel[i]);
      strides_.push_back(window.stride[i]);
      dilations_.push_back(window.dilation[i] - 1);
      begin_.push_back(window.begin[i]);
      // The end padding with which the library computes the same output size; the rest of the input
      // is not read.
      end_.push_back((window.output[i] - 1) * window.stride[i] +
                     (window.kernel[i] - 1) * window.dilation[i] + 1 - window.input[i] -
                     window.begin[i]);
    }
  }
  // Engines that share packed weights must have one format: the second takes that of the first.
  memory::desc packed_or_any(const OneDnnConv* like) const {
    return like ? like->packed_ : any_desc(w_dims_, weights_type());
  }
  // Gradients of weights are sums over tiles, so they are f32.
  memory::data_type weights_type() const {
    return spec_.kind == ConvKind::backward_weights ? kFloat : type_;
  }

  // The forward description, which the backward primitives also need as a hint.
  dnnl::convolution_forward::primitive_desc forward_desc(const memory::desc& weights) const {
    const dnnl::primitive_attr attr = user_scratchpad();
    const auto kind = dnnl::prop_kind::forward_training;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const memory::desc x = any_desc(x_dims_, type_), y = any_desc(y_dims_, type_);
    if (!spec_.bias)
      return {{kind, algorithm, x, weights, y, strides_, dilations_, begin_, end_}, attr, engine_};
    return {{kind, algorithm, x, weights, plain_desc({spec_.outputs}), y, strides_, dilations_,
             begin_, end_},
            attr,
            engine_};
  }

  // Stores what the library has chosen: its layouts, its scratchpad, and the primitive. A reference
  // implementation gets no primitive, because make_conv() refuses it.
  template <typename PrimitiveDesc, typename PrimitiveType>
  void finish(const PrimitiveDesc& pd, const memory::desc& x, const memory::desc& w,
              const memory::desc& y, std::array<int, 4> arguments) {
    info_ = pd.impl_info_str();
    own_x_ = x;
    packed_ = w;
    own_y_ = y;
    own_scratch_ = align_up(pd.scratchpad_desc().get_size(), 64);
    std::vector<Primitive::Slot> slots{{arguments[0], x},
                                       {arguments[1], w},
                                       {arguments[2], y},
                                       {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}};
    if (spec_.bias && arguments[3]) slots.push_back({arguments[3], plain_desc({spec_.outputs})});
    if (!is_reference())
      primitive_ = std::make_unique<Primitive>(engine_, PrimitiveType(pd), std::move(slots));
  }
  void make_forward(const OneDnnConv* like) {
    const auto pd = forward_desc(packed_or_any(like));
    finish<decltype(pd), dnnl::convolution_forward>(
        pd, pd.src_desc(), pd.weights_desc(), pd.dst_desc(),
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS});
  }
  void make_backward_data(const OneDnnConv* like) {
    const dnnl::convolution_backward_data::desc desc(
        dnnl::algorithm::convolution_direct, any_desc(x_dims_, type_), packed_or_any(like),
        any_desc(y_dims_, type_), strides_, dilations_, begin_, end_);
    const dnnl::convolution_backward_data::primitive_desc pd(
        desc, user_scratchpad(), engine_, forward_desc(any_desc(w_dims_, type_)));
    finish<decltype(pd), dnnl::convolution_backward_data>(
        pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc(),
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, 0});
  }
  void make_backward_weights(const OneDnnConv* like) {
    using Backward = dnnl::convolution_backward_weights;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const memory::desc x = any_desc(x_dims_, type_), w = packed_or_any(like),
                       y = any_desc(y_dims_, type_);
    const Backward::desc desc =
        spec_.bias ? Backward::desc(algorithm, x, w, plain_desc({spec_.outputs}), y, strides_,
                                    dilations_, begin_, end_)
                   : Backward::desc(algorithm, x, w, y, strides_, dilations_, begin_, end_);
    const Backward::primitive_desc pd(desc, user_scratchpad(), engine_,
                                      forward_desc(any_desc(w_dims_, type_)));
    finish<decltype(pd), Backward>(
        pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc(),
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS});
  }

  void make_reorders() {
    if (is_reference()) return;
    size_t reorder_scratch = 0;
    // The reorder between the user's layout and the library's, or nothing if they are equal.
    const auto between = [&](const memory::desc& user, const memory::desc& own, bool read,
                             size_t& copy) -> Reorder {
      if (user == own) return {};
      Reorder reorder = read ? make_reorder(engine_, user, own) : make_reorder(engine_, own, user);
      reorder_scratch = std::max(reorder_scratch, reorder.scratchpad);
      copy = align_up(own.get_size(), 64);
      return reorder;
    };
    x_reorder_ = between(data_desc(x_dims_, type_, spec_.x_layout), own_x_,
                         spec_.kind != ConvKind::backward_data, x_copy_);
    y_reorder_ = between(data_desc(y_dims_, type_, spec_.y_layout), own_y_,
                         spec_.kind != ConvKind::forward, y_copy_);
    // The reorders and the convolution run one after the other, so they share one scratchpad.
    own_scratch_ = std::max(own_scratch_, align_up(reorder_scratch, 64));
    slicing_ = slicing_of(packed_);
    const memory::dims strides = strides_of(w_dims_);
    const auto bytes = static_cast<int64_t>(element_size(packed_));
    plain_slice_bytes_ = slicing_.per_slice * strides[0] * bytes;
    packed_slice_bytes_ = slicing_.elements * bytes;
    // All slices but the last have one size, so two reorders serve all of them.
    pieces_[0] = piece_reorder(slicing_.count > 1 ? slicing_.per_slice : slicing_.last);
    if (slicing_.count > 1) pieces_[1] = piece_reorder(slicing_.last);
    if (pieces_[0].scratchpad > 0 || pieces_[1].scratchpad > 0)
      throw std::runtime_error("a reorder of weights wants a scratchpad");
  }
  // The reorder of a slice of `size` groups or output channels; its addresses are those of the
  // slice. The library's submemory_desc() is no alternative: it refuses a last block that channels
  // fill in part, and it treats less than a block as none, so that its zero padding overwrites the
  // slice before.
  Reorder piece_reorder(int64_t size) const {
    memory::dims dims = w_dims_;
    dims[0] = size;
    const memory::desc plain = plain_desc(dims, weights_type());
    memory::desc packed = packed_;
    packed.data.dims[0] = size;
    packed.data.padded_dims[0] = (size + slicing_.block - 1) / slicing_.block * slicing_.block;
    return spec_.kind == ConvKind::backward_weights ? make_reorder(engine_, packed, plain)
                                                    : make_reorder(engine_, plain, packed);
  }
  // The reorder of slice i.
  const Reorder& piece(int i) const {
    return pieces_[slicing_.count > 1 && i + 1 == slicing_.count ? 1 : 0];
  }

  ConvSpec spec_;
  dnnl::engine engine_;
  memory::data_type type_;  // of x, of y and of the weights that are read; biases are f32
  memory::dims x_dims_, w_dims_, y_dims_, strides_, dilations_, begin_, end_;
  std::string info_;
  memory::desc own_x_, packed_, own_y_;
  std::unique_ptr<Primitive> primitive_;
  Reorder x_reorder_, y_reorder_;
  std::array<Reorder, 2> pieces_;
  Slicing slicing_;
  int64_t plain_slice_bytes_ = 0, packed_slice_bytes_ = 0;
  size_t own_scratch_ = 0, x_copy_ = 0, y_copy_ = 0;
};

bool has_isa(dnnl_cpu_isa_t wanted) { return (dnnl_get_effective_cpu_isa() & wanted) == wanted; }

}  // namespace

bool has_avx512() { return has_isa(dnnl_cpu_isa_avx512_core); }

bool sgemm(const Gemm& g, const float* a, const float* b, float* c) {
  // The thread count must be one before the first call of the library on this thread.
  single_thread();
  return dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k, g.alpha, a, g.lda,
                    b, g.ldb, 0.0f, c, g.ldc) == dnnl_success;
}

bool has_tiles() { return has_isa(dnnl_cpu_isa_avx512_core_amx); }

bool is_fast_in_bf16() {
  return has_tiles() || (has_isa(dnnl_cpu_isa_avx512_core_bf16) && __builtin_cpu_is("amd"));
}

Result<std::unique_ptr<Bf16Product>> make_bf16_product(const Gemm& gemm, bool packs) {
  single_thread();
  try {
    auto product = std::make_unique<OneDnnProduct>(gemm, packs);
    if (!product->is_fast()) return unimplemented(cat("oneDNN has only ", product->info()));
    return std::unique_ptr<Bf16Product>(std::move(product));
  } catch (const dnnl::error& e) {
    return unimplemented(cat("oneDNN refuses: ", e.what()));
  } catch (const std::exception& e) {
    return internal_error(cat("oneDNN: ", e.what()));
  }
}

Result<std::unique_ptr<ConvEngine>> make_conv(const ConvSpec& spec, const ConvEngine* like) {
  single_thread();
  try {
    auto conv = std::make_unique<OneDnnConv>(spec, dynamic_cast<const OneDnnConv*>(like));
    if (conv->is_reference()) return unimplemented(cat("oneDNN has only ", conv->info()));
    return std::unique_ptr<ConvEngine>(std::move(conv));
  } catch (const dnnl::error& e) {
    return unimplemented(cat("oneDNN refuses: ", e.what()));
  } catch (const std::exception& e) {
    return internal_error(cat("oneDNN: ", e.what()));
  }
}

}  // namespace leat::onednn

#include "tests/scheduler/scheduler_testing.h"

#include <cstring>
#include <set>

#include "devices/core/pages.h"
#include "ops/catalogue.h"
#include "scheduler/runtime/places.h"

namespace leat {
namespace {

Result<std::unique_ptr<Kernel>> make_fail(const KernelSetup& setup) {
  const auto step = static_cast<uint64_t>(attr_int(setup.attrs(), "step"));
  return make_kernel([step](KernelContext& context) {
    if (context.step->step != step) return Progress::done;
    context.step->fail(context.instruction, invalid_argument("was told to fail"));
    return Progress::failed;
  });
}

Result<std::unique_ptr<Kernel>> make_slow(const KernelSetup& setup) {
  const int64_t n = setup.input(0).shape.elements();
  return make_tiled_kernel(16, [n](KernelContext& context, int tile) {
    volatile int spin = 0;
    for (int i = 0; i < 20000; ++i) spin = spin + 1;
    const int64_t begin = n * tile / 16, end = n * (tile + 1) / 16;
    std::memcpy(context.out<float>(0) + begin, context.in<float>(0) + begin,
                static_cast<size_t>(end - begin) * sizeof(float));
    return Progress::done;
  });
}

// Row i of shard s is s * rows + i.
Result<std::unique_ptr<Kernel>> make_rows(const KernelSetup& setup) {
  const int64_t rows = setup.output(0).shape[0], first = setup.node->first_row;
  return make_kernel([rows, first](KernelContext& context) {
    for (int64_t i = 0; i < rows; ++i) context.out<float>(0)[i] = static_cast<float>(first + i);
    return Progress::done;
  });
}

Catalogue make_catalogue() {
  Catalogue catalogue = standard_catalogue();
  catalogue.add(Op("test.Null")
                    .stateful()
                    .infer([](InferContext&) { return Status(); })
                    .kernel("cpu", [](const KernelSetup&) -> Result<std::unique_ptr<Kernel>> {
                      return make_kernel([](KernelContext&) { return Progress::done; });
                    }));
  catalogue.add(Op("test.Fail")
                    .attr("step", int64_t{0})
                    .stateful()
                    .infer([](InferContext&) { return Status(); })
                    .kernel("cpu", make_fail));
  catalogue.add(Op("test.Slow")
                    .input("x", "T")
                    .output("y", "T")
                    .type("T", kFloats)
                    .stateful()
                    .infer(infer_same_as_first)
                    .kernel("cpu", make_slow));
  catalogue.add(Op("test.Rows")
                    .output("y", "T")
                    .type("T", kFloats)
                    .attr("rows", int64_t{1})
                    .stateful()
                    .per_shard()
                    .infer([](InferContext& ctx) {
                      ctx.set_tensor(0, DType::f32, {Dim::of(attr_int(ctx.attrs(), "rows"))});
                      return Status();
                    })
                    .kernel("cpu", make_rows));
  return catalogue;
}

}  // namespace

const Catalogue& scheduler_catalogue() {
  static const Catalogue catalogue = make_catalogue();
  return catalogue;
}

std::vector<PlanDevice> cpus(int n) {
  std::vector<PlanDevice> devices;
  for (int i = 0; i < n; ++i)
    devices.push_back({"job:worker/task:" + std::to_string(i) + "/cpu:0"});
  return devices;
}

namespace {

std::vector<Plan> one(Plan plan) {
  std::vector<Plan> plans;
  plans.push_back(std::move(plan));
  return plans;
}

// Memory that a runner has.
class Shown final : public Buffer {
 public:
  Shown(void* data, size_t size) : data_(data), size_(size) {}
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* data_;
  size_t size_;
};

// To a table some of whose slots the producer writes itself.
class ShowingChannel final : public Channel {
 public:
  explicit ShowingChannel(SlotTable& destination) : destination_(&destination) {}
  void show(uint32_t edge) { shown_.insert(edge); }

  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    if (!shown_.contains(edge)) return destination_->deliver(edge, turn, data, bytes);
    if (data != destination_->slot(edge, turn))
      return internal_error("expected the value in its shared place");
    destination_->edge(edge).arrived.signal(turn + 1);
    return {};
  }
  void* place(uint32_t edge, uint64_t turn) override {
    return shown_.contains(edge) ? destination_->slot(edge, turn) : nullptr;
  }
  Timeline& credit(uint32_t edge) override { return destination_->edge(edge).retired; }
  void abort(const Status& cause) override { destination_->abort(cause); }

 private:
  SlotTable* destination_;
  std::set<uint32_t> shown_;
};

}  // namespace

PlanRunner::PlanRunner(Plan plan, int threads, RunOptions options)
    : PlanRunner(one(std::move(plan)), threads, std::move(options)) {}

PlanRunner::PlanRunner(std::vector<Plan> parts, int threads, RunOptions options)
    : plans_(std::move(parts)) {
  make_devices(threads);
  open_channels();
  make_runs(options);
}

PlanRunner::PlanRunner(Plan plan, int threads, const Transport& transport, RunOptions options)
    : plans_(one(std::move(plan))) {
  make_devices(threads);
  open_links(transport);
  make_runs(options);
}

PlanRunner::PlanRunner(Plan plan, int threads, InSharedPlaces, RunOptions options)
    : plans_(one(std::move(plan))) {
  make_devices(threads);
  open_channels();
  share_places();
  make_runs(options);
}

void PlanRunner::share_places() {
  for (uint32_t p = 0; p < channels_.size(); ++p) {
    for (const ValueForMany& value :
         values_for_many(plan(), p, std::vector<bool>(channels_.size(), true))) {
      void* places[kSlotDepth];
      for (void*& place : places) {
        shared_.push_back(must(allocate_pages(value.bytes)));
        place = shared_.back()->data();
      }
      for (uint32_t e : value.edges) {
        const uint32_t to = plan().edges[e].to;
        std::vector<std::unique_ptr<Buffer>> slots;
        for (void* place : places) slots.push_back(std::make_unique<Shown>(place, value.bytes));
        slots_[to]->open(e, value.bytes, std::move(slots));
        if (!dynamic_cast<ShowingChannel*>(channels_[p][to].get()))
          channels_[p][to] = std::make_unique<ShowingChannel>(*slots_[to]);
        dynamic_cast<ShowingChannel&>(*channels_[p][to]).show(e);
      }
    }
  }
}

void PlanRunner::make_devices(int threads) {
  const size_t n = plan().partitions.size();
  for (size_t p = 0; p < n; ++p) {
    devices_.push_back(std::make_unique<cpu::CpuDevice>(0, threads));
    executors_.push_back(std::make_unique<Executor>(devices_[p]->pool(), "driver"));
    resources_.push_back(std::make_unique<JobResources>(*devices_[p]));
    slots_.push_back(std::make_unique<SlotTable>(plan(p).edges.size()));
  }
  channels_.resize(n);
  for (auto& channels : channels_) channels.resize(n);
}

void PlanRunner::open_channels() {
  for (size_t p = 0; p < channels_.size(); ++p) {
    for (uint32_t e = 0; e < plan(p).edges.size(); ++e) {
      const PlanEdge& edge = plan(p).edges[e];
      if (edge.to == p) must(slots_[p]->open(e, edge.bytes, *devices_[p]));
      if (edge.from == p && edge.to != p && !channels_[p][edge.to])
        channels_[p][edge.to] = std::make_unique<local::LocalChannel>(*slots_[edge.to]);
    }
  }
}

void PlanRunner::open_links(const Transport& transport) {
  for (uint32_t p = 0; p < channels_.size(); ++p) {
    for (uint32_t q = p + 1; q < channels_.size(); ++q) {
      LinkSetup a, b;
      for (uint32_t e = 0; e < plan().edges.size(); ++e) {
        const PlanEdge& edge = plan().edges[e];
        if (edge.from == p && edge.to == q) a.outgoing.push_back({e, edge.bytes});
        if (edge.from == q && edge.to == p) a.incoming.push_back({e, edge.bytes});
      }
      if (a.outgoing.empty() && a.incoming.empty()) continue;
      b.incoming = a.outgoing;
      b.outgoing = a.incoming;
      a.self = b.peer = "worker-" + std::to_string(p);
      b.self = a.peer = "worker-" + std::to_string(q);
      a.slots = slots_[p].get();
      b.slots = slots_[q].get();
      LinkPair pair = must(transport.pair(std::move(a), std::move(b), {}));
      threads_.push_back(std::move(pair.threads));
      channels_[p][q] = std::move(pair.a);
      channels_[q][p] = std::move(pair.b);
    }
  }
}

void PlanRunner::make_runs(const RunOptions& options) {
  for (size_t p = 0; p < channels_.size(); ++p) {
    Exchange exchange;
    exchange.slots = slots_[p].get();
    for (auto& channel : channels_[p]) exchange.channels.push_back(channel.get());
    programs_.push_back(must(Program::create(plan(p), static_cast<uint32_t>(p), *devices_[p],
                                             *resources_[p], exchange, options.profile)));
    runs_.push_back(std::make_unique<Run>(*programs_[p], devices_[p]->pool(), options));
    executors_[p]->add(*runs_[p]);
  }
}

Link& PlanRunner::link(size_t p, size_t q) { return dynamic_cast<Link&>(*channels_[p][q]); }

uint64_t PlanRunner::frames_sent() const {
  uint64_t frames = 0;
  for (const auto& channels : channels_) {
    for (const auto& channel : channels)
      if (channel) frames += dynamic_cast<const Link&>(*channel).counters().frames_sent;
  }
  return frames;
}

PlanRunner::~PlanRunner() {
  for (auto& run : runs_) run->abort(cancelled("the test is over"));
  for (size_t p = 0; p < runs_.size(); ++p) executors_[p]->remove(*runs_[p]);
}

void PlanRunner::extend(uint64_t limit) {
  for (size_t p = 0; p < runs_.size(); ++p) {
    runs_[p]->extend(limit);
    executors_[p]->wake(*runs_[p]);
  }
}

Status PlanRunner::step_to(uint64_t steps) {
  extend(steps);
  for (auto& run : runs_)
    LEAT_RETURN_IF_ERROR(run->finished().wait(steps - run->options().first_step, soon()));
  return {};
}

Status PlanRunner::feed(uint32_t i, const Tensor& value) {
  for (auto& run : runs_) LEAT_RETURN_IF_ERROR(run->set_feed(i, value));
  return {};
}

}  // namespace leat

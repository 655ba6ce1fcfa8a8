// Tests steps that are closed by the first N of M replicas.
#include <set>

#include "devices/base/text.h"
#include "ops/state/replica_pool.h"
#include "tests/ops/job_testing.h"

namespace leat::testing {
namespace {

// A pool that needs 2 of 3 replicas by default. The test calls it.
struct Pool {
  explicit Pool(ReplicaPool::Options options = {3, 2, true}, int64_t first = 0) : pool(options) {
    pool.join(first);
  }
  // Returns the chunk, or -1.
  int64_t draw(int64_t replica) {
    ReplicaPool::Ticket ticket;
    uint64_t await = 0;
    if (!pool.draw(replica, ticket, await)) {
      CHECK_FALSE(pool.events().reached(await));
      return -1;
    }
    return ticket.chunk;
  }
  // Returns the replicas that count; none if the step waits. `dropped` is for the last step closed.
  std::vector<int64_t> close(int64_t step, int64_t limit) {
    std::vector<int64_t> members(static_cast<size_t>(pool.options().quorum));
    ReplicaPool::Closed closed;
    uint64_t await = 0;
    if (!pool.close(step, limit, members.data(), closed, await)) {
      CHECK_FALSE(pool.events().reached(await));
      return {};
    }
    REQUIRE(closed.status.ok());
    dropped = closed.dropped;
    return members;
  }
  ReplicaPool pool;
  int64_t dropped = -1;
};

using Members = std::vector<int64_t>;

}  // namespace

TEST_CASE("the first replicas that arrive close a step, by the chunks that they have") {
  Pool p;
  CHECK(p.draw(0) == -1);  // no step is allowed
  CHECK(p.close(0, 10).empty());
  CHECK(p.draw(2) == 0);
  CHECK(p.draw(0) == 1);
  CHECK(p.draw(1) == 2);
  p.pool.arrive(1);
  CHECK(p.close(0, 10).empty());
  p.pool.arrive(2);
  CHECK(p.draw(1) == -1);  // only once for each step
  CHECK(p.close(0, 10) == Members{2, 1});
  CHECK(p.dropped == 1);
}

TEST_CASE("a straggler leaves a closed step, joins the newest, and what it had is drawn again") {
  Pool p;
  p.close(0, 10);
  CHECK(p.draw(2) == 0);
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t a = p.draw(0), b = p.draw(1);
    CHECK(a == (step == 0 ? 1 : step == 1 ? 0 : 4));
    CHECK(b == a + (step == 1 ? 3 : 1));
    p.pool.arrive(0);
    p.pool.arrive(1);
    CHECK(p.close(step, 10) == Members{0, 1});
    CHECK(p.dropped == (step == 0 ? 1 : 0));
  }
  p.pool.arrive(2);  // too late
  CHECK(p.draw(2) == 6);
  p.pool.arrive(2);
  CHECK(p.close(3, 10).empty());
}

TEST_CASE("when all allowed steps are closed, their chunks have counted once each") {
  // Replica r arrives in every step except each (r + 2)nd.
  for (const int64_t replicas : {2, 3, 5}) {
    for (const int64_t quorum : {int64_t{1}, replicas - 1, replicas}) {
      INFO(quorum << " of " << replicas);
      Pool p({replicas, quorum, true}, 4);
      std::vector<int64_t> chunk(static_cast<size_t>(replicas), -1);
      std::multiset<int64_t> counted;
      for (int64_t step = 4; step < 12; ++step) {
        int64_t turn = 0;
        Members members;
        while ((members = p.close(step, 12)).empty()) {
          REQUIRE(++turn < 100);
          for (int64_t r = 0; r < replicas; ++r) {
            if (const int64_t drawn = p.draw(r); drawn >= 0) chunk[static_cast<size_t>(r)] = drawn;
            if (quorum == replicas || (step + turn / 10) % (r + 2) != 0) p.pool.arrive(r);
          }
        }
        for (int64_t r : members) counted.insert(chunk[static_cast<size_t>(r)]);
      }
      std::multiset<int64_t> expected;
      for (int64_t c = 4 * quorum; c < 12 * quorum; ++c) expected.insert(c);
      CHECK(counted == expected);
    }
  }
}

TEST_CASE("the last chunks are computed twice rather than waited for") {
  Pool p;
  p.close(0, 1);
  CHECK(p.draw(2) == 0);
  CHECK(p.draw(0) == 1);
  CHECK(p.draw(1) == -1);  // two chunks are drawn, and may still arrive
  p.pool.arrive(0);
  CHECK(p.draw(1) == 0);
  p.pool.arrive(1);
  p.pool.arrive(2);  // the same chunk, which counts once
  CHECK(p.close(0, 1) == Members{1, 0});
  CHECK(p.dropped == 0);
}

TEST_CASE("without redraw, dropped rows are not drawn again") {
  Pool p({3, 2, false}, 1);
  for (int64_t step = 1; step < 4; ++step) {
    p.close(step, 4);
    for (int64_t r = 0; r < 3; ++r) CHECK(p.draw(r) == step * 3 + r);
    p.pool.arrive(2);
    p.pool.arrive(0);
    CHECK(p.close(step, 4) == Members{0, 2});
    CHECK(p.dropped == 1);
  }
}

TEST_CASE("a replica pool begins anew when all its users are gone") {
  Pool p;
  p.close(0, 10);
  CHECK(p.draw(0) == 0);
  p.pool.leave();
  p.pool.join(7);
  CHECK(p.close(7, 10).empty());
  CHECK(p.draw(0) == 14);
}

TEST_CASE("a step that is not the open one is not closed") {
  Pool p;
  ReplicaPool::Closed closed;
  uint64_t await = 0;
  int64_t members[2];
  REQUIRE(p.pool.close(1, 2, members, closed, await));
  CHECK(closed.status.message().find("expected step 0 to be closed, received 1") !=
        std::string::npos);
}

TEST_CASE("staged values are summed in the tree over the replicas that count") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int64_t mean : {0, 1}) {
      TestJob job;
      const std::vector<int64_t> shape{300, 2};
      const Attrs type{{"shape", shape}, {"dtype", std::string(dtype_name(dtype))}};
      Attrs attrs = type;
      attrs["name"] = std::string("staged");
      attrs["replicas"] = int64_t{4};
      const ValueId staging = job.add("leat.Staging", {}, attrs);
      std::map<ValueId, Tensor> feeds;
      std::vector<NodeId> staged;
      std::vector<Tensor> values;
      for (int64_t r = 0; r < 4; ++r) {
        Tensor value(dtype, Shape{300, 2});
        for (int64_t i = 0; i < 600; ++i) value.set(i, 0.1 * static_cast<double>(i * 4 + r * r));
        const ValueId input = job.input(cat("x", r), dtype, Shape{300, 2});
        feeds.emplace(input, value);
        values.push_back(value);
        staged.push_back(job.add_node("leat.Stage", {staging, input}, {{"replica", r}}));
      }
      const ValueId members = job.input("members", DType::i64, Shape{3});
      feeds.emplace(members, Tensor::of<int64_t>({3}, {3, 0, 2}));
      Attrs sum_attrs = type;
      sum_attrs["mean"] = mean;
      const NodeId sum = job.add_node("leat.SumStaged", {staging, members}, sum_attrs, 1);
      job.graph.node(sum).after = staged;
      const Tensor got = job.run(feeds, {job.graph.node(sum).outputs[0]})[0];
      Tensor expected(dtype, Shape{300, 2});
      for (int64_t i = 0; i < 600; ++i) {
        if (dtype == DType::f32) {
          const auto x = [&](size_t r) { return values[r].data<float>()[i]; };
          const float added = (x(3) + x(0)) + x(2);
          expected.data<float>()[i] = mean ? added * static_cast<float>(1.0 / 3) : added;
        } else {
          const auto x = [&](size_t r) { return values[r].data<double>()[i]; };
          const double added = (x(3) + x(0)) + x(2);
          expected.data<double>()[i] = mean ? added * (1.0 / 3) : added;
        }
      }
      CHECK(got.identical(expected));
    }
  }
}

TEST_CASE("a replica that there is none of stages nothing, and does not count") {
  TestJob job;
  const Attrs type{{"shape", std::vector<int64_t>{2}}, {"dtype", std::string("float")}};
  Attrs attrs = type;
  attrs["name"] = std::string("staged");
  attrs["replicas"] = int64_t{2};
  const ValueId staging = job.add("leat.Staging", {}, attrs);
  const ValueId x = job.input("x", DType::f32, Shape{2});
  const ValueId members = job.input("members", DType::i64, Shape{1});
  const std::map<ValueId, Tensor> feeds{{x, Tensor(DType::f32, Shape{2})},
                                        {members, Tensor::of<int64_t>({1}, {2})}};
  const NodeId stage = job.add_node("leat.Stage", {staging, x}, {{"replica", int64_t{2}}});
  CHECK(job.try_run(feeds, {}, {stage}).status().message().find("received float[2] of 2") !=
        std::string::npos);
  const ValueId sum = job.add("leat.SumStaged", {staging, members}, type);
  CHECK(job.try_run(feeds, {sum}).status().message().find("members: expected 0 to 1, received 2") !=
        std::string::npos);
}

TEST_CASE("a variable is no step clock") {
  TestJob job;
  const ValueId w = job.variable("w", DType::f32, {2});
  const NodeId made = job.add_node("leat.AdvanceStep", {w}, {}, 0);
  CHECK(job.try_run({}, {}, {made})
            .status()
            .message()
            .find("expected a step clock, received a variable") != std::string::npos);
}

}  // namespace leat::testing

// An op on the shards that its rule describes, put together again, must have the result of the op
// on the whole tensor.
#include <algorithm>
#include <cstring>
#include <map>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/ops/conformance.h"
#include "tests/ops/op_testing.h"

using namespace leat;
using namespace leat::testing;

namespace {

// The elements [begin, begin + size) of an axis.
Tensor part(const Tensor& tensor, int axis, int64_t begin, int64_t size) {
  const Shape& shape = tensor.shape();
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes[static_cast<size_t>(axis)] = size;
  Tensor out(tensor.dtype(), Shape(sizes));
  const auto inner =
      static_cast<size_t>(shape.elements(axis + 1, shape.rank())) * dtype_size(tensor.dtype());
  const size_t row = inner * static_cast<size_t>(shape[axis]),
               slice = inner * static_cast<size_t>(size);
  for (int64_t outer = 0; outer < shape.elements(0, axis); ++outer) {
    const auto at = static_cast<size_t>(outer);
    std::memcpy(out.data<char>() + at * slice,
                tensor.data<char>() + at * row + inner * static_cast<size_t>(begin), slice);
  }
  return out;
}

// Adds `value` to `sum`, element by element.
void add(Tensor& sum, const Tensor& value) {
  for (int64_t i = 0; i < sum.elements(); ++i) sum.set(i, sum.at(i) + value.at(i));
}

// Splits the tensor into parts whose sum is the tensor, except for rounding.
std::vector<Tensor> summands(const Tensor& tensor, int64_t shards) {
  std::vector<Tensor> parts;
  Tensor rest = tensor.clone();
  for (int64_t s = 1; s < shards; ++s) {
    Tensor one = random_tensor(tensor.dtype(), tensor.shape(), static_cast<uint64_t>(s), 0, 2);
    for (int64_t i = 0; i < rest.elements(); ++i) rest.set(i, rest.at(i) - one.at(i));
    parts.push_back(std::move(one));
  }
  parts.push_back(std::move(rest));
  return parts;
}

std::vector<Tensor> spread(const Tensor& tensor, const Spread& how, int64_t shards) {
  if (!tensor.valid() || how.kind == Spread::whole) {
    return std::vector<Tensor>(static_cast<size_t>(shards), tensor);
  }
  if (how.kind == Spread::partial_sum) return summands(tensor, shards);
  std::vector<Tensor> parts;
  const int64_t size = tensor.shape()[how.axis] / shards;
  for (int64_t s = 0; s < shards; ++s) parts.push_back(part(tensor, how.axis, s * size, size));
  return parts;
}

bool divides(const ShardingRule& rule, const OpTypes& types, int64_t shards) {
  const auto fits = [&](const std::vector<Spread>& how, const std::vector<OperandType>& operands) {
    for (size_t i = 0; i < how.size() && i < operands.size(); ++i) {
      if (how[i].kind != Spread::split || !operands[i].present) continue;
      if (operands[i].shape[how[i].axis] % shards != 0) return false;
    }
    return true;
  };
  return fits(rule.inputs, types.inputs) && fits(rule.outputs, types.outputs);
}

// Whether rows are split, as strategies split a batch. Then equal bits are promised; along other
// axes the order of additions may depend on the shape.
bool of_rows(const std::vector<Spread>& how) {
  return std::all_of(how.begin(), how.end(), [](const Spread& spread) {
    return spread.kind == Spread::whole || spread == Spread::on(0);
  });
}

std::string text(const std::vector<Spread>& how) {
  std::string out;
  for (const Spread& s : how) {
    out += s.kind == Spread::split   ? cat(" split ", s.axis)
           : s.kind == Spread::whole ? " whole"
                                     : " sum";
  }
  return out;
}

// Returns the first row of the shard in the global tensor if rows are split.
int64_t first_row(const ShardingRule& rule, const OpTypes& types, int64_t shard, int64_t shards) {
  if (rule.outputs[0] != Spread::on(0)) return 0;
  return shard * types.outputs[0].shape[0] / shards;
}

using Results = std::vector<std::vector<Tensor>>;  // by shard

Results run_shards(const ConformanceCase& c, const ShardingRule& rule, const OpTypes& types,
                   int64_t shards) {
  std::vector<std::vector<Tensor>> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(
        spread(c.inputs[i], i < rule.inputs.size() ? rule.inputs[i] : Spread{}, shards));
  }
  Results results;
  for (int64_t s = 0; s < shards; ++s) {
    ConformanceCase shard = c;
    for (size_t i = 0; i < inputs.size(); ++i) shard.inputs[i] = inputs[i][static_cast<size_t>(s)];
    Conditions conditions;
    conditions.first_row = first_row(rule, types, s, shards);
    results.push_back(run_case(shard, conditions));
  }
  return results;
}

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-10 : dtype == DType::f32 ? 1e-4 : is_float(dtype) ? 5e-2 : 0;
}

void check_output(const Results& shards, size_t o, const Spread& how, const Tensor& whole,
                  bool exact) {
  INFO("output " << o);
  const double t = tolerance(whole.dtype());
  if (how.kind == Spread::partial_sum) {
    Tensor sum = shards[0][o].clone();
    for (size_t s = 1; s < shards.size(); ++s) add(sum, shards[s][o]);
    check_close(sum, whole, t, t * 10);
    return;
  }
  const auto n = static_cast<int64_t>(shards.size());
  for (int64_t s = 0; s < n; ++s) {
    INFO("shard " << s << " of " << n);
    Tensor expected = whole;
    if (how.kind == Spread::split) {
      const int64_t size = whole.shape()[how.axis] / n;
      expected = part(whole, how.axis, s * size, size);
    }
    const Tensor& actual = shards[static_cast<size_t>(s)][o];
    if (exact) {
      check_identical(actual, expected);
    } else {
      check_close(actual, expected, t, t * 10);
    }
  }
}

// Checks all shardings of a case. Returns how many pairs (rule, number of shards) it tried.
int check_sharding(const ConformanceCase& c) {
  const OpDef& op = op_of(c);
  const Attrs attrs = with_defaults(op, c.attrs);
  const OpTypes types = types_of(c, attrs);
  const std::vector<Tensor> whole = run_case(c);
  int tried = 0;
  for (const ShardingRule& rule : op.sharding(types.inputs, types.outputs, attrs)) {
    INFO("inputs" << text(rule.inputs) << ", outputs" << text(rule.outputs));
    REQUIRE(rule.outputs.size() == types.outputs.size());
    REQUIRE(rule.inputs.size() == types.inputs.size());
    for (const int64_t shards : {2, 3}) {
      if (!divides(rule, types, shards)) continue;
      INFO(shards << " shards");
      ++tried;
      const Results results = run_shards(c, rule, types, shards);
      const bool exact = of_rows(rule.inputs) && of_rows(rule.outputs);
      for (size_t o = 0; o < whole.size(); ++o) {
        check_output(results, o, rule.outputs[o], whole[o], exact);
      }
    }
  }
  return tried;
}

}  // namespace

TEST_CASE("shards of an op, put together, are the whole") {
  static const auto kByOp = [] {  // once, for all sections
    std::map<std::string, std::vector<ConformanceCase>> by_op;
    for (ConformanceCase& c : conformance_cases()) {
      if (op_of(c).sharding) by_op[c.op].push_back(std::move(c));
    }
    return by_op;
  }();
  for (const auto& [op, cases] : kByOp) {
    DYNAMIC_SECTION(op) {
      int tried = 0;
      for (const ConformanceCase& c : cases) {
        if (!c.shards) continue;
        std::vector<std::string> inputs;
        for (const Tensor& t : c.inputs) inputs.push_back(t.valid() ? t.shape().to_string() : "-");
        INFO(join(inputs, ", "));
        tried += check_sharding(c);
      }
      CHECK(tried > 0);
    }
  }
}

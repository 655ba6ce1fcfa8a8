// The CPU kernel of leat.EditDistance: the distance of Levenshtein by the table of Wagner and
// Fischer, The String-to-String Correction Problem (1974), of which two lines are kept.
#include <algorithm>
#include <span>
#include <vector>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/graph/attrs.h"

namespace leat {
namespace {

// The elements of a sequence: numbers, each a word of its own, or words of several numbers. Words
// are ranges of `numbers`.
struct EditSequence {
  std::vector<int64_t> numbers;
  std::vector<std::span<const int64_t>> words;

  void split(int64_t separator) {
    words.clear();
    const int64_t* const all = numbers.data();
    if (separator < 0) {
      for (size_t i = 0; i < numbers.size(); ++i) words.emplace_back(all + i, 1);
      return;
    }
    for (size_t i = 0; i < numbers.size();) {
      size_t end = i;
      while (end < numbers.size() && numbers[end] != separator) ++end;
      if (end > i) words.emplace_back(all + i, end - i);
      i = end + 1;
    }
  }
};

// The memory of a thread, for one row after the other.
struct EditMemory {
  EditSequence made, wanted;
  std::vector<int64_t> line, before;
};

int64_t edit_distance(EditMemory& memory) {
  const auto &a = memory.made.words, &b = memory.wanted.words;
  const auto equal = [](std::span<const int64_t> x, std::span<const int64_t> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
  };
  auto &line = memory.line, &before = memory.before;
  line.resize(b.size() + 1), before.resize(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) line[j] = static_cast<int64_t>(j);
  for (size_t i = 0; i < a.size(); ++i) {
    std::swap(before, line);
    line[0] = static_cast<int64_t>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = before[j] + (equal(a[i], b[j]) ? 0 : 1);
      line[j + 1] = std::min({replaced, before[j + 1] + 1, line[j] + 1});
    }
  }
  return line[b.size()];
}

class EditDistanceKernel final : public Kernel {
 public:
  explicit EditDistanceKernel(const KernelSetup& setup)
      : rows_(setup.input(0).shape[0]),
        made_(setup.input(0).shape[1]),
        wanted_(setup.input(1).shape[1]),
        blank_(attr_int(setup.attrs(), "blank")),
        separator_(attr_int(setup.attrs(), "separator")),
        tile_rows_(setup.tile_rows > 0
                       ? setup.tile_rows
                       : default_tile_rows(rows_, std::max<int64_t>(1, made_ * wanted_))) {}
  int tiles(int) const override { return tile_count(rows_, tile_rows_); }

  Progress run(KernelContext& context, int, int tile) override {
    static thread_local EditMemory memory;
    const int64_t end = std::min(rows_, (tile + 1) * tile_rows_);
    for (int64_t n = tile * tile_rows_; n < end; ++n) {
      collect(context.in<int64_t>(0) + n * made_, made_, blank_, memory.made);
      collect(context.in<int64_t>(1) + n * wanted_, wanted_, -1, memory.wanted);
      double* const out = context.out<double>(0) + n * 3;
      out[0] = static_cast<double>(edit_distance(memory));
      out[1] = static_cast<double>(memory.wanted.words.size());
      out[2] = memory.made.numbers == memory.wanted.numbers ? 1 : 0;
    }
    return Progress::done;
  }

 private:
  void collect(const int64_t* from, int64_t count, int64_t blank, EditSequence& to) const {
    to.numbers.clear();
    for (int64_t i = 0; i < count; ++i) {
      const bool again = blank >= 0 && i > 0 && from[i] == from[i - 1];
      if (from[i] >= 0 && from[i] != blank && !again) to.numbers.push_back(from[i]);
    }
    to.split(separator_);
  }

  const int64_t rows_, made_, wanted_, blank_, separator_, tile_rows_;
};

}  // namespace

void add_edit_distance_kernels(Catalogue& catalogue) {
  catalogue.add_kernel(
      "leat.EditDistance", "cpu", [](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
        // The time of a row is that of so many comparisons, and a run that ends waits for it.
        constexpr int64_t kMostPairs = int64_t{1} << 30;
        const int64_t made = setup.input(0).shape[1], wanted = setup.input(1).shape[1];
        if (made > 0 && wanted > kMostPairs / made) {
          return invalid_argument(cat(setup.subject, ": expected lists of at most ", kMostPairs,
                                      " pairs of a prediction and a label, received ", made,
                                      " predictions and ", wanted, " labels"));
        }
        return std::unique_ptr<Kernel>(std::make_unique<EditDistanceKernel>(setup));
      });
}

}  // namespace leat

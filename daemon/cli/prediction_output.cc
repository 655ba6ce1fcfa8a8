#include "daemon/cli/prediction_output.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "daemon/base/json_line.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"

namespace leat {
namespace {

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A name as a field of CSV (RFC 4180).
std::string csv_name(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    out += c;
    if (c == '"') out += c;
  }
  return out + "\"";
}

// The common part: the scores of each row, one after the other.
class RowSink : public PredictionSink {
 public:
  RowSink(PredictionForm form, TakeBytes take) : form_(std::move(form)), take_(std::move(take)) {}

  Status begin(DType dtype, const Shape& shape) final {
    dtype_ = dtype;
    shape_ = shape;
    width_ = shape.rank() == 1 ? 1 : shape.elements() / std::max<int64_t>(shape[0], 1);
    last_ = shape.rank() == 1 ? 1 : shape[shape.rank() - 1];
    LEAT_RETURN_IF_ERROR(check());
    if (form_.classes.empty() && static_cast<int64_t>(form_.known_classes.size()) == width_)
      form_.classes = form_.known_classes;
    std::string text;
    LEAT_RETURN_IF_ERROR(open(text));
    return text.empty() ? Status() : take_(bytes_of_text(text));
  }

  Status take(const Tensor& batch, int64_t rows) final {
    if (takes_bytes() && !form_.softmax) {
      const size_t row = static_cast<size_t>(width_) * dtype_size(dtype_);
      return take_({static_cast<const std::byte*>(batch.raw()), static_cast<size_t>(rows) * row});
    }
    std::string text;
    std::vector<double> scores(static_cast<size_t>(width_));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < width_; ++i)
        scores[static_cast<size_t>(i)] = batch.at(row * width_ + i);
      if (form_.softmax) softmax(scores);
      add_row(row_++, scores, text);
    }
    return take_(bytes_of_text(text));
  }

 protected:
  // Adds what comes before the first row; what is written of a row.
  virtual Status open(std::string&) { return {}; }
  virtual void add_row(int64_t row, const std::vector<double>& scores, std::string& text) = 0;
  virtual bool needs_classes() const { return form_.top > 0; }
  // The elements are written as they are, if nothing changes them.
  virtual bool takes_bytes() const { return false; }

  // The indexes of the highest scores, the first of equals first; a NaN is the lowest.
  std::vector<int64_t> highest(const std::vector<double>& scores, int64_t count) const {
    std::vector<int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto value = [&](int64_t i) {
      const double score = scores[static_cast<size_t>(i)];
      return std::isnan(score) ? -HUGE_VAL : score;
    };
    const auto middle = order.begin() + std::min<int64_t>(count, width_);
    std::partial_sort(order.begin(), middle, order.end(), [&](int64_t a, int64_t b) {
      return value(a) != value(b) ? value(a) > value(b) : a < b;
    });
    order.erase(middle, order.end());
    return order;
  }

  std::string name_of_class(int64_t i) const {
    return form_.classes.empty() ? std::to_string(i) : form_.classes[static_cast<size_t>(i)];
  }
  // As short as it reads back to the same number of its type.
  std::string number(double value) const {
    if (dtype_ == DType::f64) return shortest(value);
    return is_float(dtype_) ? shortest(static_cast<float>(value)) : shortest(value);
  }
  std::string json_number(double value) const {
    return std::isfinite(value) ? number(value) : cat("\"", name_of_number(value), "\"");
  }
  std::string json_class(int64_t i) const {
    if (form_.classes.empty()) return std::to_string(i);
    JsonLine line;
    std::string text = line.add("c", name_of_class(i)).text();
    return text.substr(6, text.size() - 8);  // between {"c": and }\n
  }

  PredictionForm form_;
  DType dtype_ = DType::invalid;
  Shape shape_;
  int64_t width_ = 0;  // elements of a row
  int64_t last_ = 1;   // of its last axis

 private:
  Status check() const {
    const std::string output = cat("the output of the model, ", dtype_, shape_);
    const auto classes = static_cast<int64_t>(form_.classes.size());
    if (form_.softmax && !is_float(dtype_))
      return invalid_argument(cat("--softmax: expected floats, received ", output));
    if (width_ == 0 && needs_classes())
      return invalid_argument(cat("expected scores in each row, it is ", output));
    if (classes > 0 && classes != width_) {
      return invalid_argument(cat("--classes: expected ", counted(width_, "name"), " for ", output,
                                  ", received ", classes));
    }
    if (form_.top > width_)
      return invalid_argument(
          cat("--top: expected at most ", width_, " for ", output, ", received ", form_.top));
    return {};
  }

  void softmax(std::vector<double>& scores) const {
    for (int64_t from = 0; from < width_; from += last_) {
      const auto begin = scores.begin() + from, end = begin + last_;
      const double most = *std::max_element(begin, end);
      double sum = 0;
      for (auto at = begin; at != end; ++at) sum += * at = std::exp(*at - most);
      for (auto at = begin; at != end; ++at) *at /= sum;
    }
  }

  const TakeBytes take_;
  int64_t row_ = 0;
};

// Probabilities are converted back, so that the file has the output's own type.
class NpySink final : public RowSink {
 public:
  using RowSink::RowSink;

 private:
  bool takes_bytes() const override { return true; }
  Status open(std::string& text) override {
    LEAT_ASSIGN_OR_RETURN(text, npy_header(dtype_, shape_));
    return {};
  }
  void add_row(int64_t, const std::vector<double>& scores, std::string& text) override {
    Tensor row(dtype_, Shape{width_});
    for (int64_t i = 0; i < width_; ++i) row.set(i, scores[static_cast<size_t>(i)]);
    text.append(static_cast<const char*>(row.raw()), row.bytes());
  }
};

class CsvSink final : public RowSink {
 public:
  using RowSink::RowSink;

 private:
  Status open(std::string& text) override {
    text = "row";
    for (int64_t i = 0; i < form_.top; ++i) {
      const std::string number = form_.top == 1 ? "" : cat("_", i + 1);
      text += cat(",class", number, ",score", number);
    }
    for (int64_t i = 0; form_.top == 0 && i < width_; ++i)
      text += cat(",", csv_name(name_of_class(i)));
    text += "\n";
    return {};
  }
  void add_row(int64_t row, const std::vector<double>& scores, std::string& text) override {
    text += std::to_string(row);
    if (form_.top > 0) {
      for (const int64_t i : highest(scores, form_.top))
        text += cat(",", csv_name(name_of_class(i)), ",", number(scores[static_cast<size_t>(i)]));
    } else {
      for (const double score : scores) text += "," + number(score);
    }
    text += "\n";
  }
};

class JsonSink final : public RowSink {
 public:
  using RowSink::RowSink;

 private:
  void add_row(int64_t row, const std::vector<double>& scores, std::string& text) override {
    std::vector<std::string> items;
    if (form_.top > 0) {
      for (const int64_t i : highest(scores, form_.top))
        items.push_back(cat("{\"class\": ", json_class(i),
                            ", \"score\": ", json_number(scores[static_cast<size_t>(i)]), "}"));
    } else {
      for (const double score : scores) items.push_back(json_number(score));
    }
    text += cat("{\"row\": ", row, form_.top > 0 ? ", \"top\": [" : ", \"scores\": [",
                join(items, ", "), "]}\n");
  }
};

// The best class of each row, for people or as JSON.
class ClassSink final : public RowSink {
 public:
  ClassSink(PredictionForm form, TakeBytes take, bool json)
      : RowSink(std::move(form), std::move(take)), json_(json) {}

 private:
  bool needs_classes() const override { return true; }
  void add_row(int64_t row, const std::vector<double>& scores, std::string& text) override {
    const int64_t best = highest(scores, 1)[0];
    if (!json_) {
      text += name_of_class(best) + "\n";
      return;
    }
    text += cat("{\"row\": ", row, ", \"class\": ", json_class(best),
                ", \"score\": ", json_number(scores[static_cast<size_t>(best)]), "}\n");
  }

  const bool json_;
};

}  // namespace

std::unique_ptr<PredictionSink> make_prediction_sink(PredictionFormat format, PredictionForm form,
                                                     TakeBytes take) {
  switch (format) {
    case PredictionFormat::npy:
      return std::make_unique<NpySink>(std::move(form), std::move(take));
    case PredictionFormat::csv:
      return std::make_unique<CsvSink>(std::move(form), std::move(take));
    case PredictionFormat::jsonl:
      return std::make_unique<JsonSink>(std::move(form), std::move(take));
    case PredictionFormat::classes:
    case PredictionFormat::class_lines:
      break;
  }
  return std::make_unique<ClassSink>(std::move(form), std::move(take),
                                     format == PredictionFormat::class_lines);
}

}  // namespace leat

// The forms of predictions: files of .npy, .csv and .jsonl, and lines on stdout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/training/predict_data.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The content of each row. The elements of a row of the output count as the scores of its classes,
// whatever their shape is.
struct PredictionForm {
  bool softmax = false;                   // the scores become probabilities, along the last axis
  int64_t top = 0;                        // the classes with the highest scores; 0: all scores
  std::vector<std::string> classes = {};  // their names; empty: their numbers, from 0
  // Names that the run knows. They take the place of none if the rows have as many elements.
  std::vector<std::string> known_classes = {};
};

enum class PredictionFormat : uint8_t {
  npy,      // the array of all scores; with `top` refused
  csv,      // a line of names, then "row" and the scores, or "class" and "score" of each of the top
  jsonl,    // {"row": 0, "scores": [...]}, or {"row": 0, "top": [{"class": "cat", "score": 0.9}]}
  classes,  // the class with the highest score, the first one of equals
  // {"row": 0, "class": 3, "score": 0.9}
  class_lines,
};

// Formats predictions and passes the bytes to `take`. A score of f32 has the digits of a float.
// Errors are those of `take`; invalid_argument for rows without elements where classes are wanted,
// for another number of names than the rows have elements, for `top` beyond the number of classes,
// and for a softmax of integers; unimplemented for a type that .npy has not.
std::unique_ptr<PredictionSink> make_prediction_sink(PredictionFormat format, PredictionForm form,
                                                     TakeBytes take);

}  // namespace leat

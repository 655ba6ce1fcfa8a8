// The table of docs/differences.md: how far results are from those of PyTorch, torchmetrics and
// scikit-learn.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace leat {

// Adds a row to the file that LEAT_DIFFERENCES names; without it, nothing. `kind` is a column such
// as "optimizer".
inline void note_difference(const char* kind, const std::string& name, double difference) {
  const char* const path = std::getenv("LEAT_DIFFERENCES");
  if (path == nullptr) return;
  std::FILE* const file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "| %s | `%s` | %.1e |\n", kind, name.c_str(), difference);
  std::fclose(file);
}

}  // namespace leat

// The graph of a lasting session: as its client sent it, as a graph, and what its steps touch.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/lasting/session_log.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

// Threads: one at a time.
class SentGraph {
 public:
  // Makes the graph of a file.
  using Read = std::function<Result<Graph>(const LoggedGraph&)>;
  // The effects of a step beside computing.
  struct Touches {
    std::string state;   // the op of state that is in no variable; empty: it has none
    bool files = false;  // it reads a file, which may be another one when the step is repeated
  };

  explicit SentGraph(Read read) : read_(std::move(read)) {}

  uint64_t version() const { return sent_.version; }
  const LoggedGraph& sent() const { return sent_; }
  // Null if there is no graph yet.
  const Graph* graph() const { return graph_ ? &*graph_ : nullptr; }

  // The errors are those of the file; invalid_argument if a name of the graph of now means another
  // node or value too: steps that are repeated find theirs by name.
  Result<Graph> read(const LoggedGraph& sent) const;
  // Takes the graph over. REQUIRES: read() gave `graph`.
  void set(LoggedGraph sent, Graph graph);

  // Keeps what it has found of at most `most` signatures. invalid_argument if the graph has no such
  // step.
  Result<Touches> touches(const Signature& signature, size_t most);

 private:
  Status check_names(const Graph& next) const;
  Result<Touches> find_touches(const Signature& signature) const;

  const Read read_;
  LoggedGraph sent_;
  std::optional<Graph> graph_;
  std::map<std::string, Touches> touches_;  // by the names of the signature
};

}  // namespace leat

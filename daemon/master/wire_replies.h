// Answers of methods whose results are an Outcome. Includes Cap'n Proto: for .cc files.
#pragma once

#include <kj/async.h>

#include "devices/base/status.h"
#include "transport/rpc/call.h"

namespace leat {

// Fills the Outcome of `context`'s results with the error, or has `fill` do it.
template <typename T, typename Context, typename Fill>
kj::Promise<void> reply(kj::Promise<Result<T>> promise, Context context, Fill fill) {
  return promise.then([context, fill](Result<T>&& result) mutable {
    auto outcome = context.getResults().initOutcome();
    if (result.ok()) {
      fill(*result, outcome);
    } else {
      write_status(result.status(), outcome.initError());
    }
  });
}

template <typename Context>
kj::Promise<void> refuse(const Status& status, Context context) {
  write_status(status, context.getResults().initOutcome().initError());
  return kj::READY_NOW;
}

}  // namespace leat

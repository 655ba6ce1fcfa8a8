#include "daemon/doctor/finding.h"

namespace leat {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fine:
      return "ok";
    case Verdict::note:
      return "note";
    case Verdict::problem:
      break;
  }
  return "problem";
}

}  // namespace leat

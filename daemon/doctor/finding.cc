#include "daemon/doctor/finding.h"

namespace leat {

std::string_view name_of(FindingVerdict verdict) {
  switch (verdict) {
    case FindingVerdict::fine:
      return "ok";
    case FindingVerdict::note:
      return "note";
    case FindingVerdict::problem:
      break;
  }
  return "problem";
}

}  // namespace leat

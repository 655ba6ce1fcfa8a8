#include "daemon/wire/runner_pulse.h"

namespace leat {
namespace {

// Both functions fix the order of the bytes, which does not depend on the processor.
void put_number(uint64_t number, std::span<std::byte, 8> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(number >> (8 * i));
}

uint64_t get_number(std::span<const std::byte, 8> bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    number |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  return number;
}

}  // namespace

std::array<std::byte, kPulseBytes> write_pulse(const RunnerPulse& pulse) {
  std::array<std::byte, kPulseBytes> bytes{};
  const std::span<std::byte, kPulseBytes> out(bytes);
  put_number(pulse.turns, out.subspan<0, 8>());
  put_number(pulse.tiles, out.subspan<8, 8>());
  size_t at = 16;
  for (const LinkCounterField& field : kLinkCounterFields) {
    put_number(pulse.traffic.*field.value, out.subspan(at).first<8>());
    at += 8;
  }
  out[at] = static_cast<std::byte>(pulse.activity);
  return bytes;
}

std::optional<RunnerPulse> read_pulse(std::span<const std::byte, kPulseBytes> bytes) {
  const std::byte activity = bytes.back();
  // The byte becomes an enum below, so it has to be one of its values.
  if (activity > static_cast<std::byte>(RunnerActivity::waits_for_peers)) return std::nullopt;
  RunnerPulse pulse;
  pulse.turns = get_number(bytes.subspan<0, 8>());
  pulse.tiles = get_number(bytes.subspan<8, 8>());
  size_t at = 16;
  for (const LinkCounterField& field : kLinkCounterFields) {
    pulse.traffic.*field.value = get_number(bytes.subspan(at).first<8>());
    at += 8;
  }
  pulse.activity = static_cast<RunnerActivity>(activity);
  return pulse;
}

}  // namespace leat

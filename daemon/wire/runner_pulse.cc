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

// Calls visit(number) for each number of a pulse, in the order of the message.
template <typename Pulse, typename Visit>
void visit_numbers(Pulse& pulse, const Visit& visit) {
  visit(pulse.turns);
  visit(pulse.tiles);
  for (const LinkCounterField& field : kLinkCounterFields) visit(pulse.traffic.*field.value);
  for (auto* memory : {&pulse.host, &pulse.accelerators})
    for (const ReservedMemoryField& field : kReservedMemoryFields) visit(memory->*field.bytes);
  auto& fault = pulse.fault;
  for (auto* number : {&fault.number, &fault.action, &fault.is_of_worker, &fault.lasts_ms})
    visit(*number);
}

}  // namespace

std::array<std::byte, kPulseBytes> write_pulse(const RunnerPulse& pulse) {
  std::array<std::byte, kPulseBytes> bytes{};
  const std::span<std::byte, kPulseBytes> out(bytes);
  size_t at = 0;
  visit_numbers(pulse, [&](uint64_t number) {
    put_number(number, out.subspan(at).first<8>());
    at += 8;
  });
  out[at] = static_cast<std::byte>(pulse.activity);
  return bytes;
}

std::optional<RunnerPulse> read_pulse(std::span<const std::byte, kPulseBytes> bytes) {
  const std::byte activity = bytes.back();
  // The byte becomes an enum below, so it has to be one of its values.
  if (activity > static_cast<std::byte>(RunnerActivity::waits_for_peers)) return std::nullopt;
  RunnerPulse pulse;
  size_t at = 0;
  visit_numbers(pulse, [&](uint64_t& number) {
    number = get_number(bytes.subspan(at).first<8>());
    at += 8;
  });
  pulse.activity = static_cast<RunnerActivity>(activity);
  return pulse;
}

}  // namespace leat

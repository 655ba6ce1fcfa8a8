// A fake of NCCL for the emulated GPU: communicators of two ranks, in one process or in two of one
// machine, whose values travel over a socket. It knows the functions of devices/cuda/nccl.h.
//
// It is as unkind as NCCL allows. Nothing is done when a call returns: communicators and calls are
// in progress for as many looks as a seed draws, and the work of a call is in its stream only after
// that. A value is sent once the other rank wants it, and not before. Bytes that a rank has sent
// are lost if it aborts before they have left. A rank that is gone releases no stream:
// ncclCommAbort does.
//
// It behaves as its author believes that NCCL does. Only GPUs can tell whether that is so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fake_nccl {

// Forgets faults and what is hidden, and draws from `seed` on. REQUIRES: no communicator is in use.
void reset(uint64_t seed = 0);
// The machine has no such library from now on.
void hide();
// The version, as NCCL writes it: 22809 for 2.28.9.
void set_version(int version);
// The ranks that are made from now on never meet the other one.
void hang_init();
// The transfer number `nth` from now, counted from 1, never begins.
void hang_transfer(uint64_t nth);
// The communicator of the transfer number `nth` from now fails when its turn comes.
void fail_transfer(uint64_t nth);
// The same by a word, for programs: "init", "hang" or "error". False for others.
bool plant(std::string_view fault, uint64_t nth);

struct Counts {
  uint64_t transfers = 0;      // that were done
  uint64_t communicators = 0;  // that were not aborted
};
Counts counts();

}  // namespace fake_nccl

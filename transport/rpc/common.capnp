# What every interface of the control plane shares: how a method says that it failed, and how bytes
# too large for one message travel.
#
# A method that can fail answers in its results, never by a thrown exception: Cap'n Proto knows four
# kinds of exception, and none of them carries what the caller can do about it. Exceptions are left
# for what has no answer: the connection is gone, or the method does not exist.
#
# Nothing here is ever renumbered. A field or an enumerant that is no longer used keeps its number.

@0xd4c1b5e0a7f36b29;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("leat::wire");

struct Status {
  # Why a call failed: what the caller can do about it, and the sentence that says subject,
  # expectation, received.

  code @0 :Code;
  message @1 :Text;
  # At most 4 KiB are read of it.

  enum Code {
    ok @0;
    invalidArgument @1;
    failedPrecondition @2;
    unimplemented @3;
    resourceExhausted @4;
    unavailable @5;
    deadlineExceeded @6;
    cancelled @7;
    internal @8;
  }
}

struct Nothing {}

struct Outcome(T) {
  # The results of a method that can fail.

  union {
    ok @0 :T;
    error @1 :Status;
  }
}

interface Upload {
  # A blob on its way in. Whoever gave this capability was told its size and its SHA-256 before, and
  # refused a blob that was too large then. Dropping the capability gives the blob up.

  write @0 (offset :UInt64, bytes :Data) -> stream;
  # The next bytes, at most 1 MiB of them; `offset` is where they stand in the blob, and is always
  # the number of bytes written before. What is wrong with a write, finish() tells.

  finish @1 () -> (outcome :Outcome(Nothing));
  # All bytes are written: the blob is whole, its SHA-256 is the promised one, and it was taken.
}

interface Download {
  # A blob on its way out. Whoever gave this capability told its size and its SHA-256. It does not
  # change, so a read may be repeated.

  read @0 (offset :UInt64, size :UInt32) -> (outcome :Outcome(Data));
  # The bytes [offset, offset + size) of the blob, at most 1 MiB of them.
}

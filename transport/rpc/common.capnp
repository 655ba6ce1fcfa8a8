# The types that all interfaces of the control plane share: how a method reports an error, and how
# bytes that are too large for one message travel.
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
  # A blob on its way in. The end that made this capability was told the blob's size and SHA-256
  # before, and refused a blob that was too large. The sender abandons the blob by dropping the
  # capability.

  write @0 (offset :UInt64, bytes :Data) -> stream;
  # The next bytes, at most 1 MiB of them; `offset` is their place in the blob, which is always the
  # number of bytes written before. Errors of a write are reported by finish().

  finish @1 () -> (outcome :Outcome(Nothing));
  # The sender has written all bytes. Ok if the blob is whole, its SHA-256 is the promised one, and
  # the receiver has accepted it.
}

interface Download {
  # A blob on its way out. The end that made this capability told the blob's size and SHA-256. The
  # blob does not change, so a read may be repeated.

  read @0 (offset :UInt64, size :UInt32) -> (outcome :Outcome(Data));
  # The bytes [offset, offset + size) of the blob, at most 1 MiB of them.
}

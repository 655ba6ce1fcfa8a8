# A compiled plan on the wire: what a master sends to each runner, once, before the first step. This
# file is the document of the format.
#
# One Plan, in Cap'n Proto's canonical form (one segment, no segment table, no trailing zeros): equal
# plans are equal bytes, and the SHA-256 of the bytes is the plan's identity. Everything is linked by
# index. A message is 128 MiB at most; constants of more than 4096 bytes stand outside of it, as
# chunks of at most 1 MiB that are named by their own SHA-256, as those of a graph
# (ops/capnp/graph.capnp).
#
# A runner gets a plan that is reduced to what it executes: one partition with a body, and of the
# others the device. Partitions, edges, feeds and fetches keep their indices, which name them on every
# connection of the run.
#
# A reader trusts nothing. It refuses what breaks a limit of ops/graph/limits.h or a rule below, and before
# anything is executed it runs verify() of scheduler/plan/plan.h, which checks the rest: that every
# operand lies inside memory that is there, that it has the type which the op's own inference gives,
# that values that live at one time share no bytes, that every edge is sent, received and retired
# once a step. Afterwards the plan is executed unchecked.
#
# Numbers: sizes are elements, bytes are bytes, "id + 1, 0: none" leaves 0 for what is absent.

@0x920fde20843bef83;

using Cxx = import "/capnp/c++.capnp";
using Graph = import "/ops/capnp/graph.capnp";
$Cxx.namespace("leat::wire");

struct Plan {
  version @0 :UInt32;               # 1
  name @1 :Text;                    # "mnist/train": for people
  ops @2 :List(Text);               # "Conv", "leat.Read": those in use, ascending
  partitions @3 :List(Partition);   # 65536 at most; the index is the id
  edges @4 :List(Edge);             # 1000000 at most; the index is the id
  feeds @5 :List(Border);           # what the caller gives before a step, in its order
  fetches @6 :List(Border);         # what it gets after one
}

# One device's part of the plan.
struct Partition {
  device @0 :Text;                  # "job:worker/task:0/cpu:0"
  union {
    elsewhere @1 :Void;             # another runner has it
    body @2 :Body;
  }
}

struct Body {
  arenaBytes @0 :UInt64;            # memory that values share by lifetime; 2^48 at most
  values @1 :List(PlanValue);       # 4000000 at most; the index is the id that operands name
  # In the order in which they are issued, each step.
  instructions @2 :List(Instruction);  # 1000000 at most
  resources @3 :List(Resource);
  constants @4 :List(Graph.Tensor);
  feeds @5 :List(UInt32);           # by feed of the plan: value + 1, 0: not used here
  tf32 @6 :Bool;                    # products of float32 may round their factors to TF32
}

# A value that is computed, moved or known: an address in one device's memory.
struct PlanValue {
  kind @0 :UInt8;                   # 0 tensor, 2 resource, 3 token (order only: no bytes)
  dtype @1 :UInt8;                  # TensorProto.DataType of ONNX; 0: none
  dims @2 :List(Int64);             # sizes, 8 at most; 2^40 elements at most
  layout @3 :UInt8;                 # 0 row-major, 1 nChw16c, 2 NHWC
  # 0 none, 1 arena, 2 resource, 3 constant, 4 slot, 5 pages: memory of its own that a joined value
  # shows again, 6 joined: its pieces' bytes, seen as one.
  home @4 :UInt8;
  # Bytes, a multiple of 64: of the arena. Of a view that is not in the arena: from the value whose
  # bytes it shares; else 0.
  offset @5 :UInt64;
  index @6 :UInt32;                 # home resource, constant: its index; slot: the edge; else 0
  # Value + 1 whose bytes it shares, an earlier one that has no alias itself; 0: none. A view if no
  # instruction makes this value, which may be a range of it; else computed in place.
  alias @7 :UInt32;
  name @8 :Text;                    # for people
  # home joined, without alias: earlier values + 1, in slots or pages and of 2 MiB or more, all but
  # the last of whole pages of 4096 bytes.
  pieces @9 :List(UInt32);
}

struct Instruction {
  # 0 kernel: runs `op` on the inputs.
  # 1 send: pushes its input along `edge`.
  # 2 receive: waits for the step's value of `edge`; its output, if it has one, is in the slot.
  # 3 retire: gives the slot of `edge` back; its input is the value received.
  # 4 fetch: copies its input to fetch `edge`.
  kind @0 :UInt8;
  op @1 :UInt32;                    # kernel: index in Plan.ops + 1; else 0
  attrs @2 :List(Graph.Attr);       # ascending by name, each once; no regions: plans have none yet
  inputs @3 :List(UInt32);          # value + 1, 0: absent; 65536 at most
  outputs @4 :List(UInt32);         # the same
  name @5 :Text;                    # "conv2d_1": for messages
  source @6 :UInt32;                # node of the source graph, which keys random ops; 0xffffffff: none
  firstRow @7 :Int64;               # where its rows begin in the global tensor
  edge @8 :UInt32;                  # edge + 1; of a fetch, the fetch + 1; 0: none
  # Index of the chain's first instruction + 1, 0: none. The members of a chain stand side by side,
  # and run together, tile by tile of tileRows rows of dimension 0.
  chain @9 :UInt32;
  tileRows @10 :Int64;              # 0 without a chain
}

# State that outlives the step, found or made by its name in the job's table.
struct Resource {
  op @0 :UInt32;                    # index in Plan.ops
  attrs @1 :List(Graph.Attr);
  name @2 :Text;                    # for people; what names the state is the attribute
  bytes @3 :UInt64;                 # of a variable; 0 for others
}

# A value that crosses partitions: one slot for each step in flight in the receiver's memory.
struct Edge {
  from @0 :UInt32;                  # partition
  to @1 :UInt32;                    # another one
  bytes @2 :UInt64;                 # a step; 0: order only, or an empty tensor
  name @3 :Text;                    # for people; empty where neither end is here
}

struct Border {
  name @0 :Text;
  dtype @1 :UInt8;                  # TensorProto.DataType
  dims @2 :List(Int64);
  partition @3 :UInt32;             # of a fetch: the one that makes it; 0 of a feed
}

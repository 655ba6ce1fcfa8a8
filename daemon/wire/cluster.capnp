# The protocol of the control plane: the calls of clients, workers and runners to the master, and
# the messages between a worker and its runners. This file is its document. Tensors have another
# protocol (transport/links/frame.h); plans are bytes of scheduler/capnp/plan.capnp.
#
# Connections. Clients, workers and runners open connections to the master, and the master opens
# none, so only its address has to be known. A connection begins with the hello of
# transport/rpc/hello.h, which agrees on version, features, cluster and role. The role decides which
# interface the opener gets:
#
#   role client   Master    people: submit, watch, fetch
#   role worker   Registry  one connection for each life of a worker, and one after each restart of
#                           the master
#   role runner   Registry  the same for a runner
#   role worker   Heart     a separate port for heartbeats, with its own thread and socket
#
# Calls. The caller of a call sets a deadline: 10 s unless the call's comment names another one.
# Every call is answered in bounded time. Errors are values: Outcome(T) of
# transport/rpc/common.capnp. An exception means that the connection or the program broke. A call
# may be repeated: if its work was done already, the answer is the same as if it were done now.
#
# Ids and their lifetimes:
#
#   worker's name    from its configuration; unique among the workers that live
#   incarnation      random, of one life of a worker or of a runner; messages of an old one are
#                    refused. A worker keeps its incarnation when it registers with a restarted
#                    master
#   job              made by the master, which keeps it in its journal until it removes the job
#   assembly         counts the sets of runners of a job, from 1. A failure or a change of workers
#                    ends an assembly. Its runners may outlive it: the master moves kept runners to
#                    the next one (Worker.advance, Runner.advance); the others have ended before it
#                    begins
#   task             the place of a runner in its job, from 0: "job:worker/task:2/cpu:0". It may
#                    change with the assembly
#   run              made by the master, counts up within an assembly and ends with it
#   callable         of a session, made by the master, ends with the session
#
# Lost connections:
#
#   Client   It connects again and repeats its call; a submit that is repeated with its request id
#            is one job. The master keeps a session without a client for 30 s; it cancels the
#            session's steps in flight at once.
#   Worker   It keeps its runners for the time `adopt_within` of its configuration (1 min by
#            default) and registers again, with the same incarnation and a list of these runners
#            (WorkerInfo.runners). It kills them when that time is over, or when the master refuses
#            the incarnation because it counts that worker as lost. Then it registers with a new
#            one.
#   Runner   It continues up to its limit and looks for the master for RunnerBoot.rejoinMs; with 0
#            it ends at once. It registers again with its token, once its worker has registered. It
#            ends if its worker has ended, or if the master has refused it for 5 s.
#   Master   A restarted master waits a few seconds for the workers and runners of its jobs. The
#            jobs continue in new assemblies with the runners that came back; new runners replace
#            the others. A master that stops answers the calls that still wait with `cancelled`,
#            which callers treat as a lost connection.
#
# TCP does not notice a process that is stopped. Heartbeats do, after 2.5 s.

@0xb6d1a0d7f2c93e58;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("leat::wire");

using Rpc = import "/transport/rpc/common.capnp";
using Outcome = Rpc.Outcome;
using Nothing = Rpc.Nothing;

# --------------------------------------------------------------------------------------------------
# Clients.

interface Master {
  submit @0 (request :SubmitRequest) -> (outcome :Outcome(JobView));
  # When the outcome is ok, the job is in the journal and outlives the master. The same request id
  # with the same content is the same job; with other content it is refused.

  upload @1 (sha256 :Data, size :UInt64, user :Text) -> (outcome :Outcome(Rpc.Upload));
  # Uploads a file for a submit that names it by its SHA-256, 16 GiB at most. The master writes it
  # to disk as it arrives, and drops it if no byte has arrived for 60 s. The deadline of finish() is
  # 120 s; it fails if the disk is full, or if the file would pass a quota of the master. The master
  # removes a file that no job has named for an hour. `user`: as in SubmitRequest, for the quota of
  # one user; older clients leave it empty.

  jobs @2 () -> (outcome :Outcome(List(JobView)));
  # All jobs in the journal, oldest first; only the newest 1,000 if there are more.

  job @3 (id :Text) -> (outcome :Outcome(JobView));
  # Here and below, a prefix of only one id stands for that id. failed_precondition if there is no
  # such job.

  watch @4 (id :Text, seen :UInt64, waitMs :UInt32) -> (outcome :Outcome(JobView));
  # Answers when the job's version is greater than `seen`, or after waitMs (at most 30,000), with
  # the current view. The caller's deadline is 10 s beyond waitMs.

  cancel @5 (id :Text) -> (outcome :Outcome(JobView));
  # Ok when the journal has the request: the job is CANCELLED within 2 s. A job that has ended in
  # another way stays as it is (failed_precondition).

  logs @6 (id :Text, from :UInt64, waitMs :UInt32) -> (outcome :Outcome(LogPage));
  # Lines of the job's log from line `from` on, up to 256 KiB. With waitMs (at most 30,000) the call
  # waits for a line, unless the job has ended.

  files @7 (id :Text) -> (outcome :Outcome(List(FileInfo)));
  # The files in the job's folder, in the order of their names, which are relative to it.

  fetch @8 (id :Text, name :Text) -> (outcome :Outcome(File));
  # Deadline 120 s: the master hashes the file first.

  nodes @9 () -> (outcome :Outcome(List(NodeView)));

  cluster @10 () -> (outcome :Outcome(ClusterView));

  openSession @11 (request :SessionRequest) -> (outcome :Outcome(OpenedSession));
  # A session is a job: it waits in the queue for its workers, leases whole workers, and is shown
  # and cancelled like every job. Ok when the journal has it. The same request id with the same
  # content is the same session, on this connection or on another. failed_precondition if the
  # session has ended. A lasting session has one client: the last one that opened or attached to it;
  # that which opened it is known by its request id.

  drain @12 (worker :Text, undo :Bool) -> (outcome :Outcome(NodeView));
  # From now on the worker gets no job, and its current job leaves it at a fence; with `undo`, it
  # gets jobs again. Ok when the journal has the request, which applies to every later process of
  # that name. failed_precondition if there is no such worker. nodes() shows the progress.

  remove @13 (id :Text) -> (outcome :Outcome(JobView));
  # Deletes a job that has ended, with its files and its log; the answer is its last view. Ok when
  # the journal and the disk no longer have it. failed_precondition if it has not ended.

  save @14 (id :Text) -> (outcome :Outcome(JobView));
  # The job writes a checkpoint after its next step, and goes on. Ok when its training was told;
  # JobView.progress.checkpointStep shows that it is on the disk. A repeated call may write another
  # one. failed_precondition if the job is not RUNNING, or is a session.

  why @15 (id :Text) -> (outcome :Outcome(Diagnosis));
  # The reason why the job does not go on, or goes on. The master asks the job's workers and runners,
  # for 1.2 s at most; one that does not answer is a part of the reason. Deadline 3 s.

  record @16 (id :Text, steps :UInt32, waitMs :UInt32) -> (outcome :Outcome(Blob));
  # Records what all devices of the job do in its next `steps` steps (1 to 1,000), and answers with
  # a file of daemon/wire/recording.capnp, whose partitions have the times of the master's clock.
  # Waits for the steps for waitMs (at most 60,000), and answers with those that were done; the
  # caller's deadline is 30 s beyond waitMs. failed_precondition unless the job trains;
  # deadline_exceeded if no step was done.

  pause @17 (id :Text, undo :Bool) -> (outcome :Outcome(JobView));
  # The job comes to a fence, writes a checkpoint and leaves its workers: PAUSING, then PAUSED. One
  # that is starting or recovering leaves them at once, and a QUEUED job is PAUSED at once. With
  # `undo`, it is QUEUED again and continues from its checkpoint. Ok when the journal has the
  # request; a job that is so already is no error. failed_precondition
  # if the job has ended, or is a session.

  createToken @18 (role :Text, name :Text, seconds :UInt64) -> (outcome :Outcome(Token));
  # A token of this role for a person or a worker, which expires after so many seconds; 0: never.
  # Admins alone. Ok when the master's disk has it.

  revokeToken @19 (number :UInt64) -> (outcome :Outcome(TokenView));
  # Refuses the token from now on, and ends its connections. Admins alone. Ok when the master's disk
  # has it.

  tokens @20 () -> (outcome :Outcome(List(TokenView)));
  # All tokens that are good, or were within 30 days, the oldest first. Admins alone.

  attachSession @21 (job :Text, client :Text) -> (outcome :Outcome(OpenedSession));
  # A lasting session by its id, for its owner and operators. `client`: made by the client, 1 to 64
  # bytes, and the same when it connects again. The client that had the session before is refused
  # from now on, on all its connections. unavailable while the session waits for its first workers
  # after a restart of the master; failed_precondition if it has ended, is no lasting session, or was
  # taken over from this client.
}

struct TokenView {
  role @0 :Text;                  # "viewer", "submitter", "operator", "admin", "worker"
  name @1 :Text;
  number @2 :UInt64;
  expires @3 :Int64;              # seconds since 1970; 0: never
  createdMs @4 :Int64;            # milliseconds since 1970
  revokedMs @5 :Int64;            # 0: it was not
  by @6 :Text;                    # the admin who made it
  secret @7 :UInt8;               # of its key, as daemon/jobs/token_view.h numbers it: 0 not known,
                                  # 1 the master's, 2 the one before, 3 one that it accepts no more
}

struct Token {
  view @0 :TokenView;
  text @1 :Text;                  # with its key: the content of a secret file
}

struct Diagnosis {
  # As Diagnosis of daemon/traces/diagnosis.h, which explains the fields.
  kind @0 :Text;
  subject @1 :Text;
  sentence @2 :Text;
  chain @3 :List(Text);
  seconds @4 :Float64;            # negative: unknown
  advice @5 :Text;
}

struct SubmitRequest {
  requestId @0 :Text;             # made by the client, 1 to 64 bytes
  job @1 :Text;                   # the job file; relative names in it are names in `files`
  files @2 :List(AttachedFile);   # the files that the job names: graph, weights. At most 16, and
                                  # those of a checkpoint (resume/checkpoints/...) with at most
                                  # 4,096 parts
  overrides @3 :List(Text);       # "steps=100", in the form of --set
  chaos @4 :List(Text);           # "kill=worker:1@step=700": daemon/spec/chaos_fault.h. Refused
                                  # unless the master's configuration allows it
  resume @5 :Text;                # the id of a job of this cluster, or a prefix of only its id. The
                                  # new job continues from that job's newest valid checkpoint, with
                                  # its metrics; the master makes them files of the new job, and
                                  # `files` has none of resume/. The deadline is 130 s: the master
                                  # hashes the checkpoint. failed_precondition if no checkpoint is
                                  # valid. A repeated request keeps the checkpoint that the first
                                  # one chose
  user @6 :Text;                  # the name of the user who submits, at most 64 bytes
  paused @7 :Bool;                # the job begins as PAUSED
}

struct AttachedFile {
  name @0 :Text;                  # the name in the job file; relative, no ".."
  union {
    bytes @1 :Data;               # at most 1 MiB
    blob :group {                 # uploaded before the submit
      sha256 @2 :Data;
      size @3 :UInt64;
    }
  }
}

# --------------------------------------------------------------------------------------------------
# Sessions. docs/session.md explains their steps, and how steps see each other's writes.

interface Session {
  # A session ends with close(), with its job, or when no client has held this capability for 30 s:
  # then its job is CANCELLED. Calls before the job is RUNNING wait for that. After the end all
  # calls fail with the cause. The deadline is 30 s unless a comment names another one. If the
  # caller of a call ends or loses its connection, the master cancels a step; any other call may
  # have been done or not.

  stage @0 (number :UInt64, size :UInt64, sha256 :Data) -> (outcome :Outcome(Rpc.Upload));
  # Uploads bytes that are too many for the message of a later call on this connection. The later
  # call names them by the caller's number, once. 256 MiB each; resource_exhausted if a session
  # would hold more than 1 GiB for its clients. The deadline of an upload is 90 s.

  extend @1 (version :UInt64, graph :Content, inputIds :List(UInt32))
      -> (outcome :Outcome(GraphVersion));
  # `graph` is a file of ops/capnp/graph.capnp. In the file, the graph's inputs precede all other
  # values; inputIds are the ids that they had among the values, so that an input may be appended
  # later, too. The caller may repeat the call only while the session's version is not greater than
  # `version`.

  makeCallable @2 (signature :Signature) -> (outcome :Outcome(Callable));
  releaseCallable @3 (callable :UInt64) -> (outcome :Outcome(Nothing));

  run @4 (step :StepRequest) -> (outcome :Outcome(StepResult));
  # Answers when the step is over; the deadline is 30 s beyond the step's timeout. Any number of
  # steps may be in flight, and they overtake each other. The caller never repeats the call: a step
  # whose answer was lost may have run.

  cancel @5 (number :UInt64) -> (outcome :Outcome(Nothing));
  # Ends the step that this connection started under that number with `cancelled`. Ok also if there
  # is no such step, or if it has ended.

  close @6 () -> (outcome :Outcome(Nothing));
  # Cancels the steps in flight. Ok when no step is being computed: the job has SUCCEEDED then.

  # The next three are for lasting sessions; others answer failed_precondition. outcome() and save()
  # have no deadline of the master: they wait for workers, as run() does.

  state @7 () -> (outcome :Outcome(SessionState));
  # Answers when the calls before it are done, and the session has its workers.

  outcome @8 (number :UInt64) -> (outcome :Outcome(StepResult));
  # The outcome of a step, as run() answers it. failed_precondition if the session has not taken the
  # step, or if a later step said that its client has the outcome.

  save @9 () -> (outcome :Outcome(Nothing));
  # Saves the variables now. Ok when they are on the master's disk.
}

struct SessionRequest {
  requestId @0 :Text;             # made by the client, 1 to 64 bytes
  name @1 :Text;                  # of its job; messages show it
  numWorkers @2 :UInt32;          # number of whole workers to lease
  strategy @3 :Text;
  shards @4 :UInt32;
  seed @5 :UInt64;
  plans @6 :UInt32;               # number of plans to keep
  timeoutMs @7 :UInt32;           # of a step that has no timeout
  gpus @8 :UInt32;                # 0 or 1: GPUs of each worker, which its nodes may run on
  saveEvery @9 :UInt32;           # a lasting session saves its variables after so many steps; 0: it
                                  # is none
  keepMs @10 :UInt64;             # a lasting session ends when it had no client for so long
}

struct OpenedSession {
  job @0 :Text;
  session @1 :Session;
}

struct Content {
  union {
    bytes @0 :Data;               # at most 256 KiB in a call, for all together
    staged @1 :UInt64;
  }
}

struct GraphVersion {
  version @0 :UInt64;
}

struct Signature {
  feeds @0 :List(Text);
  fetches @1 :List(Text);
  targets @2 :List(Text);
  isolated @3 :Bool;
}

struct Callable {
  id @0 :UInt64;
}

struct StepRequest {
  number @0 :UInt64;              # for cancel(); the caller chooses it
  union {
    signature @1 :Signature;
    callable @2 :UInt64;
  }
  feeds @3 :List(FedValue);       # in the signature's order
  timeoutMs @4 :UInt32;           # 0: the session's
  answered @5 :UInt64;            # of a lasting session: its client has the outcomes up to this step,
                                  # which comes before this one
}

struct TensorType {
  dtype @0 :Text;                 # "float"
  dims @1 :List(Int64);
}

struct FedValue {
  type @0 :TensorType;
  content @1 :Content;            # row-major, little-endian; a bool is a byte 0 or 1
}

struct StepResult {
  fetches @0 :List(FetchedValue);
}

struct LoggedOutcome {
  # Of a step of a lasting session, in the record on the master's disk; fetches are bytes.
  union {
    fetches @0 :List(FetchedValue);
    error @1 :Rpc.Status;
  }
}

struct SessionState {
  steps @0 :UInt64;               # the number of the last step that the session has taken
  version @1 :UInt64;             # of its graph
}

struct FetchedValue {
  type @0 :TensorType;
  union {
    bytes @1 :Data;               # at most 256 KiB in an answer, for all together
    blob @2 :Blob;
  }
}

# --------------------------------------------------------------------------------------------------
# Views.

struct JobView {
  # The names of its fields, and of those in the structs below it, follow from
  # daemon/jobs/job_facts.h.
  id @0 :Text;
  name @1 :Text;
  state @2 :Text;                 # QUEUED STARTING RUNNING RECOVERING CANCELLING SUCCEEDED FAILED
                                  # CANCELLED PAUSING PAUSED
  reason @3 :Text;                # of the state, for people
  sinceMs @4 :Int64;              # the beginning of the state, in milliseconds of Unix time, like
                                  # all dates
  submittedMs @5 :Int64;
  restarts @6 :UInt32;
  assemblies @7 :UInt64;          # the number of assemblies so far
  version @8 :UInt64;             # rises with every change of this view
  numWorkers @9 :UInt32;
  workers @10 :List(Text);        # nodes of the last assembly
  weightsSha256 @11 :Text;        # if the job succeeded
  progress @12 :Progress;
  number @13 :UInt64;             # counts the jobs of the cluster, from 1
  shards @14 :UInt64;             # with seed and cpu, the facts on which the weights depend; 0:
                                  # unknown
  seed @15 :UInt64;
  cpu @16 :Text;                  # the model of the workers' processors
  history @17 :List(LostAssembly);   # the last 100, ascending; empty in a list of jobs
  lostAssemblies @18 :UInt64;         # number of all lost assemblies
  minWorkers @19 :UInt32;         # the least number of workers; 0: numWorkers
  dependsOnTiming @20 :Bool;      # the weights also depend on timing
  queuedMs @21 :Int64;            # until its first runners were there
  runningMs @22 :Int64;           # with all of its runners
  recoveringMs @23 :Int64;        # after a failure, until all runners were there again
  precision @24 :Text = "float32";   # that the steps computed in, which the weights depend on, too
  priority @25 :Int64;            # a higher one goes first in the queue
  user @26 :Text;                 # who submitted it; "": not known
  position @27 :UInt32;           # in the queue, from 1; 0: it does not wait there
  maxRunTimeMs @28 :Int64 = -1;   # the longest time with workers; -1: no limit
  preemptible @29 :Bool;          # a job of a higher priority may take its workers
  cores @30 :UInt32;              # of each worker that it uses; 0: the whole worker
  memoryBytes @31 :UInt64;        # the same
}

struct LostAssembly {
  # An assembly of a job that ended by a failure. Times are in milliseconds; an unknown one is -1.
  number @0 :UInt64;              # counts the lost assemblies of the job, from 1
  assembly @1 :UInt64;
  cause @2 :Text;
  culprit @3 :Text;               # a worker's name; may be empty
  fault @4 :Text;                 # the entry of --chaos that caused it; may be empty
  beganMs @5 :Int64;              # Unix time, like failedMs
  failedMs @6 :Int64;             # the time of the detection
  detectionMs @7 :Int64;          # since the culprit's last sign of life, or since the fault fired
  recoveryMs @8 :Int64;           # from the detection to the first step of a later assembly
  stoppedAt @9 :Int64;            # steps of the job that were done
  wentOnFrom @10 :Int64;          # steps that were done when the next assembly began
  source @11 :Text;               # "start", "checkpoint", "memory"
}

struct Progress {
  # The progress of a job at its last report. Numbers are NaN before the first report.
  step @0 :UInt64;                # steps that are done
  steps @1 :UInt64;               # of the job; 0: unknown
  epoch @2 :UInt32;
  epochs @3 :UInt32;
  samplesPerStep @4 :UInt64;
  loss @5 :Float64;               # mean over the steps of `epoch` that are done, like accuracy. A
                                  # computed NaN has other bits than an unknown number:
                                  # daemon/metrics/epoch_result.h
  accuracy @6 :Float64;
  valLoss @7 :Float64;            # of the last validation
  valAccuracy @8 :Float64;
  stepsPerSecond @9 :Float64;
  samplesPerSecond @10 :Float64;
  etaSeconds @11 :Float64;
  rowsPerEpoch @12 :UInt64;       # rows of data in an epoch; 0: unknown
  rowsPerStep @13 :UInt64;        # rows of data in a step; 0: unknown. A step may have rows of two
                                  # epochs: an epoch ends with the step that takes its last row
  results @14 :List(EpochResult); # the last 100 epochs that have ended, ascending; empty in a list
                                  # of jobs
  metricsMissingRows @15 :UInt64; # rows that metrics.jsonl has lost
  metricsChangedUntil @16 :UInt64;  # some rows up to that step are not as written; 0: none
  stepsSkipped @17 :UInt64;       # of the steps that are done
  validatedStep @18 :UInt64;      # of the last validation that has a row of its own; 0: none
  checkpointStep @19 :UInt64;     # of the newest checkpoint of these runners; 0: none
  metrics @20 :List(NamedNumber); # of the last epoch that has ended, as in EpochResult
  inputWaitSeconds @21 :List(NamedNumber);  # of each worker of the assembly, by its name: the time
                                  # for which steps waited for rows of the data
  audits @22 :List(NamedNumber);  # of a job with audits: "steps", "pairs" of a step and a shard, and
                                  # "differences"
  readAheadSteps @23 :List(NamedNumber);  # of each worker, as inputWaitSeconds: how many steps ahead
                                          # it asks for rows of the data now
}

struct EpochResult {
  epoch @0 :UInt32;
  step @1 :UInt64;                # steps of the job that are done
  loss @2 :Float64;               # mean over its steps, like accuracy
  accuracy @3 :Float64;
  valLoss @4 :Float64;            # of the validation after the epoch
  valAccuracy @5 :Float64;
  seconds @6 :Float64;            # the time of its training
  samplesPerSecond @7 :Float64;
  metrics @8 :List(NamedNumber);  # the job's other metrics
}

struct NamedNumber {
  name @0 :Text;                  # as in metrics.jsonl: "val_f1"
  value @1 :Float64;
}

struct LogPage {
  # The lines of a job have numbers from 0; old ones may have been dropped.
  first @0 :UInt64;               # the number of lines[0], or of the next line if there is none
  lines @1 :List(LogLine);
  end @2 :UInt64;                 # one more than the number of the newest line
  complete @3 :Bool;              # the job has ended: there will be no line after `end`
}

struct LogLine {
  atMs @0 :Int64;
  worker @1 :Text;
  text @2 :Text;                  # without the newline; may contain any bytes
}

struct FileInfo {
  name @0 :Text;
  size @1 :UInt64;
}

struct File {
  size @0 :UInt64;
  sha256 @1 :Data;
  content @2 :Rpc.Download;
}

struct NodeView {
  name @0 :Text;
  incarnation @1 :UInt64;
  address @2 :Text;               # of its data port
  state @3 :Text;                 # READY DRAINING STUCK LOST
  reason @4 :Text;
  sinceMs @5 :Int64;
  silentMs @6 :UInt64;            # since its last sign of life
  devices @7 :List(DeviceInfo);
  datasets @8 :List(Text);
  job @9 :Text;                   # the job that leases it; may be empty
  version @10 :Text;
  progress @11 :UInt64;           # as in Heart.beat, like traffic
  traffic @12 :Traffic;
  machine @13 :Text;              # as in WorkerInfo
  usage @14 :Usage;               # as in Heart.beat
  waiting @15 :Float64 = nan;     # the share of the last seconds in which its runners only waited for
                                  # those of other workers; nan: no step is in flight
  jobs @16 :List(Text);           # all jobs that lease it, if they share it; `job` is the first
  stepSeconds @17 :Float64 = nan; # the time of a step of its runners, a moving average; nan: no step
                                  # is in flight
}

struct Usage {
  # The use of a worker's process and of all its runners together.
  cpuMs @0 :UInt64;               # CPU time since the worker started; it only rises
  residentBytes @1 :UInt64;
  host @2 :Reserved;              # what its runners have reserved in the machine's memory,
  accelerators @3 :Reserved;      # and in that of its other devices
}

struct Reserved {
  # Memory of runners by what it is for, in bytes.
  variables @0 :UInt64;           # parameters, and the state of optimizers
  activations @1 :UInt64;
  constants @2 :UInt64;
  transfers @3 :UInt64;           # slots for values of other devices
  fetches @4 :UInt64;             # values that the master reads
  data @5 :UInt64;                # data sets
}

struct Traffic {
  # The bytes and values that runners have exchanged over their links. The numbers only rise.
  framesSent @0 :UInt64;          # over shared memory, each ring of the bell counts as one
  framesReceived @1 :UInt64;
  bytesSent @2 :UInt64;           # headers included
  bytesReceived @3 :UInt64;
  valuesSent @4 :UInt64;          # tensors and tokens
  valuesReceived @5 :UInt64;
  lateValues @6 :UInt64;          # received for a turn that was already closed, and dropped
  bytesByWire @7 :UInt64;         # of bytesSent, those that went from GPU to GPU
}

struct DeviceInfo {
  kind @0 :Text;                  # of its kernels: "cpu", "cuda"
  name @1 :Text;                  # "cpu:0", "gpu:0"
  memoryBytes @2 :UInt64;
  threads @3 :UInt32;             # of compute; 0 for a GPU
  description @4 :Text;           # the model of the processor or GPU
}

struct ClusterView {
  name @0 :Text;
  version @1 :Text;
  startedMs @2 :Int64;
  generation @3 :UInt64;          # counts the master's lives
  membership @4 :UInt64;          # counts the changes of the set of workers
  address @5 :Text;
  httpAddress @6 :Text;
  clusterId @7 :Text;
  nowMs @8 :Int64;                # the master's clock
  journal @9 :Rpc.Status;         # the error of its last write; code ok if it succeeded
}

# --------------------------------------------------------------------------------------------------
# Workers.

interface Registry {
  registerWorker @0 (info :WorkerInfo, worker :Worker) -> (outcome :Outcome(Registered));
  # Role worker: the first call on a connection, and made once. failed_precondition in two cases.
  # Another worker with that name lives: the caller tries again, and succeeds once the other one's
  # connection has closed or its heartbeats have stopped. Or the master counts this incarnation as
  # lost: the caller draws a new one.

  registerRunner @1 (info :RunnerInfo, runner :Runner) -> (outcome :Outcome(Nothing));
  # Role runner: the first call on a connection, and made once: within 10 s of Worker.start, and
  # again after the master has restarted. failed_precondition if the master does not expect the
  # runner, which then ends; after a restart it first tries again for 5 s, since its worker may not
  # have registered.

  report @2 (reports :List(RunReport)) -> (outcome :Outcome(Nothing));
  # Role runner: the news of its runs since the last report. One report is in flight at a time;
  # later news are in the next one.

  runnerExited @3 (job :Text, assembly :UInt64, how :Text, crashed :Bool) -> (outcome :Outcome(Nothing));
  # Role worker: the process has ended ("was killed by signal 9", "exited with status 1"). crashed:
  # it ran out of memory, or ended by a signal that a program's own error causes, such as SIGSEGV.
  # If the same crash repeats, the job fails.

  log @4 (job :Text, assembly :UInt64, lines :List(Text)) -> (outcome :Outcome(Nothing));
  # Role worker: lines that the runner wrote, at most 64 KiB in a call.

  chaos @5 (assembly :UInt64, index :UInt32, fault :Text) -> (outcome :Outcome(Nothing));
  # Role runner: a fault that arm() gave it is due. Ok when the journal has it: the runner then
  # injects it. failed_precondition if this fault was injected before.

  linkFailed @6 (assembly :UInt64, peer :Text, fault :LinkFault, how :Text) -> (outcome :Outcome(Nothing));
  # Role runner: its link to the runner on that node failed by itself, or could not be opened. The
  # call comes before the failure of the run. The master uses it to decide which worker leaves the
  # job, if one has to.

  drain @7 () -> (outcome :Outcome(Nothing));
  # Role worker: the worker is about to end, and its job must leave it: like Master.drain, but only
  # for this life of the worker. The master stops its runner when the job has left.

  inputStarved @8 (assembly :UInt64, how :Text, waitedMs :UInt64) -> (outcome :Outcome(Nothing));
  # Role runner: its run reads files of its machine, but the reads do not finish. The call comes
  # before the failure of the run. The runner's worker leaves the job.

  saveFile @9 (path :Text, size :UInt64, sha256 :Data, assembly :UInt64)
      -> (outcome :Outcome(Rpc.Upload));
  # Role runner: replaces a file that the job's graph saves (leat.Save), as a whole: it is on disk
  # when the upload's finish() is ok. The path is relative to the folder "saved" of the job's folder,
  # and does not lead out of it. 16 GiB at most; the deadline is 120 s. `assembly`: that of the step
  # which saves. failed_precondition, also of finish(), if the runner is in it no longer: the step may
  # come again, and must not find what it has saved.

  savedFile @10 (path :Text) -> (outcome :Outcome(SavedFile));
  # Role runner: such a file, for leat.Restore. Deadline 120 s: the master hashes the file first.

  deviceFailed @11 (assembly :UInt64, how :Text) -> (outcome :Outcome(Nothing));
  # Role runner: its GPU has failed ("gpu:0: computing: cudaEventRecord: ..."), so that its process is
  # about to end: exit status 6. The master gives the reason with that end.
}

enum LinkFault {
  none @0;
  closed @1;    # the peer closed it without a reason
  lost @2;      # no bytes arrived in time
  damaged @3;   # the bytes that arrived are not those that were sent
}

struct WorkerInfo {
  name @0 :Text;
  incarnation @1 :UInt64;
  dataAddress @2 :Text;           # the address of its data port for others: "10.0.0.2:17463"
  machine @3 :Text;               # the kernel's boot id and namespaces: processes with the same
                                  # value can share memory
  devices @4 :List(DeviceInfo);
  datasets @5 :List(Text);        # names that jobs may use as data.root
  version @6 :Text;
  runners @7 :List(HeldRunner);   # the runners that outlived the connection to the last master
}

struct HeldRunner {
  job @0 :Text;
  assembly @1 :UInt64;
  task @2 :UInt32;
  token @3 :Data;                 # the token with which it registers
}

struct Registered {
  clusterId @0 :Text;             # 32 hexadecimal digits
  generation @1 :UInt64;
  heartAddress @2 :Text;          # the address of Heart; a port alone, ":4711", is at the master's
                                  # host
  heartbeatMs @3 :UInt32;
}

interface Heart {
  beat @0 (name :Text, incarnation :UInt64, sequence :UInt64, progress :UInt64, stepping :Bool,
           waits :Bool, quiet :Bool, work :UInt64, traffic :Traffic, usage :Usage)
      -> (outcome :Outcome(Nothing));
  # A worker's heartbeat, every heartbeatMs. `progress` rises with every step of its runners.
  # `stepping`: a runner has a step in flight. `waits`: all runners that have one wait for peers.
  # `work` changes while a runner computes, also within a step. `quiet`: a runner has sent no pulse
  # for half a second. `traffic`: of all its runners since it started. `usage`: of itself and all its
  # runners. failed_precondition: that incarnation is not, or no longer, a member of the cluster; the
  # worker kills its runners and registers with a new one. Deadline 1 s; one call is in flight.
}

interface Worker {
  start @0 (spec :RunnerSpec) -> (outcome :Outcome(Nothing));
  # Starts the process of a job's runner. Ok when the process runs; the runner registers itself.

  stop @1 (job :Text, assembly :UInt64, graceMs :UInt32) -> (outcome :Outcome(Nothing));
  # Asks the runner to end, and kills it after graceMs. Ok when the runner has ended and its
  # directory and sockets are removed; also if there is no such runner.

  advance @2 (spec :RunnerSpec) -> (outcome :Outcome(Nothing));
  # Moves the job's runner on this worker from an earlier assembly to spec.assembly. Peers then
  # reach it, and stop() stops it, by the new assembly and key. It gets the task of the spec, and
  # keeps its threads. failed_precondition if there is no such runner. The master calls it before
  # Runner.advance.

  look @3 (job :Text, assembly :UInt64) -> (outcome :Outcome(ProcessView));
  # The process of the job's runner, as the worker's system sees it; also of a runner that does not
  # answer. failed_precondition if there is none.
}

struct ProcessView {
  pid @0 :UInt32;
  state @1 :Text;                 # one letter of /proc/PID/stat: "S", "R", "D", "T"
  quietMs @2 :UInt64;             # since its last pulse
  ending @3 :Bool;                # it was asked to end, or was killed
}

struct RunnerSpec {
  job @0 :Text;
  assembly @1 :UInt64;
  task @2 :UInt32;
  threads @3 :UInt32;             # of compute; 0: the worker's
  token @4 :Data;                 # 32 random bytes, which the runner shows when it registers
  key @5 :Data;                   # 32 random bytes of the assembly: its runners prove to each other
                                  # that they know the key
  gpus @6 :UInt32;                # GPUs of the worker that the runner opens
  memory @7 :UInt64;              # bytes that it may use, at most those of the worker's own limit; 0:
                                  # that limit
  credential @8 :Text;            # proves to the master that the runner is one of this job; empty in a
                                  # cluster without a secret
  chaos @9 :Bool;                 # its faults may be of the worker, too
}

# --------------------------------------------------------------------------------------------------
# Runners. For each partition of a run, the master calls prepare and uploads the plan; then connect,
# on all partitions at once; extend, whenever it allows more steps; and release. The runner reports
# meanwhile. abort may come at any time. A runner has a partition for each of its devices that the
# plan uses, so `run` and `partition` together say which one a call is for.

struct RunnerInfo {
  job @0 :Text;
  assembly @1 :UInt64;
  task @2 :UInt32;
  token @3 :Data;
  incarnation @4 :UInt64;         # RunnerBoot.incarnation
  deviceName @5 :Text;            # "job:worker/task:2/cpu:0"
  memoryBytes @6 :UInt64;
  threads @7 :UInt32;
  unixAddress @8 :Text;           # the address for peers on its machine: "unix:/run/..."
  accelerators @9 :List(RunnerDevice);  # that plans may use besides the CPU
}

struct RunnerDevice {
  name @0 :Text;                  # the last part of its full name: "gpu:0"
  kind @1 :Text;                  # of its kernels: "cuda"
  memoryBytes @2 :UInt64;
  alignment @3 :UInt64;           # of values in its memory, in bytes
  description @4 :Text;           # its model and libraries, on which the weights depend
  wires @5 :List(Text);           # the kinds of wires that it has and may use: "ipc", "nccl"
}

interface Runner {
  prepare @0 (run :UInt64, partition :UInt32, planSize :UInt64, planSha256 :Data)
      -> (outcome :Outcome(Rpc.Upload));
  # The plan follows as a blob: encode_plan_for() of scheduler/capnp/plan_file.h, its message and
  # its chunks each preceded by a length (8 bytes, little-endian). When the upload's finish() is ok,
  # the runner has checked the partition, it fits the device, and peers can dial it.

  connect @1 (run :UInt64, setup :RunSetup, partition :UInt32) -> (outcome :Outcome(Nothing));
  # Opens the links to its peers, makes the kernels, binds operands. Ok when the partition can step.
  # Deadline 30 s.

  extend @2 (run :UInt64, limit :UInt64, feeds :List(Feed), partition :UInt32)
      -> (outcome :Outcome(Nothing));
  # Gives the feeds their values, then allows the steps below `limit`. With feeds, all allowed steps
  # must be finished. At most 256 KiB of feeds; call feed() before for larger ones.

  feed @3 (run :UInt64, index :UInt32, size :UInt64, sha256 :Data, partition :UInt32)
      -> (outcome :Outcome(Rpc.Upload));
  # A feed's value, of any size, in row-major order, dtype and shape as in the plan.

  renumber @4 (run :UInt64, step :UInt64, partition :UInt32) -> (outcome :Outcome(Nothing));
  # Gives the next step the number `step`. All allowed steps must be finished.

  abort @5 (run :UInt64, cause :Rpc.Status, partition :UInt32) -> (outcome :Outcome(Nothing));
  # Ends the run: every wait of the run ends with the cause. Only the first cause counts.

  release @6 (run :UInt64, partition :UInt32) -> (outcome :Outcome(Nothing));
  # Ok when nothing of the run is being computed and its memory is free, except for the job's
  # variables.

  describe @7 (run :UInt64, partition :UInt32) -> (outcome :Outcome(RunState));

  readVariables @8 () -> (outcome :Outcome(Blob));
  # A safetensors file of the job's variables between two steps. Deadline 60 s.

  writeVariables @9 (size :UInt64, sha256 :Data, restore :Restore, step :OptionalNumber)
      -> (outcome :Outcome(Rpc.Upload));
  # A safetensors file. step: the values are those after so many steps; none: of no particular step.
  # Deadline 60 s.

  inspectDataset @10 (files :DatasetFiles, check :ClassCheck) -> (outcome :Outcome(DatasetView));
  # Reads the data set's headers, makes a fingerprint of each file and, with classes > 0, checks
  # that all labels are in [0, classes). Deadline 60 s.

  advance @11 (assembly :UInt64, key :Data, task :UInt32) -> (outcome :Outcome(Nothing));
  # Moves the runner to this assembly and task, with the job's variables as they are. The master
  # releases its runs before; the runner aborts and releases all that remain. Deadline 10 s.

  held @12 () -> (outcome :Outcome(Held));
  # The steps that are in the job's variables on this runner. REQUIRES: no run steps.

  arm @13 (faults :List(ArmedFault), ranMs :UInt64) -> (outcome :Outcome(Nothing));
  # Replaces the list of faults that the runner injects into itself or its worker. The job has run
  # for ranMs. The master calls it before it connects the run that trains, and whenever a fault is
  # due. A fault that was injected already is not injected again.

  takeSnapshot @14 (step :UInt64, names :List(Text), run :OptionalNumber, partition :UInt32)
      -> (outcome :Outcome(Nothing));
  # Copies the job's variables `names` after `step` steps. Ok when the next step may begin. The
  # runner keeps the copy until the next call. Deadline 60 s. With a run, the run makes the copy
  # between two steps, when it has done the steps below `step`: the call is ok at once, or
  # failed_precondition if the run is already beyond that. When the runner reports that turn, the
  # copy is made.

  readSnapshot @15 (step :UInt64) -> (outcome :Outcome(Blob));
  # The copy that takeSnapshot made at this step, in the format of a checkpoint's part. Deadline 300
  # s.

  writeSnapshot @16 (step :UInt64, folder :Text, part :UInt32, parts :UInt32)
      -> (outcome :Outcome(WrittenPart));
  # Writes that part, synced, to a folder of the master, whose random name proves that both see the
  # same disk. failed_precondition: the runner does not see the folder, or may not write there.
  # Deadline 300 s.

  hold @17 (run :UInt64, partition :UInt32) -> (outcome :Outcome(Limit));
  # The run drops the permission for all steps after the current one, and answers its new limit. The
  # master then calls fence() with the highest limit, so that all partitions come to the same step.

  fence @18 (run :UInt64, limit :UInt64, partition :UInt32) -> (outcome :Outcome(Nothing));
  # `limit` becomes the run's limit, even if that is less than before: the master has held a peer
  # that the run needs for a later step, so the run cannot end such a step.

  record @19 (run :UInt64, first :UInt64, end :UInt64, partition :UInt32)
      -> (outcome :Outcome(Nothing));
  # The run records what its threads do in the turns [first, end), in place of an earlier recording.

  recorded @20 (run :UInt64, partition :UInt32) -> (outcome :Outcome(Blob));
  # Ends the recording, and answers with it: a file of daemon/wire/recording.capnp with one
  # partition. Its times are those of the runner's clock.
}

enum Restore {                    # as in daemon/hosts/variables.h
  everything @0;
  weights @1;
  superset @2;
  some @3;
}

struct OptionalNumber {
  union {
    none @0 :Void;
    number @1 :UInt64;
  }
}

struct Limit {
  limit @0 :UInt64;
}

struct WrittenPart {
  bytes @0 :UInt64;
  sha256 @1 :Text;                # lower-case hexadecimal, as in manifests
}

struct ArmedFault {
  index @0 :UInt32;               # in the job's schedule
  fault @1 :Text;                 # "kill=worker:1@step=700": daemon/spec/chaos_fault.h
  due @2 :Bool;                   # inject it now: if each worker steps by itself, the master counts
                                  # the job's steps
}

struct Held {
  # The state of a runner's variables after a run that failed. The variables contain either all
  # updates of a step or none.
  whole @0 :Bool;                 # false: the variables are of no particular step, and the fields
                                  # below have no meaning
  step @1 :UInt64;                # the variables contain the steps below this one
  rows @2 :List(StepRow);         # of the last steps below `step`, ascending: at most 8192

  struct StepRow {
    step @0 :UInt64;
    values @1 :List(Float64);     # of the fetches: loss, accuracy
  }
}

struct RunSetup {
  name @0 :Text;                  # for messages
  seed @1 :UInt64;
  firstStep @2 :UInt64;
  profile @3 :Bool;
  cluster @4 :Data;               # 16 bytes
  assembly @5 :UInt64;
  planSha256 @6 :Data;            # of the whole plan
  transport @7 :Text;             # "auto", "tcp" or "shm"
  peers @8 :List(Peer);           # by partition of the plan, including this one
  dataRoot @9 :Text;              # the data set's name; "" if the plan reads no data
  endless @10 :Bool;              # other runs decide when it steps; it has no last step
  trains @11 :Bool;               # its steps are the job's
}

struct Peer {
  task @0 :UInt32;
  node @1 :Text;                  # for messages
  incarnation @2 :UInt64;         # of the runner
  dataAddress @3 :Text;           # of its worker, which passes the connection to the runner
  machine @4 :Text;
  unixAddress @5 :Text;
  wires @6 :List(Text);           # of the partition's device: see RunnerDevice
}

struct Feed {
  index @0 :UInt32;
  value @1 :Data;
}

struct RunReport {
  run @0 :UInt64;
  turns @1 :UInt64;               # the number of turns that are finished since the run began
  firstRow @2 :UInt64;            # the turn of rows[0]
  rows @3 :List(Data);            # for each turn, the fetches of this partition in the plan's
                                  # order, each padded to 8 bytes. The last entry may be a part of
                                  # its row: the next report begins with the rest
  failure @4 :Rpc.Status;         # code ok while the run continues
  derived @5 :Bool;               # the failure follows from a peer's: another runner knows the
                                  # cause
  rowOffset @6 :UInt64;           # the position of rows[0] in its row: more than 0 if the last
                                  # report ended with a part of it
  partition @7 :UInt32;
  inputWaitUs @8 :UInt64;         # the time for which its steps waited for rows of the data
  stepsAhead @9 :UInt64;          # how many steps ahead it asks for rows of the data now
}

struct RunState {
  turns @0 :UInt64;
  waitsFor @1 :Text;              # for people; "" while the run computes
  profile @2 :Text;               # a table, with RunSetup.profile
  doing @3 :UInt8;                # RunSight::State of scheduler/runtime/run_sight.h
  instruction @4 :UInt32 = 0xffffffff;  # of the partition, as there, like the next three
  turn @5 :UInt64;
  allowed @6 :UInt64;
  tiles @7 :UInt64;
  unchangedMs @8 :UInt64;         # since turns, turn or tiles changed, exact to 250 ms
  nowNs @9 :Int64;                # the runner's steady clock when it wrote this
}

struct SavedFile {
  union {
    missing @0 :Void;               # there is no such file
    blob @1 :Blob;
  }
}

struct Blob {
  size @0 :UInt64;
  sha256 @1 :Data;
  content @2 :Rpc.Download;
}

struct DatasetFiles {
  root @0 :Text;                  # a name of WorkerConfig.datasets, or a path if the worker allows
                                  # paths
  format @1 :Text;
  files @2 :List(Text);           # as in DatasetFiles of ops/data/dataset_files.h, as are the next
  columns @3 :List(Text);
  window @4 :Int64;
  stride @5 :Int64;
  element @6 :Text;               # the name of a type; empty: none
  options @7 :List(Text);
}

# A column of classes that the worker checks.
struct ClassCheck {
  column @0 :Text;
  classes @1 :Int64;              # 0: no check
  ignores @2 :Bool;               # a label of ignoreIndex is allowed
  ignoreIndex @3 :Int64;
}

struct DatasetView {
  count @0 :UInt64;
  columns @1 :List(Column);
  files @2 :List(Text);           # without patterns
  prints @3 :List(Text);          # fingerprint() of ops/data/dataset.h, one for each file
  notes @4 :List(Text);           # as in DatasetReport of ops/data/dataset.h
  classes @5 :List(Text);         # as there
  firstRows @6 :List(Int64);      # as in DatasetInfo of ops/data/columns.h

  struct Column {
    name @0 :Text;
    dtype @1 :Text;
    shape @2 :List(Int64);        # of one row
  }
}

# --------------------------------------------------------------------------------------------------
# A worker and its runner share a unix socket, which the runner inherits as descriptor 3.
#
# Worker to runner: first one RunnerBoot (8 bytes of length, little-endian, then a flat message),
# then connections of the data port, in the form of hand_over() of transport/io/handover.h.
#
# Runner to worker: a pulse every 250 ms, in the form of daemon/wire/runner_pulse.h.
#
# The socket closes when either process ends. A runner whose worker has ended ends, too.

struct RunnerBoot {
  spec @0 :RunnerSpec;
  worker @1 :Text;                # the node's name
  masterAddress @2 :Text;
  cluster @3 :Text;
  secret @4 :Data;                # RunnerSpec.credential
  directory @5 :Text;             # the runner's own, empty; the worker removes it afterwards
  datasets @6 :List(Dataset);
  transports @7 :List(Text);      # the transports that it may use: "shm", "tcp"
  memoryLimit @8 :UInt64;         # bytes of the device; 0: the machine's memory
  logLevel @9 :Text;
  incarnation @10 :UInt64;        # of the runner; connections of the data port name it
  rejoinMs @11 :UInt32;           # how long it looks for a lost master; 0: not at all
  seal @12 :UInt8;                # a value of Seal (transport/seal/seal.h)
  confinement @13 :RunnerConfinement;  # how it confines itself, before it does anything else
  gpuWires @14 :List(Text);       # the kinds of wires that its GPU may use: "ipc", "nccl"

  struct Dataset {
    name @0 :Text;
    path @1 :Text;
  }
}

# Confinement of daemon/confine/confinement.h, field by field.
struct RunnerConfinement {
  isOn @0 :Bool;
  required @1 :Bool;
  user @2 :UInt32;
  noUser @3 :Text;
  hasNamespaces @4 :Bool;
  noNamespaces @5 :Text;
  readsAll @6 :Bool;
  data @7 :List(Text);
  hidden @8 :List(Text);
  directory @9 :Text;
  rooms @10 :Text;
  opensGpus @11 :Bool;
  coreDumps @12 :Bool;
  mostThreads @13 :UInt64;
  mostFileBytes @14 :UInt64;
}

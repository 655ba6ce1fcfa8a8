// One function for each op family, defined in the file of the family's name.
#pragma once

#include "ops/graph/op.h"

namespace leat {

void register_math_ops(Catalogue& catalogue);        // math.cc: Add Sub Mul Div Mod Pow Max Min Sum
void register_unary_math_ops(Catalogue& catalogue);  // math_unary.cc: Neg Abs Exp Log Sqrt ... Clip
void register_activation_ops(
    Catalogue& catalogue);                        // activation.cc: Relu LeakyRelu Gelu Sigmoid Tanh
void register_compare_ops(Catalogue& catalogue);  // compare.cc: Equal Greater ... And Or Not Where
void register_cast_ops(Catalogue& catalogue);     // cast.cc: Cast
void register_matmul_ops(Catalogue& catalogue);   // matmul.cc: MatMul Gemm
void register_conv_ops(Catalogue& catalogue);     // conv.cc: Conv ConvTranspose
void register_pool_ops(Catalogue& catalogue);     // pool.cc: MaxPool AveragePool GlobalAveragePool
void register_normalization_ops(
    Catalogue& catalogue);  // normalization.cc: BatchNormalization LayerNormalization
void register_dropout_ops(Catalogue& catalogue);  // dropout.cc: Dropout
void register_softmax_ops(Catalogue& catalogue);  // softmax.cc: Softmax LogSoftmax
void register_loss_ops(Catalogue& catalogue);     // loss.cc: SoftmaxCrossEntropyLoss
void register_reduce_ops(
    Catalogue& catalogue);  // reduce.cc: ReduceSum ReduceMean ReduceMax ReduceMin ArgMax
void register_shape_ops(
    Catalogue& catalogue);  // shape_ops.cc: Shape Reshape Flatten Squeeze Unsqueeze Identity
void register_movement_ops(
    Catalogue& catalogue);                       // movement.cc: Transpose Concat Split Expand Tile
void register_slice_ops(Catalogue& catalogue);   // slice.cc: Slice
void register_pad_ops(Catalogue& catalogue);     // pad.cc: Pad
void register_gather_ops(Catalogue& catalogue);  // gather.cc: Gather GatherElements OneHot
void register_rows_ops(Catalogue& catalogue);    // rows.cc: SumRows
void register_constant_ops(Catalogue& catalogue);  // constant.cc: Constant ConstantOfShape
void register_random_ops(
    Catalogue& catalogue);  // random.cc: RandomNormal RandomUniform and ...Like
void register_variable_ops(
    Catalogue& catalogue);  // variable.cc: leat.Variable Initialize Read Assign AssignAdd
void register_optimizer_ops(
    Catalogue& catalogue);  // optimizer.cc: leat.ApplySgd ApplyMomentum ApplyAdam ApplyAdamW
void register_exchange_ops(
    Catalogue& catalogue);  // exchange.cc: leat.Gradients AllReduce ... Send Recv
void register_piece_ops(Catalogue& catalogue);    // pieces.cc: leat.Range Join
void register_sum_tree_op(Catalogue& catalogue);  // sum_tree.cc: leat.SumTree
void register_queue_ops(Catalogue& catalogue);    // queue.cc: leat.Queue Enqueue Dequeue Close
void register_input_ops(Catalogue& catalogue);    // input.cc: leat.ReadBatch
void register_step_ops(Catalogue& catalogue);     // step.cc: leat.Step, StepCounter, NextStep
void register_commit_ops(Catalogue& catalogue);   // commit.cc: leat.Commit
// quorum.cc: leat.ReplicaPool NextTicket Arrive AwaitQuorum, StepClock AwaitStep AdvanceStep,
// Staging Stage SumStaged.
void register_quorum_ops(Catalogue& catalogue);
void register_layout_ops(Catalogue& catalogue);  // layout_ops.cc: leat.Reorder

}  // namespace leat

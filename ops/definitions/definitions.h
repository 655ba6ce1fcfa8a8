// One function for each op family, defined in the file of the family's name under ops/definitions.
//
// Each function adds the definitions of its family: signatures, inference, gradients, sharding and
// tiling rules. It adds no kernel. ops/catalogue.cc calls all of them once, when a process starts,
// and the kernels of the devices are added afterwards with Catalogue::add_kernel(). No op may be
// added twice. To add a family: write its file, declare its function here, and call it there.
//
// Names without a prefix are those of ONNX; the names of Leat's own ops begin with "leat.". The ops
// that only compute a gradient ("leat.ReluGrad") are in the family of their forward op.
#pragma once

#include "ops/graph/op.h"

namespace leat {

// math.cc: Add Sub Mul Div Mod Pow Max Min Sum. Operands broadcast as in numpy.
void register_math_ops(Catalogue& catalogue);
// math_unary.cc: Neg Abs Sign Reciprocal Sqrt Exp Log Sin Cos Erf Floor Ceil Round Clip.
void register_unary_math_ops(Catalogue& catalogue);
// activation.cc: Relu LeakyRelu Gelu Sigmoid Tanh Elu Softplus HardSigmoid.
void register_activation_ops(Catalogue& catalogue);
// compare.cc: Equal Greater Less GreaterOrEqual LessOrEqual, And Or Xor Not, IsNaN IsInf, Where.
void register_compare_ops(Catalogue& catalogue);
// cast.cc: Cast CastLike BitCast.
void register_cast_ops(Catalogue& catalogue);
void register_quantize_ops(Catalogue& catalogue);
// matmul.cc: MatMul Gemm, and leat.MatMul, a MatMul with transpositions, a factor and a bias.
void register_matmul_ops(Catalogue& catalogue);
// conv.cc: Conv ConvTranspose, of one to three spatial axes.
void register_conv_ops(Catalogue& catalogue);
// pool.cc: MaxPool GlobalMaxPool AveragePool GlobalAveragePool.
void register_pool_ops(Catalogue& catalogue);
// normalization.cc: BatchNormalization LayerNormalization.
void register_normalization_ops(Catalogue& catalogue);
// dropout.cc: Dropout.
void register_dropout_ops(Catalogue& catalogue);
// softmax.cc: Softmax LogSoftmax.
void register_softmax_ops(Catalogue& catalogue);
// loss.cc: SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss, and leat.CrossEntropy.
void register_loss_ops(Catalogue& catalogue);
// element_program.cc: leat.Elementwise, several elementwise ops in one.
void register_program_ops(Catalogue& catalogue);
// reduce.cc: ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceSumSquare ReduceL1 ReduceL2,
// ArgMax ArgMin.
void register_reduce_ops(Catalogue& catalogue);
// shape_ops.cc: Shape Size, and the views Reshape Flatten Squeeze Unsqueeze Identity.
void register_shape_ops(Catalogue& catalogue);
// movement.cc: Transpose Concat Split Expand Tile.
void register_movement_ops(Catalogue& catalogue);
// slice.cc: Slice.
void register_slice_ops(Catalogue& catalogue);
// pad.cc: Pad.
void register_pad_ops(Catalogue& catalogue);
// gather.cc: Gather GatherElements OneHot, and leat.ReadRows, which gathers rows of a variable.
void register_gather_ops(Catalogue& catalogue);
// trigonometry.cc: the functions beside Sin, Cos and Tanh.
void register_trigonometry_ops(Catalogue& catalogue);
// bitwise.cc: ops on the bits of integers.
void register_bitwise_ops(Catalogue& catalogue);
// grid_sample.cc: GridSample, and leat.GridSampleGrad.
void register_grid_sample_ops(Catalogue& catalogue);
// selection.cc: NonZero Unique NonMaxSuppression ImageDecoder.
void register_selection_ops(Catalogue& catalogue);
// n_grams.cc: TfIdfVectorizer.
void register_n_gram_ops(Catalogue& catalogue);
// tree_ensemble.cc: leat.TreeEnsemble.
void register_tree_ensemble_ops(Catalogue& catalogue);
// determinant.cc: Det, and leat.DetGrad.
void register_determinant_ops(Catalogue& catalogue);
// dft.cc: DFT, and leat.DFTGrad.
void register_dft_ops(Catalogue& catalogue);
// roi.cc: RoiAlign MaxRoiPool, and their gradients.
void register_roi_ops(Catalogue& catalogue);
// deform.cc: leat.DeformColumns, which DeformConv is made of.
void register_deform_ops(Catalogue& catalogue);
// tensor_scatter.cc: TensorScatter, and leat.TensorScatterGrad.
void register_tensor_scatter_ops(Catalogue& catalogue);
// linear_attention.cc: LinearAttention, and leat.LinearAttentionGrad.
void register_linear_attention_ops(Catalogue& catalogue);
// edit_distance.cc: leat.EditDistance.
void register_edit_distance_ops(Catalogue& catalogue);
// image.cc: leat.CropImages, leat.AugmentImages, leat.ResizeImages and leat.DecodeImages.
void register_image_ops(Catalogue& catalogue);
// attention.cc: Attention, and leat.AttentionGrad.
void register_attention_ops(Catalogue& catalogue);
// recurrent.cc: leat.Recurrent, which LSTM, GRU and RNN are made of.
void register_recurrent_ops(Catalogue& catalogue);
// resize.cc: Resize and its gradient.
void register_resize_ops(Catalogue& catalogue);
// scatter.cc: ops that write by index, read by tuples of indices, or make indices.
void register_scatter_ops(Catalogue& catalogue);
// rows.cc: leat.SumRows, which makes a gradient by rows dense (see row_sum.h).
void register_rows_ops(Catalogue& catalogue);
// constant.cc: Constant ConstantOfShape.
void register_constant_ops(Catalogue& catalogue);
// random.cc: RandomNormal RandomUniform, RandomNormalLike RandomUniformLike Bernoulli
// Multinomial.
void register_random_ops(Catalogue& catalogue);
// variable.cc: leat.Variable Read Snapshot, Initialize Assign AssignAdd.
void register_variable_ops(Catalogue& catalogue);
// optimizer.cc: leat.ApplySgd ApplyMomentum ApplyAdam ApplyAdamW. Each updates a variable in place.
void register_optimizer_ops(Catalogue& catalogue);
// exchange.cc: leat.Gradients, the collectives of replicas (AllReduce AllGather ReduceScatter ...),
// and Send Receive SendToken ReceiveToken. These ops have no kernels: passes replace the first two
// groups, and the runtime moves the bytes of the third.
void register_exchange_ops(Catalogue& catalogue);
// pieces.cc: leat.Range Join.
void register_piece_ops(Catalogue& catalogue);
// sum_tree.cc: leat.SumTree (see sum_tree.h).
void register_sum_tree_op(Catalogue& catalogue);
// digest.cc: leat.Digest (see digest.h).
void register_digest_op(Catalogue& catalogue);
// save.cc: leat.Save Restore.
void register_save_ops(Catalogue& catalogue);
// queue.cc: leat.Queue Enqueue Dequeue Close QueueSize.
void register_queue_ops(Catalogue& catalogue);
// input.cc: leat.ReadBatch, which reads one batch of a data set by its number.
void register_input_ops(Catalogue& catalogue);
// step.cc: leat.Step StepCounter NextStep.
void register_step_ops(Catalogue& catalogue);
// commit.cc: leat.Commit (see ops/state/commits.h).
void register_commit_ops(Catalogue& catalogue);
// quorum.cc: leat.ReplicaPool NextTicket Arrive AwaitQuorum, StepClock AwaitStep AdvanceStep,
// Staging Stage SumStaged.
void register_quorum_ops(Catalogue& catalogue);
// layout_ops.cc: leat.Reorder, which the layout pass inserts.
void register_layout_ops(Catalogue& catalogue);

}  // namespace leat

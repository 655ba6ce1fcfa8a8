// One function for each op family, in the family's file: it adds the family's CPU kernels to the
// definitions, which name no device. A kernel is registered under the op's full name ("Relu",
// "leat.Read") and the device kind "cpu"; a factory that lacks a dtype returns unimplemented when a
// plan is registered, never later.
//
// Only ops/catalogue.cc calls add_cpu_kernels(), once for each catalogue, when it is built and
// before any other thread sees it. A new family gets a function here and a call in cpu_kernels.cc.
// The functions are independent of each other and may be called in any order.
#pragma once

#include "ops/graph/op.h"

namespace leat {

// Adds the kernels of all families, that is, calls all functions below. REQUIRES: the ops are in
// the catalogue. An op that is missing is a mistake of the program: a debug build stops at an
// assertion.
void add_cpu_kernels(Catalogue& catalogue);

// Relu, LeakyRelu, Gelu, Sigmoid, Tanh, Elu, HardSigmoid, their gradients, and Softplus.
void add_activation_kernels(Catalogue& catalogue);
// Cast and CastLike, between any two dtypes.
void add_cast_kernels(Catalogue& catalogue);
void add_quantize_kernels(Catalogue& catalogue);
// leat.Commit, which records the values that a step fetched.
void add_commit_kernels(Catalogue& catalogue);
// Equal, Greater, Less, their variants, And, Or, Xor, Not, IsNaN, IsInf, and Where.
void add_compare_kernels(Catalogue& catalogue);
// Constant and ConstantOfShape.
void add_constant_kernels(Catalogue& catalogue);
// Conv, ConvTranspose, leat.ConvGradInput, leat.ConvGradWeights.
void add_conv_kernels(Catalogue& catalogue);
// leat.Digest, by which an audit compares values.
void add_digest_kernels(Catalogue& catalogue);
// Dropout and leat.DropoutGrad.
void add_dropout_kernels(Catalogue& catalogue);
// Gather, GatherElements, leat.ReadRows, OneHot, and the gradients of the first two.
void add_gather_kernels(Catalogue& catalogue);
// The functions beside Sin, Cos and Tanh.
void add_trigonometry_kernels(Catalogue& catalogue);
// Ops on the bits of integers.
void add_bitwise_kernels(Catalogue& catalogue);
// ScatterElements, ScatterND, GatherND, Range, Trilu, CumSum and TopK.
void add_determinant_kernels(Catalogue& catalogue);
// NonZero, Unique, NonMaxSuppression and ImageDecoder.
void add_selection_kernels(Catalogue& catalogue);
// TfIdfVectorizer.
void add_n_gram_kernels(Catalogue& catalogue);
// leat.TreeEnsemble.
void add_tree_ensemble_kernels(Catalogue& catalogue);
void add_dft_kernels(Catalogue& catalogue);
void add_roi_align_kernels(Catalogue& catalogue);
void add_max_roi_pool_kernels(Catalogue& catalogue);
void add_deform_kernels(Catalogue& catalogue);
void add_tensor_scatter_kernels(Catalogue& catalogue);
void add_linear_attention_kernels(Catalogue& catalogue);
void add_scatter_kernels(Catalogue& catalogue);
// leat.ReadBatch, which reads the next batch of a data set.
void add_input_kernels(Catalogue& catalogue);
// leat.Reorder, between the plain layout and channels16.
void add_layout_kernels(Catalogue& catalogue);
// SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss, and their gradients.
void add_loss_kernels(Catalogue& catalogue);
// leat.Elementwise.
void add_program_kernels(Catalogue& catalogue);
// Add, Sub, Mul, Div, Mod, Pow, leat.PowGrad, and Max, Min and Sum of any number of inputs.
void add_math_kernels(Catalogue& catalogue);
// Neg, Abs, Sign, Sqrt, Exp, Log, Sin, Cos, Erf, the roundings, Clip, leat.ClipGrad.
void add_math_unary_kernels(Catalogue& catalogue);
// MatMul, leat.MatMul and Gemm.
void add_matmul_kernels(Catalogue& catalogue);
// Transpose, Concat, Split, Expand and Tile.
void add_movement_kernels(Catalogue& catalogue);
// BatchNormalization, LayerNormalization, and their gradients.
void add_normalization_kernels(Catalogue& catalogue);
// leat.ApplySgd, leat.ApplyMomentum, leat.ApplyAdam and leat.ApplyAdamW.
void add_optimizer_kernels(Catalogue& catalogue);
// Pad and leat.PadGrad.
void add_pad_kernels(Catalogue& catalogue);
// leat.Range and leat.Join, for values that are sent in pieces.
void add_pieces_kernels(Catalogue& catalogue);
// MaxPool, AveragePool, their global variants, and the gradients.
void add_pool_kernels(Catalogue& catalogue);
// leat.Enqueue, leat.Dequeue, leat.Close and leat.QueueSize.
void add_queue_kernels(Catalogue& catalogue);
// leat.NextTicket, leat.Arrive, leat.AwaitQuorum and the other ops of a quorum of replicas.
void add_quorum_kernels(Catalogue& catalogue);
// RandomNormal, RandomUniform, their -Like variants, and Bernoulli.
void add_random_kernels(Catalogue& catalogue);
// GridSample and leat.GridSampleGrad.
void add_grid_sample_kernels(Catalogue& catalogue);
// leat.EditDistance.
void add_edit_distance_kernels(Catalogue& catalogue);
// leat.CropImages, leat.AugmentImages, leat.ResizeImages and leat.DecodeImages.
void add_image_kernels(Catalogue& catalogue);
// Attention and leat.AttentionGrad; the second function is called by the first.
void add_attention_kernels(Catalogue& catalogue);
void add_attention_grad_kernel(Catalogue& catalogue);
// leat.Recurrent and its gradient.
void add_recurrent_kernels(Catalogue& catalogue);
// Resize and leat.ResizeGrad.
void add_resize_kernels(Catalogue& catalogue);
// ReduceSum and the other reductions, leat.ReduceGrad, ArgMax and ArgMin.
void add_reduce_kernels(Catalogue& catalogue);
// leat.SumRows, which makes a dense gradient from a gradient of rows.
void add_rows_kernels(Catalogue& catalogue);
// Shape, Size, and the copies of Reshape, Flatten, Squeeze, Unsqueeze and Identity.
void add_shape_kernels(Catalogue& catalogue);
// leat.Save and leat.Restore.
void add_save_kernels(Catalogue& catalogue);
// Slice and leat.SliceGrad.
void add_slice_kernels(Catalogue& catalogue);
// Softmax, LogSoftmax, and their gradients.
void add_softmax_kernels(Catalogue& catalogue);
// leat.Step, leat.NextStep and leat.ReplicaId.
void add_step_kernels(Catalogue& catalogue);
// leat.SumTree, which adds its inputs in a tree that its attribute gives.
void add_sum_tree_kernels(Catalogue& catalogue);
// leat.Read, leat.Snapshot, leat.Initialize, leat.Assign and leat.AssignAdd.
void add_variable_kernels(Catalogue& catalogue);

}  // namespace leat

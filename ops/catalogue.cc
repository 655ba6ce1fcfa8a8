// The list of every op of this build. An op family is one file, and has one line here.
#include "ops/catalogue.h"

#include "ops/cpu/branches.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/definitions/branches.h"
#include "ops/definitions/definitions.h"
#include "ops/layers/layers.h"

namespace leat {

namespace {

void register_onnx_ops(Catalogue& catalogue) {
  register_math_ops(catalogue);
  register_unary_math_ops(catalogue);
  register_activation_ops(catalogue);
  register_compare_ops(catalogue);
  register_branch_ops(catalogue);
  register_cast_ops(catalogue);
  register_quantize_ops(catalogue);
  register_matmul_ops(catalogue);
  register_conv_ops(catalogue);
  register_pool_ops(catalogue);
  register_normalization_ops(catalogue);
  register_dropout_ops(catalogue);
  register_softmax_ops(catalogue);
  register_loss_ops(catalogue);
  register_program_ops(catalogue);
  register_reduce_ops(catalogue);
  register_shape_ops(catalogue);
  register_movement_ops(catalogue);
  register_slice_ops(catalogue);
  register_pad_ops(catalogue);
  register_gather_ops(catalogue);
  register_scatter_ops(catalogue);
  register_resize_ops(catalogue);
  register_attention_ops(catalogue);
  register_grid_sample_ops(catalogue);
  register_edit_distance_ops(catalogue);
  register_image_ops(catalogue);
  register_recurrent_ops(catalogue);
  register_trigonometry_ops(catalogue);
  register_bitwise_ops(catalogue);
  register_determinant_ops(catalogue);
  register_selection_ops(catalogue);
  register_n_gram_ops(catalogue);
  register_tree_ensemble_ops(catalogue);
  register_dft_ops(catalogue);
  register_roi_ops(catalogue);
  register_deform_ops(catalogue);
  register_tensor_scatter_ops(catalogue);
  register_linear_attention_ops(catalogue);
  register_constant_ops(catalogue);
  register_random_ops(catalogue);
}

}  // namespace

Catalogue standard_catalogue() {
  Catalogue catalogue;
  register_onnx_ops(catalogue);
  // Leat's own ops.
  register_variable_ops(catalogue);
  register_rows_ops(catalogue);
  register_optimizer_ops(catalogue);
  register_exchange_ops(catalogue);
  register_piece_ops(catalogue);
  register_sum_tree_op(catalogue);
  register_digest_op(catalogue);
  register_queue_ops(catalogue);
  register_input_ops(catalogue);
  register_save_ops(catalogue);
  register_step_ops(catalogue);
  register_commit_ops(catalogue);
  register_quorum_ops(catalogue);
  register_layout_ops(catalogue);
  // Layers, which expand to other ops when a file is loaded.
  register_layer_ops(catalogue);
  // The kernels of the ops.
  add_cpu_kernels(catalogue);
  // Every op again, for the branches that a step may leave out.
  register_conditional_ops(catalogue);
  add_conditional_kernels(catalogue);
  return catalogue;
}

}  // namespace leat

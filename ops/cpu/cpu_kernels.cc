#include "ops/cpu/cpu_kernels.h"

#include "ops/cpu/branches.h"

namespace leat {

// ops/catalogue.cc calls this once, after it has added the definitions: add_kernel() finds the op
// by its name. The calls are independent of each other, and their order is that of the alphabet.
void add_cpu_kernels(Catalogue& catalogue) {
  add_attention_kernels(catalogue);
  add_grid_sample_kernels(catalogue);
  add_edit_distance_kernels(catalogue);
  add_image_kernels(catalogue);
  add_activation_kernels(catalogue);
  add_branch_kernels(catalogue);
  add_cast_kernels(catalogue);
  add_quantize_kernels(catalogue);
  add_commit_kernels(catalogue);
  add_compare_kernels(catalogue);
  add_constant_kernels(catalogue);
  add_conv_kernels(catalogue);
  add_dropout_kernels(catalogue);
  add_gather_kernels(catalogue);
  add_determinant_kernels(catalogue);
  add_selection_kernels(catalogue);
  add_n_gram_kernels(catalogue);
  add_tree_ensemble_kernels(catalogue);
  add_dft_kernels(catalogue);
  add_roi_align_kernels(catalogue);
  add_max_roi_pool_kernels(catalogue);
  add_deform_kernels(catalogue);
  add_tensor_scatter_kernels(catalogue);
  add_linear_attention_kernels(catalogue);
  add_scatter_kernels(catalogue);
  add_trigonometry_kernels(catalogue);
  add_bitwise_kernels(catalogue);
  add_digest_kernels(catalogue);
  add_input_kernels(catalogue);
  add_layout_kernels(catalogue);
  add_loss_kernels(catalogue);
  add_program_kernels(catalogue);
  add_math_kernels(catalogue);
  add_math_unary_kernels(catalogue);
  add_matmul_kernels(catalogue);
  add_movement_kernels(catalogue);
  add_normalization_kernels(catalogue);
  add_optimizer_kernels(catalogue);
  add_pad_kernels(catalogue);
  add_pieces_kernels(catalogue);
  add_pool_kernels(catalogue);
  add_queue_kernels(catalogue);
  add_quorum_kernels(catalogue);
  add_random_kernels(catalogue);
  add_recurrent_kernels(catalogue);
  add_reduce_kernels(catalogue);
  add_resize_kernels(catalogue);
  add_rows_kernels(catalogue);
  add_shape_kernels(catalogue);
  add_save_kernels(catalogue);
  add_slice_kernels(catalogue);
  add_softmax_kernels(catalogue);
  add_step_kernels(catalogue);
  add_sum_tree_kernels(catalogue);
  add_variable_kernels(catalogue);
}

}  // namespace leat

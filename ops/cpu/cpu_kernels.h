// One function for each op family, in the family's file: it adds the family's CPU kernels to the
// definitions, which name no device.
#pragma once

#include "ops/graph/op.h"

namespace leat {

// Adds the kernels of all families. REQUIRES: the ops are in the catalogue.
void add_cpu_kernels(Catalogue& catalogue);

void add_activation_kernels(Catalogue& catalogue);
void add_cast_kernels(Catalogue& catalogue);
void add_commit_kernels(Catalogue& catalogue);
void add_compare_kernels(Catalogue& catalogue);
void add_constant_kernels(Catalogue& catalogue);
void add_conv_kernels(Catalogue& catalogue);
void add_dropout_kernels(Catalogue& catalogue);
void add_gather_kernels(Catalogue& catalogue);
void add_input_kernels(Catalogue& catalogue);
void add_layout_kernels(Catalogue& catalogue);
void add_loss_kernels(Catalogue& catalogue);
void add_math_kernels(Catalogue& catalogue);
void add_math_unary_kernels(Catalogue& catalogue);
void add_matmul_kernels(Catalogue& catalogue);
void add_movement_kernels(Catalogue& catalogue);
void add_normalization_kernels(Catalogue& catalogue);
void add_optimizer_kernels(Catalogue& catalogue);
void add_pad_kernels(Catalogue& catalogue);
void add_pieces_kernels(Catalogue& catalogue);
void add_pool_kernels(Catalogue& catalogue);
void add_queue_kernels(Catalogue& catalogue);
void add_quorum_kernels(Catalogue& catalogue);
void add_random_kernels(Catalogue& catalogue);
void add_reduce_kernels(Catalogue& catalogue);
void add_rows_kernels(Catalogue& catalogue);
void add_shape_kernels(Catalogue& catalogue);
void add_slice_kernels(Catalogue& catalogue);
void add_softmax_kernels(Catalogue& catalogue);
void add_step_kernels(Catalogue& catalogue);
void add_sum_tree_kernels(Catalogue& catalogue);
void add_variable_kernels(Catalogue& catalogue);

}  // namespace leat

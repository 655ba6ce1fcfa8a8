"""Models of Keras and functions of TensorFlow for other_exporters.py: each is exported by tf2onnx and
trained by TensorFlow."""
import functools

import numpy as np
import tensorflow as tf
import tf2onnx
from tensorflow import keras

layers = keras.layers
RECORDS, BATCH, CLASSES = 8, 4, 10


def randomize(model):
    """tf2onnx leaves out weights that are all 0 or all 1."""
    generator = np.random.default_rng(5)
    for weight in model.weights:
        value = weight.numpy()
        if value.dtype.kind != "f" or value.size == 0:
            continue
        if np.all(value == value.flat[0]):
            weight.assign(value + generator.uniform(0.01, 0.1, value.shape).astype(value.dtype))


def inputs_of(shapes, generator):
    values = {}
    for name, (shape, dtype, limit) in shapes.items():
        if dtype == "float32":
            values[name] = generator.standard_normal((RECORDS, *shape)).astype(dtype)
        else:
            values[name] = generator.integers(0, limit, (RECORDS, *shape)).astype(dtype)
    return values


def finish(call, variables, values, path, steps, rate, labels, from_logits=True):
    """Exports `call`, and trains its variables."""
    signature = [tf.TensorSpec([None, *v.shape[1:]], v.dtype, name=n) for n, v in values.items()]
    step = tf.function(lambda *x: call(*x, training=False), input_signature=signature)
    tf2onnx.convert.from_function(step, input_signature=signature, opset=17, output_path=path)
    import onnx
    batch_norm = any(n.op_type == "BatchNormalization" for n in onnx.load(path).graph.node)
    losses = []
    for i in range(steps):
        rows = [(i * BATCH + r) % RECORDS for r in range(BATCH)]
        with tf.GradientTape() as tape:
            scores = call(*[tf.constant(v[rows]) for v in values.values()], training=batch_norm)
            if labels.dtype.kind == "f":
                loss = tf.reduce_mean(tf.square(scores - labels[rows]))
            else:
                loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(
                    labels[rows], scores, from_logits=from_logits))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            if gradient is not None:
                variable.assign_sub(rate * tf.convert_to_tensor(gradient))
        losses.append(float(loss))
    return {"inputs": values, "labels": labels, "losses": losses}


def keras_case(make, shapes, path, steps, rate):
    keras.utils.set_random_seed(3)
    generator = np.random.default_rng(7)
    tensors = [keras.Input(shape, dtype=dtype, name=name) for name, (shape, dtype, _) in shapes.items()]
    model = keras.Model(tensors, make(*tensors))
    randomize(model)
    scores = model.output.shape[1:]
    values = inputs_of(shapes, generator)
    labels = generator.integers(0, scores[-1], (RECORDS, *scores[:-1])).astype(np.int64)
    call = (lambda *x, training: model(list(x) if len(x) > 1 else x[0], training=training))
    return finish(call, model.trainable_variables, values, path, steps, rate, labels)


def layer(make, shape, dtype="float32", limit=0):
    return functools.partial(keras_case, make, {"x": (shape, dtype, limit)})


def application(name, size):
    def make(x):
        # Dropout and stochastic depth would draw other numbers than Leat does.
        options = {"include_preprocessing": False} if name.startswith(("MobileNetV3", "EfficientNetV2", "ConvNeXt")) else {}
        net = getattr(keras.applications, name)(input_tensor=x, weights=None, classes=CLASSES,
                                                classifier_activation=None, **options)
        for part in net.layers:
            if isinstance(part, layers.Dropout):
                part.rate = 0.0
        return net.output
    return layer(make, (size, size, 3))


def head(x, units=CLASSES):
    return layers.Dense(units)(x)


def flat(x):
    return head(layers.Flatten()(x))


def stack(*parts):
    def make(x):
        for part in parts:
            x = part(x)
        return flat(x)
    return make


def attention_block(x):
    y = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 8)(y, y)
    y = layers.LayerNormalization()(x)
    return flat(x + layers.Dense(16)(layers.Dense(32, activation="gelu")(y)))


def causal_block(x):
    x = layers.Embedding(50, 16)(x)
    return head(layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True), 50)


def unet(x):
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
    c = layers.Conv2DTranspose(8, 2, strides=2, padding="same")(b)
    return layers.Conv2D(4, 1)(layers.Concatenate()([a, c]))


def squeeze_excite(x):
    y = layers.Conv2D(8, 3, padding="same")(x)
    s = layers.GlobalAveragePooling2D(keepdims=True)(y)
    s = layers.Dense(8, activation="sigmoid")(layers.Dense(4, activation="relu")(s))
    return flat(layers.Multiply()([y, s]))


def towers(a, b):
    x = layers.Embedding(20, 8)(a)
    y = layers.Dense(8, activation="relu")(b)
    x = layers.Flatten()(x)
    return head(layers.Concatenate()([x, y, layers.Dot(1)([layers.Dense(8)(x), y])]))


IMAGE, SERIES, TOKENS = (12, 12, 3), (9, 6), (9,)
LAYERS = {
    "dense": layer(stack(layers.Dense(8, activation="selu"), layers.Dense(8, activation="softplus")), (6,)),
    "activations": layer(stack(*[layers.Dense(8, activation=a) for a in (
        "elu", "silu", "mish", "hard_sigmoid", "hard_silu", "tanh", "softsign", "relu6", "log_softmax", "exponential",
        "celu", "hard_tanh", "squareplus", "soft_shrink", "hard_shrink", "tanh_shrink", "leaky_relu")]), (6,)),
    "conv_valid_stride": layer(stack(layers.Conv2D(4, 3, strides=2), layers.Conv2D(4, 2, dilation_rate=2)), IMAGE),
    "conv_same_stride": layer(stack(layers.Conv2D(4, 4, strides=3, padding="same")), IMAGE),
    "conv_groups": layer(stack(layers.Conv2D(6, 3, groups=3)), IMAGE),
    "conv3d": layer(stack(layers.Conv3D(4, 3, padding="same"), layers.MaxPooling3D()), (4, 6, 6, 2)),
    "conv1d_causal": layer(stack(layers.Conv1D(4, 3, padding="causal", dilation_rate=2)), SERIES),
    "conv_transpose": layer(stack(layers.Conv2DTranspose(4, 3, strides=2, padding="same")), (6, 6, 3)),
    "conv_transpose_valid": layer(stack(layers.Conv2DTranspose(4, 3, strides=2)), (6, 6, 3)),
    "conv3d_transpose": layer(stack(layers.Conv3DTranspose(4, 2, strides=2)), (3, 3, 3, 2)),
    "conv1d_transpose": layer(stack(layers.Conv1DTranspose(4, 3, strides=2)), SERIES),
    "separable": layer(stack(layers.SeparableConv2D(4, 3), layers.DepthwiseConv2D(3, depth_multiplier=2)), IMAGE),
    "separable1d": layer(stack(layers.SeparableConv1D(4, 3)), SERIES),
    "pools": layer(stack(layers.AveragePooling2D(3, 2, "same"), layers.MaxPooling2D(2, 1, "same")), IMAGE),
    "pools1d": layer(stack(layers.AveragePooling1D(3, 2, "same"), layers.MaxPooling1D(2)), SERIES),
    "global_pools": layer(lambda x: head(layers.Concatenate()(
        [layers.GlobalMaxPooling2D()(x), layers.GlobalAveragePooling2D()(layers.Conv2D(5, 2)(x))])), IMAGE),
    "pads": layer(stack(layers.ZeroPadding2D(((1, 2), (0, 3))), layers.Conv2D(4, 3), layers.Cropping2D(2)), IMAGE),
    "upsample_nearest": layer(stack(layers.UpSampling2D(2), layers.Conv2D(4, 3)), IMAGE),
    "upsample_bilinear": layer(stack(layers.Conv2D(4, 3), layers.UpSampling2D(2, interpolation="bilinear")), IMAGE),
    "upsample_bicubic": layer(stack(layers.Conv2D(4, 3), layers.UpSampling2D(2, interpolation="bicubic")), IMAGE),
    "resizing": layer(stack(layers.Conv2D(4, 3), layers.Resizing(7, 9)), IMAGE),
    "batch_norm": layer(stack(layers.Dense(8), layers.BatchNormalization()), (6,)),
    "batch_norm_image": layer(stack(layers.ReLU(), layers.BatchNormalization(), layers.Conv2D(4, 3)), IMAGE),
    "layer_norm": layer(stack(layers.Dense(8), layers.LayerNormalization(axis=[1, 2])), SERIES),
    "rms_norm": layer(stack(layers.Dense(8), layers.RMSNormalization()), SERIES),
    "group_norm": layer(stack(layers.Conv2D(8, 3), layers.GroupNormalization(4)), IMAGE),
    "unit_norm": layer(stack(layers.Dense(8), layers.UnitNormalization()), (6,)),
    "prelu": layer(stack(layers.Conv2D(4, 3), layers.PReLU(shared_axes=[1, 2])), IMAGE),
    "thresholds": layer(stack(layers.Dense(8), layers.LeakyReLU(), layers.ReLU(2.0, 0.1, 0.2)), (6,)),
    "permute": layer(stack(layers.Permute((2, 1)), layers.Dense(4), layers.Reshape((3, -1)), layers.Dense(5)), SERIES),
    "repeat": layer(stack(layers.Dense(4), layers.RepeatVector(3), layers.Dense(5)), (6,)),
    "einsum_dense": layer(stack(layers.EinsumDense("abc,cd->abd", output_shape=(9, 7), bias_axes="d")), SERIES),
    "attention": layer(attention_block, (9, 16)),
    "causal": layer(causal_block, TOKENS, "int32", 50),
    "grouped_query": layer(lambda x: flat(layers.GroupQueryAttention(4, 4, 2)(x, x)), (9, 16)),
    "lstm": layer(stack(layers.LSTM(8, return_sequences=True), layers.LSTM(8)), SERIES),
    "gru": layer(stack(layers.GRU(8, return_sequences=True), layers.GRU(8)), SERIES),
    "gru_before": layer(stack(layers.GRU(8, reset_after=False)), SERIES),
    "simple_rnn": layer(stack(layers.SimpleRNN(8)), SERIES),
    "bidirectional": layer(stack(layers.Bidirectional(layers.LSTM(8, return_sequences=True))), SERIES),
    "conv_lstm": layer(stack(layers.ConvLSTM2D(4, 3)), (3, 6, 6, 2)),
    "time_distributed": layer(stack(layers.TimeDistributed(layers.Conv2D(4, 3))), (3, 6, 6, 2)),
    "rnn_cells": layer(stack(layers.RNN([layers.LSTMCell(6), layers.GRUCell(5)])), SERIES),
    "masked_lstm": layer(stack(layers.Embedding(50, 8, mask_zero=True), layers.LSTM(8)), TOKENS, "int32", 50),
    "embedding": layer(stack(layers.Embedding(50, 8), layers.GlobalAveragePooling1D()), TOKENS, "int32", 50),
    "category": layer(stack(layers.CategoryEncoding(50, "multi_hot")), TOKENS, "int32", 50),
    "unet": layer(unet, (8, 8, 3)),
    "squeeze_excite": layer(squeeze_excite, IMAGE),
    "towers": functools.partial(keras_case, towers, {"a": ((3,), "int32", 20), "b": ((8,), "float32", 0)}),
    "maxout": layer(lambda x: head(layers.Maximum()([layers.Dense(8)(x), layers.Minimum()(
        [layers.Dense(8)(x), layers.Subtract()([layers.Dense(8)(x), layers.Average()([x, x])])])])), (8,)),
}
APPLICATIONS = {"MobileNet": 32, "MobileNetV2": 32, "MobileNetV3Small": 32, "MobileNetV3Large": 32, "ResNet50": 32,
                "ResNet101V2": 32, "DenseNet121": 32, "Xception": 71, "InceptionV3": 75, "NASNetMobile": 32,
                "EfficientNetB0": 32, "EfficientNetV2B0": 32, "ConvNeXtTiny": 32, "VGG16": 32}


def function_case(build, path, steps, rate):
    """`build` gets a maker of variables; it returns a function of x [batch, 6], and its scores have CLASSES."""
    generator = np.random.default_rng(11)
    variables = []

    def variable(*shape):
        variables.append(tf.Variable(generator.standard_normal(shape).astype("float32") * 0.3))
        return variables[-1]
    function = build(variable)
    values = inputs_of({"x": ((6,), "float32", 0)}, generator)
    labels = generator.integers(0, CLASSES, RECORDS).astype(np.int64)
    return finish(lambda x, training: function(x), variables, values, path, steps, rate, labels)


def loop_while(variable):
    w, v = variable(6, 6), variable(6, CLASSES)
    def run(x):
        _, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.tanh(y @ w)), (0, x), maximum_iterations=4)
        return y @ v
    return run


def loop_dynamic(variable):
    w, v = variable(6, 6), variable(6, CLASSES)
    def run(x):
        _, y = tf.while_loop(lambda i, y: tf.logical_and(i < 20, tf.reduce_sum(y * y) > 0.5),
                             lambda i, y: (i + 1, 0.7 * tf.tanh(y @ w)), (0, x), maximum_iterations=20)
        return y @ v
    return run


def condition(variable):
    w, u, v = variable(6, 8), variable(6, 8), variable(8, CLASSES)
    return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x @ w), lambda: tf.sin(x @ u)) @ v


def mapped(variable):
    w, v = variable(6, 6), variable(6, CLASSES)
    return lambda x: tf.map_fn(lambda row: tf.linalg.matvec(w, row, transpose_a=True), x) @ v


def scanned(variable):
    w, v = variable(6, 6), variable(6, CLASSES)
    return lambda x: tf.scan(lambda a, row: 0.5 * a + tf.tanh(tf.linalg.matvec(w, row)), x, tf.zeros(6)) @ v


def pieces(variable):
    w, v = variable(6, 12), variable(12, CLASSES)
    def run(x):
        a, b, c = tf.split(x @ w, 3, axis=1)
        y = tf.concat([tf.cumsum(a, 1), tf.reverse(b, [1]), tf.roll(c, 1, 1)], 1)
        return tf.where(y > 0, y, tf.exp(tf.minimum(y, 0.0)) - 1) @ v
    return run


def gathers(variable):
    w, table = variable(6, 8), variable(30, 8, CLASSES)
    def run(x):
        index = tf.cast(tf.abs(x[:, 0]) * 10, tf.int32) % 30
        return tf.einsum("bi,bio->bo", x @ w, tf.gather(table, index))
    return run


def top(variable):
    w, v = variable(6, 12), variable(5, CLASSES)
    return lambda x: tf.nn.top_k(x @ w, 5).values @ v


def normal_equations(variable):
    w, v = variable(6, 16), variable(4, 4, CLASSES)
    def run(x):
        y = tf.reshape(x @ w, [-1, 4, 4])
        y = tf.matmul(y, y, transpose_b=True) / 4 + tf.eye(4)
        return tf.einsum("bij,ijo->bo", tf.linalg.band_part(y, -1, 0), v)
    return run


def statistics(variable):
    w, v = variable(6, 8), variable(8, CLASSES)
    def run(x):
        mean, variance = tf.nn.moments(x @ w, [1], keepdims=True)
        y = tf.nn.l2_normalize(((x @ w) - mean) * tf.math.rsqrt(variance + 1e-3), 1)
        return (y * tf.math.reduce_logsumexp(x, 1, keepdims=True) + tf.math.erf(y)) @ v
    return run


def scatter(variable):
    w, v = variable(6, 8), variable(8, CLASSES)
    def run(x):
        y = tf.transpose(x @ w)
        y = tf.tensor_scatter_nd_update(y, [[1], [3]], y[:2])
        y = tf.tensor_scatter_nd_add(y, [[0], [0]], y[4:6])
        return tf.transpose(y) @ v
    return run


def segments(variable):
    w, v = variable(6, 8), variable(4, CLASSES)
    return lambda x: tf.transpose(tf.math.unsorted_segment_sum(
        tf.transpose(x @ w), [0, 1, 1, 2, 3, 3, 0, 2], 4)) @ v


def one_hot_mix(variable):
    w, v = variable(6, 8), variable(8, CLASSES)
    def run(x):
        y = tf.nn.softmax(x @ w)
        return (y + tf.one_hot(tf.argmax(x @ w, 1), 8) + tf.clip_by_value(y, 0.1, 0.5)) @ v
    return run


def images(variable):
    k, v = variable(2, 2, 1, 4), variable(4 * 20, CLASSES)
    def run(x):
        y = tf.reshape(x, [-1, 2, 3, 1])
        y = tf.nn.conv2d(tf.pad(y, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT"), k, 1, "SAME")
        y = tf.nn.depth_to_space(tf.nn.space_to_depth(y[:, :, :4], 2), 2)
        y = tf.concat([y, y[:, :, :1]], 2)
        return tf.reshape(y, [-1, 80]) @ v
    return run


FUNCTIONS = {f.__name__: functools.partial(function_case, f) for f in (
    loop_while, loop_dynamic, condition, mapped, scanned, pieces, gathers, top, normal_equations, statistics, scatter,
    segments, one_hot_mix, images)}
GROUPS = {"layers": LAYERS, "keras": {n: application(n, s) for n, s in APPLICATIONS.items()}, "functions": FUNCTIONS}

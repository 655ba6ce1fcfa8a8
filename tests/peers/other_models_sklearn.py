"""Models of scikit-learn for other_exporters.py: each is exported by skl2onnx."""
import functools

import numpy as np
import onnx
import onnx.utils
from skl2onnx import to_onnx
from sklearn.neural_network import MLPClassifier, MLPRegressor

RECORDS, BATCH, CLASSES = 8, 4, 3


def classifier(path, steps, rate, activation):
    """Trains as MLPClassifier.partial_fit() does, without momentum and penalty."""
    generator = np.random.default_rng(7)
    x = generator.standard_normal((RECORDS, 6)).astype(np.float32)
    labels = np.arange(RECORDS) % CLASSES
    net = MLPClassifier(hidden_layer_sizes=(8, 5), activation=activation, solver="sgd", learning_rate_init=rate, momentum=0,
                        alpha=0, batch_size=BATCH, shuffle=False, random_state=3, nesterovs_momentum=False)
    net.partial_fit(x[:BATCH], labels[:BATCH], classes=range(CLASSES))
    # The nodes that make labels of the probabilities have ops of ai.onnx.ml.
    whole = to_onnx(net, x[:1], options={id(net): {"zipmap": False}})
    onnx.save(onnx.utils.Extractor(whole).extract_model(["X"], ["probabilities"]), path)
    losses = []
    for i in range(steps):
        rows = [(i * BATCH + r) % RECORDS for r in range(BATCH)]
        chances = net.predict_proba(x[rows])
        losses.append(-np.mean(np.log(chances[np.arange(BATCH), labels[rows]])))
        net.partial_fit(x[rows], labels[rows])
    return {"inputs": {"X": x}, "labels": labels.astype(np.int64), "losses": losses,
            "loss": ", from_logits: false"}


def regressor(path, steps, rate):
    generator = np.random.default_rng(7)
    x = generator.standard_normal((RECORDS, 6)).astype(np.float32)
    y = generator.standard_normal(RECORDS).astype(np.float32)
    net = MLPRegressor(hidden_layer_sizes=(8,), solver="sgd", learning_rate_init=rate * 2, momentum=0, alpha=0, batch_size=BATCH,
                       shuffle=False, random_state=3, nesterovs_momentum=False)
    net.partial_fit(x[:BATCH], y[:BATCH])
    onnx.save(to_onnx(net, x[:1]), path)
    losses = []
    for i in range(steps):  # its loss is half of the mean square
        rows = [(i * BATCH + r) % RECORDS for r in range(BATCH)]
        losses.append(np.mean((net.predict(x[rows]) - y[rows]) ** 2))
        net.partial_fit(x[rows], y[rows])
    return {"inputs": {"X": x}, "labels": y[:, None], "losses": losses}


GROUPS = {"sklearn": {**{f"mlp_{a}": functools.partial(classifier, activation=a)
                         for a in ("relu", "tanh", "logistic", "identity")},
                      "regressor": regressor}}

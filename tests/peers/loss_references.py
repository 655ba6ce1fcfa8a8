#!/usr/bin/env python3
"""Writes the references of losses and metrics: tests/daemon/losses/losses.txt and metrics.txt.

    loss_references.py [FOLDER]

losses.txt: of each case the losses of PyTorch at some of 50 steps of plain SGD in float64, and the
weights after them. metrics.txt: values of torchmetrics and scikit-learn, which must agree first.
tests/daemon/losses_test.cc and metrics_recipes_test.cc make the same data by the same formulas, and
train the same models. Needs torch, torchvision, torchmetrics and scikit-learn.
"""
import pathlib
import sys

import numpy as np
import sklearn.metrics
import torch
import torchmetrics
import torchmetrics.functional as tm
import torchmetrics.functional.classification as tmc
from torch.nn import functional as F
from torchvision.ops import sigmoid_focal_loss

HERE = pathlib.Path(__file__).resolve().parent
RECORDS, BATCH, RATE, STEPS = 24, 6, 0.1, 50
SHOWN = (0, 1, 2, 10, 30, 49)


def noise(shape, seed):
    """Numbers between -1 and 1 that look random, and are exact in float32."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64) + seed
    return (((i * i * 31 + i * 17 + 7) % 1021 - 510) / 512.0).reshape(shape)


def classes(shape, count, seed=0):
    i = np.arange(int(np.prod(shape)), dtype=np.int64) + seed
    return ((i * i * 5 + i * 3 + i // 4) % count).reshape(shape)


def probabilities(shape, seed):
    """Rows of positive numbers whose sum is 1; classes along axis 1."""
    p = noise(shape, seed) + 1.25
    return p / p.sum(axis=1, keepdims=True)


def weights(units):
    return [torch.tensor(noise(shape, seed) * scale, requires_grad=True) for shape, seed, scale in
            (((5, 4), 1000, 1.5), ((4,), 2000, 0.125), ((4, units), 3000, 1.5),
             ((units,), 4000, 0.125))]


def forward(w, x):
    return torch.tanh(x @ w[0] + w[1]) @ w[2] + w[3]


def ignored(labels):
    out = labels.copy()
    out.reshape(-1)[::5] = -100
    return out


def sequences(first):
    """Labels [RECORDS,2] of two classes, from `first` on, and their lengths: 0, 1 or 2."""
    return classes((RECORDS, 2), 2) + first, np.arange(RECORDS) % 3


def padded(first):
    labels, lengths = sequences(first)
    labels[np.arange(2) >= lengths[:, None]] = -1
    return labels


def ctc(y, labels, label_lengths, blank, input_lengths=None, **kwargs):
    """The outputs are [N,4,3]."""
    logs = torch.log_softmax(y.reshape(-1, 4, 3), 2).transpose(0, 1)
    if input_lengths is None:
        input_lengths = torch.full((y.shape[0],), 4)
    return F.ctc_loss(logs, labels, input_lengths, label_lengths, blank=blank, **kwargs)


CLASS_WEIGHTS = torch.tensor([0.5, 2.0, 1.25], dtype=torch.float64)
SHAPE3 = (RECORDS, 3)


def loss_cases():
    """Name, units of the output, labels, function of output and labels."""
    hard = classes((RECORDS,), 3)
    many = classes((RECORDS, 4), 3)
    cross = F.cross_entropy
    last = lambda y: y.reshape(-1, 4, 3).transpose(1, 2)
    axis1 = lambda y: y.reshape(-1, 3, 4)
    binary = classes(SHAPE3, 2).astype(np.float64)
    values = noise(SHAPE3, 5000) * 2
    yield "cross_entropy", 3, hard, lambda y, t: cross(y, t)
    yield "smoothing", 3, hard, lambda y, t: cross(y, t, label_smoothing=0.1)
    yield "class_weights", 3, hard, lambda y, t: cross(y, t, weight=CLASS_WEIGHTS)
    yield "tokens", 12, ignored(many), lambda y, t: cross(last(y), t)
    yield "pixels", 12, ignored(many), lambda y, t: cross(
        axis1(y), t, weight=CLASS_WEIGHTS, label_smoothing=0.2)
    yield "soft", 3, probabilities(SHAPE3, 6000), lambda y, t: cross(y, t)
    yield "soft_weights", 12, probabilities((RECORDS, 3, 4), 6000), lambda y, t: cross(
        axis1(y), t, weight=CLASS_WEIGHTS, label_smoothing=0.1)
    yield "probabilities", 3, hard, lambda y, t: F.nll_loss(torch.log(torch.softmax(y, 1)), t)
    yield "binary", 3, binary, lambda y, t: F.binary_cross_entropy_with_logits(y, t)
    yield "binary_weight", 3, binary, lambda y, t: F.binary_cross_entropy_with_logits(
        y, t, pos_weight=torch.tensor(2.5, dtype=torch.float64))
    yield "binary_probabilities", 3, binary, lambda y, t: F.binary_cross_entropy(
        torch.sigmoid(y), t)
    yield "focal", 3, binary, lambda y, t: sigmoid_focal_loss(y, t, reduction="mean")
    yield "focal_plain", 3, binary, lambda y, t: sigmoid_focal_loss(
        y, t, alpha=-1, gamma=1.5, reduction="mean")
    yield "hinge", 3, binary, lambda y, t: torch.clamp(1 - (2 * t - 1) * y, min=0).mean()
    yield "mse", 3, values, F.mse_loss
    yield "l1", 3, values, F.l1_loss
    yield "huber", 3, values, lambda y, t: F.huber_loss(y, t, delta=0.7)
    yield "smooth_l1", 3, values, lambda y, t: F.smooth_l1_loss(y, t, beta=0.3)
    yield "log_cosh", 3, values, lambda y, t: torch.log(torch.cosh(y - t)).mean()
    yield "poisson", 3, classes(SHAPE3, 4).astype(np.float64), F.poisson_nll_loss
    yield "kl_div", 3, probabilities(SHAPE3, 6000), lambda y, t: F.kl_div(
        torch.log_softmax(y, 1), t, reduction="batchmean")
    yield "cosine", 3, values, lambda y, t: (1 - F.cosine_similarity(y, t)).mean()
    yield "triplet", 6, None, lambda y, t: F.triplet_margin_loss(
        *y.reshape(-1, 3, 2).unbind(1), margin=0.8)
    full = torch.full((BATCH,), 2)
    yield "ctc", 12, sequences(1)[0], lambda y, t: ctc(y, t, full, 0)
    yield "ctc_padded", 12, padded(0), lambda y, t: ctc(y, t, (t >= 0).sum(1), 2)
    # The labels, the lengths of the outputs (1 to 4) and those of the labels: some rows are too
    # short for their labels.
    labels, lengths = sequences(1)
    packed = np.concatenate(
        [labels, 1 + np.arange(RECORDS)[:, None] % 4, lengths[:, None]], axis=1)
    yield "ctc_lengths", 12, packed, lambda y, t: ctc(
        y, t[:, :2], t[:, 3], 0, t[:, 2], zero_infinity=True)
    # A class in column 0, and the numbers that the other outputs are compared with.
    both = np.concatenate([hard[:, None].astype(np.float64), noise((RECORDS, 5), 0)], axis=1)
    yield "sum", 8, both, lambda y, t: cross(y[:, :3], t[:, 0].long(), label_smoothing=0.1) + \
        0.1 * F.mse_loss(y[:, 3:], t[:, 1:])


def line(name, numbers):
    return name + "".join(" %.17g" % float(v) for v in numbers) + "\n"


def write_losses(path):
    text = ""
    x = torch.tensor(noise((RECORDS, 5), 0))
    for name, units, labels, loss_of in loss_cases():
        w = weights(units)
        losses = []
        for step in range(STEPS):
            rows = slice(step * BATCH % RECORDS, step * BATCH % RECORDS + BATCH)
            target = None if labels is None else torch.tensor(labels[rows])
            loss = loss_of(forward(w, x[rows]), target)
            losses.append(loss.item())
            for v, g in zip(w, torch.autograd.grad(loss, w)):
                v.data -= RATE * g
        text += line(name + " losses", [losses[s] for s in SHOWN])
        text += line(name + " weights", [v for each in w for v in each.detach().reshape(-1)])
    path.write_text(text)


# The metrics are of 37 rows, which no size of a batch in the test divides.
ROWS = 37


def outputs(units):
    return forward(weights(units), torch.tensor(noise((ROWS, 5), 0))).detach()


def agreed(ours, theirs):
    """Of torchmetrics and scikit-learn."""
    assert abs(float(ours) - float(theirs)) < 1e-6, (ours, theirs)  # torchmetrics' is of float32
    return float(theirs)


def distance(a, b):
    """Of Levenshtein, between two lists."""
    line = list(range(len(b) + 1))
    for i, x in enumerate(a):
        before, line = line, [i + 1]
        for j, y in enumerate(b):
            line.append(min(before[j] + (x != y), before[j + 1] + 1, line[j] + 1))
    return line[-1]


def as_text(row):
    """Class 0 is the space between words."""
    return "".join(" abcdefgh"[c] for c in row)


def text_rows():
    """Predictions and labels of the rows: of tokens, and of a CTC loss with blank 2."""
    y = outputs(24).reshape(ROWS, 6, 4) * 2
    t = classes((ROWS, 6), 4)
    t.reshape(-1)[::7] = -100
    best = y.argmax(2).numpy()
    tokens = [(list(best[i][t[i] >= 0]), list(t[i][t[i] >= 0])) for i in range(ROWS)]
    path = outputs(12).reshape(ROWS, 4, 3).argmax(2).numpy()
    wanted, lengths = classes((ROWS, 2), 2), np.arange(ROWS) % 3
    lists = []
    for i in range(ROWS):
        merged = [c for k, c in enumerate(path[i]) if k == 0 or c != path[i][k - 1]]
        lists.append(([c for c in merged if c != 2], list(wanted[i][:lengths[i]])))
    return y, t, tokens, lists


def pair_rows():
    """Two labels of two classes in each row. Both axes fit, so that axis 1 has the classes."""
    return outputs(4).reshape(ROWS, 2, 2), torch.tensor(classes((ROWS, 2), 2))


def text_numbers():
    """Values by the definitions. torchmetrics has no bits of a token; they are log2 of perplexity."""
    y, t, tokens, lists = text_rows()
    found = {}
    for kind, rows in (("text", tokens), ("ctc", lists)):
        edits = [distance(a, b) for a, b in rows]
        words = [(as_text(a).split(), as_text(b).split()) for a, b in rows]
        found[kind + " edit_distance"] = sum(edits) / ROWS
        found[kind + " exact_match"] = sum(a == b for a, b in rows) / ROWS
        found[kind + " cer"] = sum(edits) / sum(len(b) for _, b in rows)
        found[kind + " wer"] = sum(distance(a, b) for a, b in words) / sum(len(b) for _, b in words)
    target = torch.tensor(t.reshape(-1))
    pairs, wanted = pair_rows()
    found["pairs exact_match"] = float((pairs.argmax(1) == wanted).all(1).double().mean())
    bits = float(F.cross_entropy(y.reshape(-1, 4), target, ignore_index=-100)) / np.log(2)
    found["text bits_per_token"] = bits
    found["text bits_per_byte"] = bits / 3.5
    return found


def text_metrics():
    y, t, tokens, lists = text_rows()
    found = text_numbers()
    for kind, rows in (("text", tokens), ("ctc", lists)):
        made, wanted = [as_text(a) for a, _ in rows], [as_text(b) for _, b in rows]
        agreed(tm.text.edit_distance(made, wanted), found[kind + " edit_distance"])
        agreed(tm.text.char_error_rate(made, wanted), found[kind + " cer"])
        agreed(tm.text.word_error_rate(made, wanted), found[kind + " wer"])
    agreed(tmc.multiclass_exact_match(y.permute(0, 2, 1), torch.tensor(t), num_classes=4,
                                      ignore_index=-100), found["text exact_match"])
    pairs, wanted = pair_rows()
    agreed(tmc.multiclass_exact_match(pairs, wanted, num_classes=2),
           found["pairs exact_match"])
    agreed(np.log2(float(tm.text.perplexity(y, torch.tensor(t), ignore_index=-100))),
           found["text bits_per_token"])
    return found


def write_metrics(path):
    found = {}
    # Classes: 4 of them, every fifth label ignored.
    y = outputs(4) * 3
    labels = ignored(classes((ROWS,), 4))
    t = torch.tensor(labels)
    kept = labels != -100
    hard, guess = labels[kept], y.argmax(1).numpy()[kept]
    kwargs = dict(num_classes=4, ignore_index=-100)
    sk = sklearn.metrics
    found["classes accuracy"] = agreed(
        tmc.multiclass_accuracy(y, t, average="micro", **kwargs), sk.accuracy_score(hard, guess))
    found["classes top_2"] = agreed(
        tmc.multiclass_accuracy(y, t, average="micro", top_k=2, **kwargs),
        sk.top_k_accuracy_score(hard, y.numpy()[kept], k=2))
    for name, ours, theirs in (
            ("precision", tmc.multiclass_precision, sk.precision_score),
            ("recall", tmc.multiclass_recall, sk.recall_score),
            ("f1", tmc.multiclass_f1_score, sk.f1_score)):
        for average in ("macro", "micro"):
            key = "classes " + name + ("_micro" if average == "micro" else "")
            found[key] = agreed(ours(y, t, average=average, **kwargs),
                                theirs(hard, guess, average=average))
    found["classes iou"] = agreed(tmc.multiclass_jaccard_index(y, t, **kwargs),
                                  sk.jaccard_score(hard, guess, average="macro"))
    found["classes matthews"] = agreed(tmc.multiclass_matthews_corrcoef(y, t, **kwargs),
                                       sk.matthews_corrcoef(hard, guess))
    found["classes perplexity"] = float(
        tm.text.perplexity(y.reshape(1, ROWS, 4), t.reshape(1, ROWS), ignore_index=-100))
    found["classes auc"] = float(
        tmc.multiclass_auroc(torch.softmax(y, 1), t, thresholds=200, **kwargs))
    found["classes exact_auc"] = agreed(
        tmc.multiclass_auroc(torch.softmax(y, 1), t, thresholds=None, **kwargs),
        sk.roc_auc_score(hard, torch.softmax(y, 1).numpy()[kept], multi_class="ovr"))
    found["classes confusion"] = sk.confusion_matrix(hard, guess, labels=range(4)).reshape(-1)
    # A class that neither labels nor predictions have does not count.
    few = classes((ROWS,), 2)
    y2 = outputs(4).clone()
    y2[:, 3] = -50
    found["absent f1"] = agreed(tmc.multiclass_f1_score(y2, torch.tensor(few), num_classes=4),
                                sk.f1_score(few, y2.argmax(1).numpy(), average="macro"))
    # Pixels: [N,3,4] with classes along axis 1.
    y3 = outputs(12).reshape(ROWS, 3, 4)
    t3 = classes((ROWS, 4), 3)
    found["pixels iou"] = agreed(
        tmc.multiclass_jaccard_index(y3, torch.tensor(t3), num_classes=3),
        sk.jaccard_score(t3.reshape(-1), y3.argmax(1).numpy().reshape(-1), average="macro"))
    found["pixels top_2"] = agreed(
        tmc.multiclass_accuracy(y3, torch.tensor(t3), num_classes=3, average="micro", top_k=2),
        sk.top_k_accuracy_score(t3.reshape(-1), y3.permute(0, 2, 1).reshape(-1, 3).numpy(), k=2))
    # Binary labels, three for each row.
    yb = outputs(3) * 2
    tb = classes((ROWS, 3), 2)
    p, tt = torch.sigmoid(yb).reshape(-1), torch.tensor(tb).reshape(-1)
    flat, side = tb.reshape(-1), (yb.reshape(-1) > 0).numpy().astype(int)
    for name, ours, theirs in (
            ("accuracy", tmc.binary_accuracy, sk.accuracy_score),
            ("precision", tmc.binary_precision, sk.precision_score),
            ("recall", tmc.binary_recall, sk.recall_score),
            ("f1", tmc.binary_f1_score, sk.f1_score),
            ("iou", tmc.binary_jaccard_index, sk.jaccard_score),
            ("matthews", tmc.binary_matthews_corrcoef, sk.matthews_corrcoef)):
        found["binary " + name] = agreed(ours(p, tt), theirs(flat, side))
    found["binary auc"] = float(tmc.binary_auroc(p, tt, thresholds=50))
    found["binary exact_auc"] = agreed(
        tmc.binary_auroc(p, tt, thresholds=None), sk.roc_auc_score(flat, p))
    # Scores of few values: ties count half.
    coarse = torch.round(yb * 2) / 2
    found["ties exact_auc"] = agreed(
        tmc.binary_auroc(torch.sigmoid(coarse).reshape(-1), tt, thresholds=None),
        sk.roc_auc_score(flat, coarse.reshape(-1)))
    found["binary confusion"] = sk.confusion_matrix(flat, side).reshape(-1)
    # Values, three for each row.
    yv, tv = outputs(3), torch.tensor(noise((ROWS, 3), 5000) * 2)
    found["values mae"] = agreed(tm.mean_absolute_error(yv, tv), sk.mean_absolute_error(tv, yv))
    found["values mse"] = agreed(tm.mean_squared_error(yv, tv), sk.mean_squared_error(tv, yv))
    found["values rmse"] = float(tm.mean_squared_error(yv, tv, squared=False))
    found["values r2"] = agreed(tm.r2_score(yv, tv), sk.r2_score(tv, yv))
    found.update(text_metrics())
    path.write_text("".join(line(k, np.atleast_1d(v)) for k, v in found.items()))


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "daemon/losses"
    folder.mkdir(exist_ok=True)
    write_losses(folder / "losses.txt")
    write_metrics(folder / "metrics.txt")
    print("torch", torch.__version__, "torchmetrics", torchmetrics.__version__, "scikit-learn",
          sklearn.__version__)


if __name__ == "__main__":
    main()

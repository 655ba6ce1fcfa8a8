#!/usr/bin/env python3
"""Trains a small network in float64 with each optimizer of PyTorch, and asks its schedules for
their rates. The results are the references of tests/daemon/recipes_test.cc.

    python3 tests/peers/recipe_references.py [FOLDER]    # default: tests/daemon/recipes

Each file begins with lines "set: KEY=VALUE" for the job file. The numbers are the weights after 50
steps, variable by variable, or, in schedules/, the rates of the first steps. PyTorch has neither
LARS, LAMB nor Lion, so they are written here as their papers have them.
"""

import math
import os
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

ROWS, FEATURES, HIDDEN, OUTPUTS, BATCH, STEPS = 24, 5, 6, 3, 12, 50


def data():
    x = [[((i * 7 + j * 13) % 32 - 16) / 16 for j in range(FEATURES)] for i in range(ROWS)]
    y = [[((i * 5 + j * 11) % 16 - 8) / 8 for j in range(OUTPUTS)] for i in range(ROWS)]
    return torch.tensor(x), torch.tensor(y)


def initial_weights():
    """d1/kernel, d1/bias, d2/kernel, d2/bias: multiples of 1/64."""
    shapes, out, k = [(FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, OUTPUTS), (OUTPUTS,)], [], 0
    for shape in shapes:
        count = math.prod(shape)
        values = [(((k + i) * 37 + 11) % 64 - 32) / 64 for i in range(count)]
        k += count
        out.append(torch.tensor(values).reshape(shape).requires_grad_())
    return out


def gradients(weights, step, batch=BATCH):
    x, y = data()
    rows = [(step * batch + i) % ROWS for i in range(batch)]
    w1, b1, w2, b2 = weights
    out = torch.tanh(x[rows] @ w1 + b1) @ w2 + b2
    loss = ((out - y[rows]) ** 2).mean()
    for w in weights:
        w.grad = None
    loss.backward()
    return loss


class ByPaper(torch.optim.Optimizer):
    """An optimizer whose rule is a function of the weight, its gradient, its state, the group."""

    def __init__(self, params, rule, **defaults):
        super().__init__(params, defaults)
        self.rule = rule

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["t"] = state.get("t", 0) + 1
                p.copy_(self.rule(p, p.grad, state, group))


def lion(p, g, s, o):
    b1, b2 = o["betas"]
    m = s.get("m", torch.zeros_like(p))
    update = torch.sign(b1 * m + (1 - b1) * g) + o["weight_decay"] * p
    s["m"] = b2 * m + (1 - b2) * g
    return p - o["lr"] * update


def lamb(p, g, s, o):
    (b1, b2), t = o["betas"], s["t"]
    s["m"] = b1 * s.get("m", torch.zeros_like(p)) + (1 - b1) * g
    s["v"] = b2 * s.get("v", torch.zeros_like(p)) + (1 - b2) * g * g
    r = s["m"] / (1 - b1**t) / (torch.sqrt(s["v"] / (1 - b2**t)) + o["eps"]) + o["weight_decay"] * p
    a, b = p.norm().item(), r.norm().item()
    return p - o["lr"] * (a / b if a > 0 and b > 0 else 1.0) * r


def lars(p, g, s, o):
    a, b = p.norm().item(), g.norm().item()
    local = o["trust"] * a / (b + o["weight_decay"] * a) if a > 0 and b > 0 else 1.0
    s["u"] = o["momentum"] * s.get("u", torch.zeros_like(p)) + o["lr"] * local * (
        g + o["weight_decay"] * p)
    return p - s["u"]


def muon(weights):
    """torch.optim.Muon, whose steps of Newton and Schulz are done in float64, and AdamW."""
    torch.Tensor.bfloat16 = lambda self: self.clone()
    matrices = torch.optim.Muon([w for w in weights if w.ndim == 2], lr=0.02)
    vectors = torch.optim.AdamW([w for w in weights if w.ndim != 2], lr=0.02, weight_decay=0.1)
    return [matrices, vectors]


def muon_rms(weights):
    torch.Tensor.bfloat16 = lambda self: self.clone()
    matrices = torch.optim.Muon([weights[0]], lr=0.02, adjust_lr_fn="match_rms_adamw",
                                weight_decay=0, nesterov=False)
    others = torch.optim.AdamW(weights[1:], lr=0.02, weight_decay=0)
    return [matrices, others]


O = torch.optim
# The name of the file, the value of `optimizer` in the job file, and the optimizers in PyTorch.
OPTIMIZERS = [
    ("sgd", "{name: sgd, learning_rate: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.01}",
     lambda w: O.SGD(w, 0.1, 0.9, nesterov=True, weight_decay=0.01)),
    ("adam", "{name: adam, learning_rate: 0.02, weight_decay: 0.01}",
     lambda w: O.Adam(w, 0.02, weight_decay=0.01)),
    ("adamw", "{name: adamw, learning_rate: 0.02, beta_1: 0.8}",
     lambda w: O.AdamW(w, 0.02, betas=(0.8, 0.999))),
    ("nadam", "{name: nadam, learning_rate: 0.02, weight_decay: 0.01}",
     lambda w: O.NAdam(w, 0.02, weight_decay=0.01)),
    ("nadamw", "{name: nadam, learning_rate: 0.02, weight_decay: 0.1, decoupled: true}",
     lambda w: O.NAdam(w, 0.02, weight_decay=0.1, decoupled_weight_decay=True)),
    ("radam", "{name: radam, learning_rate: 0.02, weight_decay: 0.01}",
     lambda w: O.RAdam(w, 0.02, weight_decay=0.01)),
    ("radamw", "{name: radam, learning_rate: 0.02, weight_decay: 0.1, decoupled: true, "
     "beta_2: 0.9}",
     lambda w: O.RAdam(w, 0.02, betas=(0.9, 0.9), weight_decay=0.1, decoupled_weight_decay=True)),
    ("adamax", "{name: adamax, learning_rate: 0.02, weight_decay: 0.01}",
     lambda w: O.Adamax(w, 0.02, weight_decay=0.01)),
    ("adagrad", "{name: adagrad, learning_rate: 0.1, lr_decay: 0.01, initial_accumulator: 0.1, "
     "weight_decay: 0.01}",
     lambda w: O.Adagrad(w, 0.1, 0.01, 0.01, initial_accumulator_value=0.1)),
    ("rmsprop", "{name: rmsprop, learning_rate: 0.01}", lambda w: O.RMSprop(w, 0.01)),
    ("rmsprop_centered", "{name: rmsprop, learning_rate: 0.005, rho: 0.9, momentum: 0.8, "
     "centered: true, weight_decay: 0.01}",
     lambda w: O.RMSprop(w, 0.005, 0.9, weight_decay=0.01, momentum=0.8, centered=True)),
    ("adadelta", "{name: adadelta, learning_rate: 1, weight_decay: 0.01}",
     lambda w: O.Adadelta(w, 1, weight_decay=0.01)),
    ("adafactor", "{name: adafactor, learning_rate: 0.05, weight_decay: 0.01}",
     lambda w: O.Adafactor(w, 0.05, weight_decay=0.01)),
    ("lion", "{name: lion, learning_rate: 0.01, weight_decay: 0.1}",
     lambda w: ByPaper(w, lion, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)),
    ("lamb", "{name: lamb, learning_rate: 0.02}",
     lambda w: ByPaper(w, lamb, lr=0.02, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01)),
    ("lars", "{name: lars, learning_rate: 2, trust_coefficient: 0.01, weight_decay: 0.001}",
     lambda w: ByPaper(w, lars, lr=2, momentum=0.9, trust=0.01, weight_decay=0.001)),
    ("muon", "{name: muon, learning_rate: 0.02}", muon),
    ("muon_rms", "{name: muon, learning_rate: 0.02, match_rms: true, nesterov: false, "
     "weight_decay: 0, groups: [{match: d2/*, orthogonal: false}]}", muon_rms),
    ("rprop", "{name: rprop, learning_rate: 0.01}", lambda w: O.Rprop(w, 0.01)),
    ("asgd", "{name: asgd, learning_rate: 0.1, lambd: 0.01, averages_from: 10, weight_decay: 0.01}",
     lambda w: O.ASGD(w, 0.1, lambd=0.01, t0=10, weight_decay=0.01)),
    ("lbfgs", "{name: lbfgs, learning_rate: 0.5, history: 4}",
     lambda w: O.LBFGS(w, 0.5, max_iter=1, history_size=4, tolerance_grad=0)),
    ("groups", "{name: adamw, learning_rate: 0.02, groups: [{match: d2/bias, freeze: true}, "
     "{match: [\"*/bias\", none], weight_decay: 0, learning_rate: 0.01}, "
     "{match: d2/*, lr_scale: 0.5, beta_1: 0.5}]}",
     lambda w: O.AdamW([{"params": [w[0]]}, {"params": [w[1]], "weight_decay": 0, "lr": 0.01},
                        {"params": [w[2]], "lr": 0.01, "betas": (0.5, 0.999)}], 0.02)),
    ("layer_decay", "{name: adam, learning_rate: 0.02, layer_decay: {factor: 0.5, "
     "layers: [d1/*, d2/*]}}",
     lambda w: O.Adam([{"params": w[:2], "lr": 0.01}, {"params": w[2:]}], 0.02)),
    ("clip_norm", "{name: adam, learning_rate: 0.02, clip_norm: 0.05}",
     lambda w: O.Adam(w, 0.02)),
    ("clip_value", "{name: sgd, learning_rate: 0.1, clip_value: 0.01}", lambda w: O.SGD(w, 0.1)),
    ("sam", "{name: sgd, learning_rate: 0.1, momentum: 0.9, sam: 0.1}",
     lambda w: O.SGD(w, 0.1, 0.9)),
    ("ema", "{name: adam, learning_rate: 0.02, ema: 0.9}", lambda w: O.Adam(w, 0.02)),
]


def ascend(weights, step, radius=0.1):
    """Gradients at the weights plus a step along the gradients; the weights stay."""
    norm = torch.sqrt(sum((w.grad**2).sum() for w in weights))
    here = [w.detach().clone() for w in weights]
    with torch.no_grad():
        for w in weights:
            w.add_(w.grad, alpha=radius / (norm.item() + 1e-12))
    gradients(weights, step)
    with torch.no_grad():
        for w, value in zip(weights, here):
            w.copy_(value)


def train(name, make):
    weights = initial_weights()
    made = make(weights)
    optimizers = made if isinstance(made, list) else [made]
    average = [w.detach().clone() for w in weights]
    for step in range(STEPS):
        if name == "lbfgs":
            made.step(lambda: gradients(weights, step, ROWS))
            continue
        gradients(weights, step)
        if name == "sam":
            ascend(weights, step)
        if name == "clip_norm":
            torch.nn.utils.clip_grad_norm_(weights, 0.05)
        if name == "clip_value":
            torch.nn.utils.clip_grad_value_(weights, 0.01)
        for optimizer in optimizers:
            optimizer.step()
        for a, w in zip(average, weights):
            a.mul_(0.9).add_(w.detach(), alpha=0.1)
    return average if name == "ema" else weights


S = torch.optim.lr_scheduler
STEPS = 50
# The name of the file, the value of `lr_scheduler`, and the schedule in PyTorch.
SCHEDULES = [
    ("linear", "{name: linear, decay_steps: 20, alpha: 0.1}",
     lambda o: S.LinearLR(o, 1.0, 0.1, 20)),
    ("cosine", "{name: cosine, alpha: 0.02}", lambda o: S.CosineAnnealingLR(o, STEPS, 0.01)),
    ("step", "{name: step, step_size: 7, gamma: 0.5}", lambda o: S.StepLR(o, 7, 0.5)),
    ("exponential", "{name: exponential, decay_steps: 1, decay_rate: 0.9}",
     lambda o: S.ExponentialLR(o, 0.9)),
    ("polynomial", "{name: polynomial, decay_steps: 30, power: 2.5}",
     lambda o: S.PolynomialLR(o, 30, 2.5)),
    ("multi_step", "{name: multi_step, milestones: [5, 17, 18], gamma: 0.3}",
     lambda o: S.MultiStepLR(o, [5, 17, 18], 0.3)),
    ("cosine_restarts", "{name: cosine_restarts, restart_steps: 6, restart_factor: 2, alpha: 0.02}",
     lambda o: S.CosineAnnealingWarmRestarts(o, 6, 2, 0.01)),
    ("cosine_restarts_equal", "{name: cosine_restarts, restart_steps: 7}",
     lambda o: S.CosineAnnealingWarmRestarts(o, 7)),
    ("one_cycle", "{name: one_cycle}", lambda o: S.OneCycleLR(o, 0.5, STEPS)),
    ("one_cycle_three", "{name: one_cycle, rise: 0.25, div_factor: 10, final_div_factor: 100, "
     "three_phase: true, straight: true}",
     lambda o: S.OneCycleLR(o, 0.5, STEPS, pct_start=0.25, anneal_strategy="linear", div_factor=10,
                            final_div_factor=100, three_phase=True)),
    # As in Transformers, get_inverse_sqrt_schedule(), without the warm-up.
    ("inverse_sqrt", "{name: inverse_sqrt, timescale: 9}",
     lambda o: S.LambdaLR(o, lambda t: 1 / math.sqrt((t + 9) / 9))),
    ("wsd", "{name: wsd, decay_steps: 10, alpha: 0.1}",
     lambda o: S.SequentialLR(o, [S.ConstantLR(o, 1.0), S.LinearLR(o, 1.0, 0.1, 10)], [STEPS - 10])),
    ("wsd_root", "{name: wsd, decay_steps: 10, square_root: true}",
     lambda o: S.LambdaLR(o, lambda t: 1 - math.sqrt(min(max(t - STEPS + 10, 0) / 10, 1)))),
    ("per_epoch", "{name: step, per: epoch, step_size: 3, gamma: 0.5}",
     lambda o: S.LambdaLR(o, lambda t: 0.5 ** (t // 2 // 3))),
]


def rates(make):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.5, momentum=0.9)
    schedule = make(optimizer)
    out = []
    for _ in range(STEPS):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return out


# Series of a number of 40 epochs: noisy and falling, flat with dips, and one with no numbers.
SERIES = {
    "falling": [math.exp(-e / 9) + 0.05 * ((e * e * 7 + 3 * e) % 11) / 11 for e in range(40)],
    "flat": [0.5 - (0.004 if e % 9 == 8 else 0) + 0.00002 * (e % 5) for e in range(40)],
    "broken": [math.nan if e % 4 == 1 else 1.0 - 0.001 * e for e in range(40)],
}
PLATEAUS = [
    ("{}", {}),
    ("{patience: 2, factor: 0.5}", dict(patience=2, factor=0.5)),
    ("{patience: 0, factor: 0.3, cooldown: 3, min_learning_rate: 0.001}",
     dict(patience=0, factor=0.3, cooldown=3, min_lr=0.001)),
    ("{patience: 1, threshold: 0.01, threshold_mode: abs, mode: max}",
     dict(patience=1, threshold=0.01, threshold_mode="abs", mode="max")),
    ("{patience: 1, threshold: 0.02, mode: max, factor: 0.9}",
     dict(patience=1, threshold=0.02, mode="max", factor=0.9)),
    ("{patience: 0, factor: 0.01, threshold: 0.2, epsilon: 0.0001}",
     dict(patience=0, factor=0.01, threshold=0.2, eps=0.0001)),
]


def write_plateaus(path):
    """Of each series and setting: the numbers, and the rate after each."""
    with open(path, "w") as file:
        for name, numbers in SERIES.items():
            file.write(f"series {name}" + "".join(f" {x!r}" for x in numbers) + "\n")
            for text, kwargs in PLATEAUS:
                optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.5)
                schedule = S.ReduceLROnPlateau(optimizer, **kwargs)
                out = []
                for number in numbers:
                    schedule.step(number)
                    out.append(optimizer.param_groups[0]["lr"])
                file.write(f"set {text}\nrates" + "".join(f" {x!r}" for x in out) + "\n")


def write(path, settings, numbers):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        for line in settings:
            file.write(f"set: {line}\n")
        for number in numbers:
            file.write(f"{number!r}\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../daemon/recipes")
    for name, setting, make in OPTIMIZERS:
        flat = torch.cat([w.detach().reshape(-1) for w in train(name, make)])
        more = ["global_batch_size=24"] if name == "lbfgs" else []
        write(f"{folder}/{name}.txt", [f"optimizer={setting}"] + more, flat.tolist())
    for name, setting, make in SCHEDULES:
        write(f"{folder}/schedules/{name}.txt",
              ["optimizer={name: sgd, learning_rate: 0.5}", f"lr_scheduler={setting}"], rates(make))
    write_plateaus(f"{folder}/schedules/plateau.rates")


if __name__ == "__main__":
    main()

"""The networks of the recipes in configs/jobs in PyTorch, with the weights of Leat's variables."""
import torch
from torch import nn
from torch.nn import functional as F


def _dense(weights, name):
    kernel = weights[f"{name}/kernel"]
    layer = nn.Linear(*kernel.shape, bias=f"{name}/bias" in weights)
    layer.weight = nn.Parameter(kernel.T.contiguous())
    if layer.bias is not None:
        layer.bias = nn.Parameter(weights[f"{name}/bias"])
    return layer


def _embedding(weights, name):
    return nn.Embedding.from_pretrained(weights[f"{name}/embeddings"], freeze=False)


def _conv(weights, name, **options):
    kernel = weights[f"{name}/kernel"]
    layer = nn.Conv2d(kernel.shape[1], kernel.shape[0], tuple(kernel.shape[2:]),
                      bias=f"{name}/bias" in weights, **options)
    layer.weight = nn.Parameter(kernel)
    if layer.bias is not None:
        layer.bias = nn.Parameter(weights[f"{name}/bias"])
    return layer


def _batch_norm(weights, name):
    gamma, beta, mean, variance = (weights[f"{name}/{part}"] for part in ("gamma", "beta", "moving_mean", "moving_variance"))
    layer = nn.BatchNorm2d(gamma.shape[0], momentum=0.1)
    layer.weight, layer.bias = nn.Parameter(gamma), nn.Parameter(beta)
    layer.running_mean.copy_(mean)
    layer.running_var.copy_(variance)
    return layer


def _norm(weights, name):
    layer = nn.LayerNorm(weights[f"{name}/gamma"].shape[0])
    layer.weight, layer.bias = nn.Parameter(weights[f"{name}/gamma"]), nn.Parameter(weights[f"{name}/beta"])
    return layer


class Mlp(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.h1, self.h2, self.logits = (_dense(weights, name) for name in ("h1", "h2", "logits"))

    def forward(self, x):
        return self.logits(F.relu(self.h2(F.relu(self.h1(x.flatten(1))))))


class TextClassifier(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.e = _embedding(weights, "e")
        self.c1, self.c2 = (_conv(weights, name, padding="same") for name in ("c1", "c2"))
        self.d1, self.d2 = nn.Dropout(0.3), nn.Dropout(0.5)
        self.logits = _dense(weights, "logits")

    def forward(self, text):
        line = self.e(text).transpose(1, 2).unsqueeze(2)
        x = self.d1(F.max_pool2d(F.relu(self.c1(line)), (1, 2)))
        return self.logits(self.d2(F.adaptive_max_pool2d(F.relu(self.c2(x)), 1).flatten(1)))


class CharLstm(nn.Module):
    """ONNX has the gates in the order i, o, f, c, and PyTorch i, f, c, o."""

    def __init__(self, weights):
        super().__init__()
        self.e, self.logits = _embedding(weights, "e"), _dense(weights, "logits")
        self.d1 = nn.Dropout(0.1)
        self.l1, self.l2 = (self._layer(weights, name) for name in ("l1", "l2"))

    @staticmethod
    def _layer(weights, name):
        def gates(value):
            i, o, f, c = value.chunk(4)
            return nn.Parameter(torch.cat([i, f, c, o]))
        w, r = weights[f"{name}/w"][0], weights[f"{name}/r"][0]
        layer = nn.LSTM(w.shape[1], r.shape[1], batch_first=True)
        layer.weight_ih_l0, layer.weight_hh_l0 = gates(w), gates(r)
        of_input, of_state = weights[f"{name}/b"][0].chunk(2)
        layer.bias_ih_l0, layer.bias_hh_l0 = gates(of_input), gates(of_state)
        return layer

    def forward(self, tokens):
        h1, _ = self.l1(self.e(tokens))
        return self.logits(self.l2(self.d1(h1))[0])


class CharGpt(nn.Module):
    HEADS, BLOCKS = 4, 4

    def __init__(self, weights):
        super().__init__()
        self.of_token, self.of_place = _embedding(weights, "of_token"), _embedding(weights, "of_place")
        for name in ("q", "k", "v", "o", "f", "p"):
            setattr(self, name, nn.ModuleList(_dense(weights, f"{name}{i}") for i in range(self.BLOCKS)))
        for name in ("n", "m"):
            setattr(self, name, nn.ModuleList(_norm(weights, f"{name}{i}") for i in range(self.BLOCKS)))
        self.last, self.logits = _norm(weights, "last"), _dense(weights, "logits")
        self.drop = nn.Dropout(0.1)

    def forward(self, tokens):
        x = self.drop(self.of_token(tokens) + self.of_place(torch.arange(tokens.shape[1])))
        for i in range(self.BLOCKS):
            n = self.n[i](x)
            q, k, v = (each[i](n).unflatten(-1, (self.HEADS, -1)).transpose(1, 2) for each in (self.q, self.k, self.v))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            y = x + self.drop(self.o[i](a))
            x = y + self.drop(self.p[i](F.gelu(self.f[i](self.m[i](y)))))
        return self.logits(self.last(x))


class ResNet18(nn.Module):
    """The names of images_resnet18.onnxtxt: block i has ca, ba, cb and bb, and cs and bs where its shape changes."""
    STRIDED = (3, 5, 7)

    def __init__(self, weights):
        super().__init__()
        def pair(conv, norm, stride=1):
            kernel = weights[f"{conv}/kernel"].shape[-1]
            return nn.Sequential(_conv(weights, conv, stride=stride, padding=kernel // 2), _batch_norm(weights, norm))
        self.first = pair("c0", "b0")
        self.a = nn.ModuleList(pair(f"ca{i}", f"ba{i}", 2 if i in self.STRIDED else 1) for i in range(1, 9))
        self.b = nn.ModuleList(pair(f"cb{i}", f"bb{i}") for i in range(1, 9))
        self.shortcut = nn.ModuleList(pair(f"cs{i}", f"bs{i}", 2) if i in self.STRIDED else nn.Identity() for i in range(1, 9))
        self.logits = _dense(weights, "logits")

    def forward(self, image):
        x = F.relu(self.first(image))
        for a, b, shortcut in zip(self.a, self.b, self.shortcut):
            x = F.relu(b(F.relu(a(x))) + shortcut(x))
        return self.logits(F.adaptive_avg_pool2d(x, 1).flatten(1))


MODELS = {
    "fashion_mnist_mlp": Mlp,
    "text_classifier": TextClassifier,
    "char_lstm": CharLstm,
    "char_gpt": CharGpt,
    "images_resnet18": ResNet18,
}

"""The models of the comparisons in PyTorch, their batches, and weights under Leat's names."""
import collections

import torch
from torch import nn
from torch.nn import functional as F

GptSize = collections.namedtuple("GptSize", "tokens window width heads blocks")
GPTS = {
    "gpt": GptSize(256, 128, 256, 4, 4),
    "gpt2": GptSize(50304, 1024, 768, 12, 12),  # 124 M parameters of the blocks and the embedding; no tied head
}


class Block(nn.Module):
    """A block of a decoder: causal attention, and two linear layers with GELU."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Tokens [N,window] to the scores [N,window,TOKENS] of the next ones."""

    def __init__(self, size):
        super().__init__()
        self.window = size.window
        self.tokens, self.positions = nn.Embedding(size.tokens, size.width), nn.Embedding(size.window, size.width)
        self.blocks = nn.Sequential(*(Block(size.width, size.heads) for _ in range(size.blocks)))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, size.tokens, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(self.window, device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


# Models of others, by name: the package that builds them, and the pixels of an image's side.
OTHERS = {
    "vgg11": ("torchvision", 32), "densenet121": ("torchvision", 64), "shufflenet_v2_x1_0": ("torchvision", 64),
    "mobilenet_v2": ("torchvision", 64), "efficientnet_b0": ("torchvision", 64), "convnext_tiny": ("torchvision", 64),
    "resnet18_64": ("torchvision", 64), "resnet50_64": ("torchvision", 64), "mixer_s32_224": ("timm", 224),
    "vit_tiny_patch16_224": ("timm", 224), "unet": ("", 64), "lstm": ("", 0)}
LSTM_TOKENS, LSTM_WINDOW = 256, 64


class Lstm(nn.Module):
    """Tokens [N,window] to the scores [N,window,LSTM_TOKENS] of the next ones."""

    def __init__(self):
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(LSTM_TOKENS, 128), nn.LSTM(128, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, LSTM_TOKENS)

    def forward(self, tokens):
        return self.head(self.lstm(self.tokens(tokens))[0])


class Unet(nn.Module):
    """Three levels of two convolutions each, and back; images [N,3,H,W] to scores [N,10] of whole images."""

    def __init__(self):
        super().__init__()

        def level(inputs, outputs):
            layers = []
            for channels in (inputs, outputs):
                layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            return nn.Sequential(*layers)
        self.down = nn.ModuleList([level(3, 32), level(32, 64), level(64, 128)])
        self.middle = level(128, 256)
        self.ups = nn.ModuleList([nn.ConvTranspose2d(2 * c, c, 2, stride=2) for c in (128, 64, 32)])
        self.up = nn.ModuleList([level(2 * c, c) for c in (128, 64, 32)])
        self.head = nn.Conv2d(32, 10, 1)

    def forward(self, x):
        skips = []
        for level in self.down:
            skips.append(level(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.middle(x)
        for larger, level in zip(self.ups, self.up):
            x = level(torch.cat([skips.pop(), larger(x)], 1))
        return self.head(x).mean((2, 3))


def build_other(model):
    package, side = OTHERS[model]
    if package == "torchvision":
        import torchvision
        return getattr(torchvision.models, model.removesuffix(f"_{side}"))(num_classes=10)
    if package == "timm":
        import timm
        return timm.create_model(model, num_classes=10)
    return Unet() if model == "unet" else Lstm()


def records(model, count):
    """Random inputs and labels of so many records."""
    generator = torch.Generator().manual_seed(0)
    if model == "lstm":
        text = torch.randint(LSTM_TOKENS, (count, LSTM_WINDOW + 1), generator=generator)
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()
    if model in OTHERS:
        side = OTHERS[model][1]
        return (torch.rand((count, 3, side, side), generator=generator),
                torch.randint(10, (count,), generator=generator))
    if model in GPTS:
        text = torch.randint(GPTS[model].tokens, (count, GPTS[model].window + 1), generator=generator)
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()
    shape = {"resnet18": (3, 32, 32), "resnet50": (3, 224, 224)}.get(model, (1, 28, 28))
    return (torch.rand((count, *shape), generator=generator),
            torch.randint(10, (count,), generator=generator))


def loss_of(scores, labels):
    """The mean of the cross-entropy; scores are [N,C] or [N,T,C]."""
    return F.cross_entropy(scores.flatten(0, -2), labels.flatten())


def build(model):
    if model in OTHERS:
        return build_other(model)
    if model in GPTS:
        return Gpt(GPTS[model])
    if model == "resnet50":
        import torchvision  # of the comparisons of these models alone
        return torchvision.models.resnet50(num_classes=10)
    if model == "resnet18":
        import torchvision
        net = torchvision.models.resnet18(num_classes=10)
        # For images of 32 by 32, the first layers keep the size.
        net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
        return net
    if model == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                             nn.ReLU(), nn.Linear(512, 10))
    norm = model == "cnn-bn"

    def block(channels, filters):
        yield nn.Conv2d(channels, filters, 3, padding=1, bias=not norm)
        if norm:
            yield nn.BatchNorm2d(filters, eps=1e-3)  # Keras' epsilon, which is Leat's default
        yield nn.ReLU()
        yield nn.MaxPool2d(2)

    return nn.Sequential(*block(1, 32), *block(32, 64), nn.Flatten(), nn.Linear(3136, 128),
                         nn.ReLU(), nn.Linear(128, 10))


# Names of the layers with weights, in the order of the modules.
LAYERS = {
    "mlp": ["h1", "h2", "logits"],
    "cnn": ["c1", "c2", "d1", "logits"],
    "cnn-bn": ["c1", "b1", "c2", "b2", "d1", "logits"],
}


def leat_weights(model, net):
    """{Leat's variable: numpy array}; a Dense kernel is [in,out], a Conv2D kernel [out,in,h,w]."""
    modules = [m for m in net if isinstance(m, (nn.Linear, nn.Conv2d, nn.BatchNorm2d))]
    out = {}
    for name, module in zip(LAYERS[model], modules, strict=True):
        norm = isinstance(module, nn.BatchNorm2d)
        weight = module.weight.T if isinstance(module, nn.Linear) else module.weight
        out[f"{name}/{'gamma' if norm else 'kernel'}"] = weight
        if module.bias is not None:
            out[f"{name}/{'beta' if norm else 'bias'}"] = module.bias
        if norm:
            out[f"{name}/moving_mean"] = module.running_mean
            out[f"{name}/moving_variance"] = module.running_var
    return {k: v.detach().contiguous().numpy().copy() for k, v in out.items()}


def optimizer(name, parameters):
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    # weight_decay: torch's default is ours, 0.01
    return torch.optim.AdamW(parameters, lr=1e-3)

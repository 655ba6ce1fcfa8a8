"""The models of the comparisons in PyTorch, their batches, and weights under Leat's names."""
import torch
from torch import nn
from torch.nn import functional as F

TOKENS, WINDOW, WIDTH, HEADS, BLOCKS = 256, 128, 256, 4, 4  # of "gpt"


class Block(nn.Module):
    """A block of a decoder: causal attention, and two linear layers with GELU."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Tokens [N,WINDOW] to the scores [N,WINDOW,TOKENS] of the next ones."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(WINDOW))
        return self.head(self.norm(self.blocks(x)))


def records(model, count):
    """Random inputs and labels of so many records."""
    generator = torch.Generator().manual_seed(0)
    if model == "gpt":
        text = torch.randint(TOKENS, (count, WINDOW + 1), generator=generator)
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()
    shape = (3, 32, 32) if model == "resnet18" else (1, 28, 28)
    return (torch.rand((count, *shape), generator=generator),
            torch.randint(10, (count,), generator=generator))


def loss_of(scores, labels):
    """The mean of the cross-entropy; scores are [N,C] or [N,T,C]."""
    return F.cross_entropy(scores.flatten(0, -2), labels.flatten())


def build(model):
    if model == "gpt":
        return Gpt()
    if model == "resnet18":
        import torchvision  # of the comparison of this model alone
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

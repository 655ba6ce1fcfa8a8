"""The models of leat_job.GRAPHS in PyTorch, and their weights under Leat's names."""
import torch
from torch import nn


def build(model):
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

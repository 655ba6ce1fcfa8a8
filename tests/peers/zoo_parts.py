"""Parts that models of timm, torchvision and transformers are made of, one function of [N,16,8,8] each."""
import torch
from torch import nn
from torch.nn import functional as F

CHANNELS, SIDE = 16, 8


class Part(nn.Module):
    """[N,3,8,8] -> a convolution -> the part -> the mean over all pixels or tokens -> scores."""

    def __init__(self, part, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 1)
        self.part = part()
        with torch.no_grad():
            out = self.flat(torch.zeros(2, 3, SIDE, SIDE))
        self.head = nn.Linear(out.shape[1], classes)

    def flat(self, image):
        return self.part(self.stem(image)).flatten(2).mean(2)

    def forward(self, image):
        return self.head(self.flat(image))


class Function(nn.Module):
    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.modules_ = function, nn.ModuleList(modules)

    def forward(self, x):
        return self.function(x, *self.modules_)


class WindowAttention(nn.Module):
    """Swin's: shifted windows, and a bias of relative positions."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(CHANNELS, 3 * CHANNELS)
        self.table = nn.Parameter(torch.randn(49, 2))
        places = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("index", apart[..., 0] * 7 + apart[..., 1])

    def forward(self, x):
        x = torch.roll(x.permute(0, 2, 3, 1), (-2, -2), (1, 2))
        n = x.shape[0]
        x = x.view(n, 2, 4, 2, 4, CHANNELS).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, CHANNELS)
        q, k, v = self.qkv(x).reshape(-1, 16, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index.view(-1)].view(16, 16, 2).permute(2, 0, 1).unsqueeze(0)
        x = ((q * 8 ** -0.5) @ k.transpose(-2, -1) + bias).softmax(-1) @ v
        x = x.transpose(1, 2).reshape(n, 2, 2, 4, 4, CHANNELS).permute(0, 1, 3, 2, 4, 5)
        return torch.roll(x.reshape(n, 8, 8, CHANNELS), (2, 2), (1, 2)).permute(0, 3, 1, 2)


class ClassToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.places = nn.Parameter(torch.randn(1, 1, CHANNELS)), nn.Parameter(torch.randn(1, 65, CHANNELS))
        self.attention = nn.MultiheadAttention(CHANNELS, 4, batch_first=True)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], 1) + self.places
        return self.attention(x, x, x, need_weights=False)[0][:, 0].unsqueeze(-1)


class Standardized(nn.Conv2d):
    """A convolution whose weights are normalized in each step, as those of NFNets and ResNet-v2."""

    def __init__(self):
        super().__init__(CHANNELS, CHANNELS, 3, padding=1)
        self.gain = nn.Parameter(torch.full((CHANNELS, 1, 1, 1), 0.5))

    def forward(self, x):
        weight = F.batch_norm(self.weight.reshape(1, CHANNELS, -1), None, None, weight=self.gain.view(-1),
                              training=True, momentum=0.0, eps=1e-6).reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias, padding=1)


class Recurrent(nn.Module):
    def __init__(self, cell, **options):
        super().__init__()
        self.cell = cell(CHANNELS, 8, batch_first=True, **options)

    def forward(self, x):
        return self.cell(x.flatten(2).transpose(1, 2))[0].transpose(1, 2)


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(CHANNELS, 2 * CHANNELS)
        angles = torch.arange(64.)[:, None] * 100 ** (-torch.arange(8.) / 8)
        self.register_buffer("cos", angles.cos().repeat_interleave(2, -1))
        self.register_buffer("sin", angles.sin().repeat_interleave(2, -1))

    def turn(self, x):
        other = torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return x * self.cos + other * self.sin

    def forward(self, x):
        q, k = self.project(x.flatten(2).transpose(1, 2)).unsqueeze(1).chunk(2, -1)
        return F.scaled_dot_product_attention(self.turn(q), self.turn(k), q).squeeze(1).transpose(1, 2)


class Scaled(nn.Module):
    """Layer scale, and a learned temperature, as in CaiT, XCiT and ConvNeXt."""

    def __init__(self):
        super().__init__()
        self.gamma, self.heat = nn.Parameter(1e-2 * torch.ones(CHANNELS)), nn.Parameter(torch.ones(1, 1, 1))
        self.norm = nn.LayerNorm(CHANNELS)

    def forward(self, x):
        y = F.normalize(self.norm(x.permute(0, 2, 3, 1)).flatten(1, 2), dim=1)
        y = (y.transpose(1, 2) @ y * self.heat).softmax(-1) @ x.flatten(2)
        return x + self.gamma.reshape(1, -1, 1, 1) * y.view_as(x)


class FakeQuantized(nn.Module):
    """A convolution as quantization-aware training sees it: weights of 8 bits by channel, inputs by tensor."""

    def __init__(self):
        super().__init__()
        self.conv = conv()
        self.register_buffer("scale", torch.full((CHANNELS,), 1 / 1024))
        self.register_buffer("zero", torch.zeros(CHANNELS, dtype=torch.int32))

    def forward(self, x):
        weight = torch.fake_quantize_per_channel_affine(self.conv.weight, self.scale, self.zero, 0, -128, 127)
        return F.conv2d(torch.fake_quantize_per_tensor_affine(x, 0.02, 120, 0, 255), weight, self.conv.bias)


def involution(x, kernel):
    n = x.shape[0]
    weights = kernel(x).view(n, 2, 9, 8, 8).unsqueeze(2)
    patches = F.unfold(x, 3, padding=1).view(n, 2, CHANNELS // 2, 9, 8, 8)
    return (weights * patches).sum(3).view(n, CHANNELS, 8, 8)


def split_attention(x, gate):
    parts = torch.stack(x.chunk(2, 1), 1)
    return (parts * gate(x.mean((2, 3))).view(-1, 2, 8).softmax(1)[..., None, None]).sum(1)


def soft_pool(x):
    return (x * x.exp()).sum((2, 3)).div(x.exp().sum((2, 3))).unsqueeze(-1)


def conv(**options):
    return nn.Conv2d(CHANNELS, CHANNELS, options.pop("kernel", 3), **options)


PARTS = {
    "window_attention": WindowAttention, "class_token": ClassToken, "standardized_conv": Standardized,
    "lstm": lambda: Recurrent(nn.LSTM, bidirectional=True), "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN, num_layers=2), "rotary": Rotary, "scaled": Scaled,
    "batch_norm": lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm2d(CHANNELS), conv(), nn.BatchNorm2d(CHANNELS)),
    "group_norm": lambda: nn.Sequential(nn.GroupNorm(4, CHANNELS), conv(), nn.GroupNorm(1, CHANNELS)),
    "instance_norm": lambda: nn.InstanceNorm2d(CHANNELS, affine=True),
    "rms_norm": lambda: nn.Sequential(nn.RMSNorm(8), nn.RMSNorm(8)),
    "local_response_norm": lambda: nn.LocalResponseNorm(5),
    "involution": lambda: Function(involution, nn.Conv2d(CHANNELS, 18, 1)),
    "split_attention": lambda: Function(split_attention, nn.Linear(CHANNELS, CHANNELS)),
    "fold": lambda: Function(lambda x: F.fold(F.unfold(x, 2, stride=2), (8, 8), 2, stride=2)),
    "halo": lambda: Function(lambda x: F.pad(x, [1] * 4).unfold(2, 6, 4).unfold(3, 6, 4).flatten(4).mean(4)),
    "pixel_shuffle": lambda: nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(4)),
    "channel_shuffle": lambda: nn.ChannelShuffle(4),
    "reflect_pad": lambda: nn.Sequential(nn.ReflectionPad2d(1), conv(stride=2, groups=16)),
    "replicate_pad": lambda: nn.ReplicationPad2d((1, 0, 2, 1)),
    "circular_pad": lambda: conv(padding=1, padding_mode="circular"),
    "same_pad": lambda: conv(kernel=(3, 2), padding="same", dilation=2),
    "transposed_conv": lambda: nn.ConvTranspose2d(CHANNELS, 8, 3, stride=2, padding=1, output_padding=1),
    "depthwise": lambda: nn.Sequential(conv(groups=CHANNELS, padding=1), conv(kernel=1, groups=4)),
    "conv1d": lambda: nn.Sequential(nn.Flatten(2), nn.Conv1d(CHANNELS, 8, 5, padding=2)),
    "conv3d": lambda: nn.Sequential(nn.Unflatten(1, (4, 4)), nn.Conv3d(4, 4, 3, padding=1), nn.Flatten(1, 2)),
    "channel_attention": lambda: Function(
        lambda x, c: x * c(x.mean((2, 3)).unsqueeze(1)).sigmoid().view(-1, CHANNELS, 1, 1), nn.Conv1d(1, 1, 3, padding=1)),
    "max_pool_ceil": lambda: nn.MaxPool2d(3, 2, ceil_mode=True),
    "avg_pool_ceil": lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    "lp_pool": lambda: nn.LPPool2d(2, 2),
    "adaptive_avg_pool": lambda: nn.AdaptiveAvgPool2d(3), "adaptive_avg_pool_2": lambda: nn.AdaptiveAvgPool2d((2, 4)),
    "adaptive_max_pool": lambda: nn.AdaptiveMaxPool2d(2), "soft_pool": lambda: Function(soft_pool),
    "bilinear": lambda: Function(lambda x: F.interpolate(x, (13, 5), mode="bilinear")),
    "bilinear_corners": lambda: Function(lambda x: F.interpolate(x, scale_factor=2., mode="bilinear", align_corners=True)),
    "bicubic": lambda: Function(lambda x: F.interpolate(x, (6, 12), mode="bicubic")),
    "bicubic_antialias": lambda: Function(lambda x: F.interpolate(x, (6, 4), mode="bicubic", antialias=True)),
    "nearest": lambda: Function(lambda x: F.interpolate(x, scale_factor=2.)),
    "nearest_exact": lambda: Function(lambda x: F.interpolate(x, (5, 12), mode="nearest-exact")),
    "grid_sample": lambda: Function(lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False)),
    "affine_grid": lambda: Function(lambda x, t: F.grid_sample(
        x, F.affine_grid(t(x.mean((2, 3))).view(-1, 2, 3), x.shape, align_corners=False), align_corners=False),
        nn.Linear(CHANNELS, 6)),
    "fourier": lambda: Function(lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * 0.5, s=(8, 8), norm="ortho")),
    "einsum": lambda: Function(lambda x: torch.einsum("nchw,nkhw->nck", x, x)),
    "cosine": lambda: Function(lambda x: F.cosine_similarity(x, x.roll(1, 1), dim=2)),
    "distance": lambda: Function(lambda x: torch.cdist(x.flatten(2), x.flatten(2).roll(1, 1))),
    "top_k": lambda: Function(lambda x: x.flatten(2).topk(5, 2).values),
    "sort": lambda: Function(lambda x: x.flatten(2).sort(2).values[..., :9]),
    "cumsum": lambda: Function(lambda x: x.cumsum(3)), "cumprod": lambda: Function(lambda x: x.sigmoid().cumprod(3)),
    "var_mean": lambda: Function(lambda x: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-5).sqrt()),
    "std": lambda: Function(lambda x: x.std((2, 3), unbiased=False).unsqueeze(-1)),
    "logsumexp": lambda: Function(lambda x: x.logsumexp(3)), "norm": lambda: Function(lambda x: x.norm(dim=3)),
    "amax_amin": lambda: Function(lambda x: x.amax(3) - x.amin(3)), "median": lambda: Function(lambda x: x.median(3).values),
    "prod": lambda: Function(lambda x: x.tanh().prod(3)), "where": lambda: Function(lambda x: torch.where(x > 0, x, x.exp())),
    "masked_fill": lambda: Function(lambda x: x.masked_fill(x < -1, 0.5)),
    "tril": lambda: Function(lambda x: (x @ x).masked_fill(torch.ones(8, 8).tril() == 0, float("-inf")).softmax(-1) @ x),
    "gather": lambda: Function(lambda x: x.gather(3, x.argsort(3))), "index": lambda: Function(lambda x: x[:, [3, 1, 1]]),
    "index_2": lambda: Function(lambda x: x[:, :, torch.arange(8), torch.arange(8)]),
    "index_add": lambda: Function(lambda x: torch.zeros_like(x).index_add(2, torch.tensor([0, 2, 0]), x[:, :, :3])),
    "scatter": lambda: Function(lambda x: torch.zeros_like(x).scatter(3, x.argsort(3), x)),
    "slice_scatter": lambda: Function(lambda x: torch.slice_scatter(x, x[:, :4] * 2, 1, 2, 6)),
    "copy_slice": lambda: Function(lambda x: _shifted(x)), "flip": lambda: Function(lambda x: x.flip(2, 3)),
    "one_hot": lambda: Function(lambda x: F.one_hot(x.argmax(3), 8).float() * x),
    "repeat": lambda: Function(lambda x: x.repeat(1, 2, 1, 1)), "tile": lambda: Function(lambda x: x.tile(2, 1)),
    "repeat_interleave": lambda: Function(lambda x: x.repeat_interleave(2, 1)),
    "unbind": lambda: Function(lambda x: sum(x.unbind(3))), "split": lambda: Function(lambda x: x.split([4, 7, 5], 1)[1]),
    "tensor_split": lambda: Function(lambda x: x.tensor_split(3, 1)[0]), "as_strided": lambda: Function(lambda x: x[..., ::2]),
    "glu": lambda: nn.GLU(1), "prelu": lambda: nn.PReLU(CHANNELS), "mish": nn.Mish, "silu": nn.SiLU, "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid, "hardtanh": nn.Hardtanh, "relu6": nn.ReLU6, "gelu": nn.GELU, "elu": nn.ELU, "selu": nn.SELU,
    "celu": lambda: nn.CELU(0.5), "softplus": lambda: nn.Softplus(2), "softsign": nn.Softsign, "tanhshrink": nn.Tanhshrink,
    "gelu_tanh": lambda: nn.GELU("tanh"), "leaky_relu": nn.LeakyReLU, "logsigmoid": nn.LogSigmoid, "threshold": lambda: nn.Threshold(0.1, 2),
    "hardshrink": nn.Hardshrink, "softshrink": nn.Softshrink, "softmin": lambda: nn.Softmin(1), "rrelu": nn.RReLU,
    "functions": lambda: Function(lambda x: x.sin() + x.cos().abs().sqrt() + x.erf() + x.exp().log1p() + x.expm1() + x.atan()),
    "functions_2": lambda: Function(lambda x: x.tanh().asin() + x.sinh() + x.cosh() + x.asinh() + x.rsqrt().nan_to_num() + x.square()),
    "rounding": lambda: Function(lambda x: x * (x.floor() + x.ceil() + x.round() + x.trunc() + x.frac() + x.sign())),
    "powers": lambda: Function(lambda x: x.abs().pow(1.5) + x.pow(3) + 2 ** x + x.abs() ** x.tanh()),
    "remainder": lambda: Function(lambda x: x.remainder(0.7) + x.fmod(0.3)),
    "clamp": lambda: Function(lambda x: x.clamp(-1, 1) + x.clamp(min=0.1) + x.maximum(x.flip(3)) + x.minimum(-x)),
    "logic": lambda: Function(lambda x: x * ((x > 0) & (x < 1) | ~(x >= -1) ^ (x == 0)).float()),
    "lerp": lambda: Function(lambda x: x.lerp(x.flip(3), 0.3) + torch.addcmul(x, x, x, value=0.5)),
    "bilinear_layer": lambda: Function(lambda x, b: b(x.flatten(2).mean(2), x.amax((2, 3))).unsqueeze(-1), nn.Bilinear(16, 16, 4)),
    "encoder_layer": lambda: Function(lambda x, e: e(x.flatten(2).transpose(1, 2)), nn.TransformerEncoderLayer(16, 2, 32, 0., batch_first=True)),
    "decoder_layer": lambda: Function(lambda x, d: d(x.flatten(2).transpose(1, 2), x[:, :, 0].transpose(1, 2)),
                                      nn.TransformerDecoderLayer(16, 2, 32, 0., batch_first=True, norm_first=True)),
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(conv()),
    "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(conv()),
    "embedding_bag": lambda: Function(lambda x, e: e(x.flatten(2).argmax(2) % 9).unsqueeze(-1), nn.EmbeddingBag(9, 5, mode="mean")),
    "fake_quantize": FakeQuantized,
    "outer": lambda: Function(lambda x: x[..., None] * x[..., None, :]),
}


def _shifted(x):
    """TSM's and S2MLP's shift, which writes into parts of a tensor."""
    out = torch.zeros_like(x)
    out[:, :4, 1:] = x[:, :4, :-1]
    out[:, 4:] = x[:, 4:]
    return out

"""Models of the zoo, in plain PyTorch.

They are networks for sequences, graphs, points, fields, densities and differential equations.
"""

from collections.abc import Sequence

import torch
from entries import REAL, SMALL, Entry, images, tokens
from torch import nn

RECURRENT, GRAPHS, POINTS, FIELDS, FLOWS, EQUATIONS, GENERATIVE, TABLES = (
    "recurrent networks",
    "graph networks",
    "point clouds",
    "neural fields",
    "normalizing flows",
    "differential equations",
    "generative models of images",
    "tables",
)


def dense(sizes: Sequence[int], activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers with an activation between them. `sizes` are the widths, beginning with the input's."""
    layers: list[nn.Module] = []
    for a, b in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])


class LanguageModel(nn.Module):
    """A language model. A recurrent network maps tokens to scores of the next token."""

    def __init__(self, cell: type[nn.RNNBase], vocabulary: int, width: int, layers: int = 1) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.recurrent = cell(width, width, layers, batch_first=True)
        self.scores = nn.Linear(width, vocabulary)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.scores(self.recurrent(self.embed(text))[0])


class Convolved(nn.Module):
    """A temporal convolutional network with dilated causal convolutions (Bai et al. 2018)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=2**i) for i in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = x + layer(nn.functional.pad(x, (2 * 2**i, 0))).relu()
        return x


class GraphConvolution(nn.Module):
    """Two layers that average the features of a node's neighbours (Hamilton et al. 2017). The edges are a list."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.own = nn.ModuleList([nn.Linear(inputs, width), nn.Linear(width, width)])
        self.others = nn.ModuleList([nn.Linear(inputs, width), nn.Linear(width, width)])

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.shape[0]).index_add(0, target, torch.ones(edges.shape[1]))
        for own, others in zip(self.own, self.others, strict=True):
            gathered = torch.zeros(x.shape[0], x.shape[1]).index_add(0, target, x[source])
            x = (own(x) + others(gathered / degree.clamp(min=1)[:, None])).relu()
        return x


class GraphAttention(nn.Module):
    """A layer of attention over the neighbours of each node (Velickovic et al. 2018). The adjacency matrix is dense."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, width, bias=False)
        self.left, self.right = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x: torch.Tensor, adjacent: torch.Tensor) -> torch.Tensor:
        h = self.project(x)
        scores = nn.functional.leaky_relu(self.left(h) + self.right(h).T, 0.2)
        weights = scores.masked_fill(~adjacent, float("-inf")).softmax(1)
        return nn.functional.elu(weights @ h)


class PointNet(nn.Module):
    """A network for sets of points. It multiplies the points by a learned matrix first (Qi et al. 2017)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.transform = dense([3, width, width])
        self.matrix = nn.Linear(width, 9)
        self.features = dense([3, width, 2 * width])
        self.head = dense([2 * width, width, classes])

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        pooled = self.transform(points).amax(1)
        matrix = self.matrix(pooled).view(-1, 3, 3) + torch.eye(3)
        return self.head(self.features(points @ matrix).amax(1)).log_softmax(1)


class Distances(nn.Module):
    """The energy of a molecule, by messages between all pairs of atoms (Schuett et al. 2017).

    The messages depend on the distances of the atoms.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.filters, self.update = dense([16, width, width], nn.SiLU), dense([width, width, width], nn.SiLU)
        self.energy = dense([width, width, 1], nn.SiLU)

    def forward(self, kinds: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        offsets = places[:, None] - places[None]
        distance = (offsets.square().sum(-1) + 1e-6).sqrt()
        radial = torch.exp(-((distance[..., None] - torch.linspace(0, 4, 16)) ** 2))
        h = self.embed(kinds)
        h = h + self.update((self.filters(radial) * h[None]).sum(1))
        return self.energy(h).sum()


class Radiance(nn.Module):
    """A neural radiance field (Mildenhall et al. 2020).

    It computes the colours of rays by a positional encoding, a perceptron, and volume rendering.
    """

    def __init__(self, width: int, frequencies: int = 6, samples: int = 16) -> None:
        super().__init__()
        self.samples = samples
        self.register_buffer("scales", 2.0 ** torch.arange(frequencies))
        self.field = dense([6 * frequencies, width, width, 4])

    def forward(self, origins: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        depths = torch.linspace(1, 3, self.samples)
        x = origins[:, None] + directions[:, None] * depths[None, :, None]
        angles = (x[..., None] * self.scales).flatten(2)
        out = self.field(torch.cat([angles.sin(), angles.cos()], -1))
        opacity = 1 - torch.exp(-nn.functional.softplus(out[..., 3]) * (2 / self.samples))
        passed = torch.cumprod(torch.cat([torch.ones(len(x), 1), 1 - opacity[:, :-1]], 1), 1)
        return ((opacity * passed)[..., None] * out[..., :3].sigmoid()).sum(1)


class Sine(nn.Module):
    """A perceptron with sine activations (Sitzmann et al. 2020)."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:], strict=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = torch.sin(30 * layer(x))
        return self.layers[-1](x)


class Coupling(nn.Module):
    """The negative log-likelihood of a normalizing flow with affine coupling layers (Dinh et al. 2017)."""

    def __init__(self, size: int, width: int, layers: int) -> None:
        super().__init__()
        self.half = size // 2
        self.nets = nn.ModuleList(dense([self.half, width, size], nn.Tanh) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logarithm = torch.zeros(x.shape[0])
        for net in self.nets:
            a, b = x.split(self.half, 1)
            scale, shift = net(a).split(self.half, 1)
            x = torch.cat([b * scale.tanh().exp() + shift, a], 1)
            logarithm = logarithm + scale.tanh().sum(1)
        return 0.5 * x.square().sum(1) - logarithm


class Mixing(nn.Module):
    """A normalizing flow whose layers multiply vectors by matrices (Kingma and Dhariwal 2018).

    The result is the squared norm of the last vector minus the logarithms of the absolute determinants of the matrices.
    """

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        matrices = [torch.linalg.qr(torch.randn(size, size))[0] for _ in range(layers)]
        self.matrices = nn.ParameterList(nn.Parameter(m) for m in matrices)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logarithm = torch.zeros(())
        for matrix in self.matrices:
            x = nn.functional.leaky_relu(x @ matrix, 0.5)
            logarithm = logarithm + torch.linalg.slogdet(matrix)[1]
        return x.square().sum(1) - logarithm


class Equation(nn.Module):
    """The solution of a neural differential equation by a Runge-Kutta method (Chen et al. 2018)."""

    def __init__(self, size: int, width: int, steps: int) -> None:
        super().__init__()
        self.slope, self.steps = dense([size, width, size], nn.Tanh), steps

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        h = 1 / self.steps
        for _ in range(self.steps):
            k1 = self.slope(y)
            k2 = self.slope(y + h / 2 * k1)
            k3 = self.slope(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + self.slope(y + h * k3))
        return y


class Spectral(nn.Module):
    """A Fourier neural operator in one dimension (Li et al. 2021)."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.lift, self.lower = nn.Conv1d(2, width, 1), nn.Conv1d(width, 1, 1)
        self.real, self.imaginary = (nn.Parameter(torch.randn(width, width, modes) / width) for _ in "ab")
        self.modes = modes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.lift(x)
        low = torch.fft.rfft(h)[..., : self.modes]
        mixed = torch.einsum("bim,iom->bom", low, torch.complex(self.real, self.imaginary))
        return self.lower((torch.fft.irfft(mixed, n=x.shape[-1]) + h).relu())


class Autoencoder(nn.Module):
    """A variational autoencoder of images (Kingma and Welling 2014). The noise is an input."""

    def __init__(self, width: int, code: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.moments = nn.Linear(width * 64, 2 * code)
        self.decoder = nn.Sequential(
            nn.Linear(code, width * 64),
            nn.Unflatten(1, (width, 8, 8)),
            nn.ConvTranspose2d(width, width, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, logarithm = self.moments(self.encoder(x)).chunk(2, 1)
        image = self.decoder(mean + noise * (0.5 * logarithm).exp())
        divergence = -0.5 * (1 + logarithm - mean.square() - logarithm.exp()).sum(1).mean()
        return nn.functional.mse_loss(image, x, reduction="none").sum((1, 2, 3)).mean() + divergence


class Generator(nn.Module):
    """The generator of a DCGAN, with batch normalization (Radford et al. 2016)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(32, 2 * width, 4),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Diffusion(nn.Module):
    """A network that predicts the noise in images (Ho et al. 2020).

    It consists of residual blocks with embeddings of the time step, and of attention.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.time = dense([width, width, width], nn.SiLU)
        self.norms = nn.ModuleList(nn.GroupNorm(4, width) for _ in range(3))
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.width = width

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-torch.arange(self.width // 2) * (9.2 / (self.width // 2)))
        angles = step[:, None] * frequencies
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        h = self.first(x)
        for norm, block in zip(self.norms[:2], self.blocks, strict=True):
            h = h + block(nn.functional.silu(norm(h) + embedded))
        flat = self.norms[2](h).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(flat, flat, flat, need_weights=False)
        return self.last(h + mixed.transpose(1, 2).view_as(h))


class Ranked(nn.Module):
    """A factorization machine plus a perceptron, on embeddings of categories (Guo et al. 2017)."""

    def __init__(self, categories: int, width: int) -> None:
        super().__init__()
        self.embed, self.deep = nn.Embedding(categories, width), dense([8 * width, 32, 1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        v = self.embed(x)
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1, keepdim=True)
        return (pairs + self.deep(v.flatten(1))).sigmoid()


def _edges(nodes: int, count: int) -> torch.Tensor:
    return torch.randint(nodes, (2, count))


def _adjacent(nodes: int) -> torch.Tensor:
    return (torch.rand(nodes, nodes) < 0.3) | torch.eye(nodes, dtype=torch.bool)


def _table() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    module = nn.Sequential(nn.Embedding(50, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    return module, (tokens(50, 10, 4),)


ENTRIES = [
    Entry("lstm", RECURRENT, SMALL, lambda: (LanguageModel(nn.LSTM, 50, 16), (tokens(50, 12, 2),))),
    Entry(
        "gru, 2 layers", RECURRENT, SMALL, lambda: (LanguageModel(nn.GRU, 50, 16, 2), (tokens(50, 12, 2),))
    ),
    Entry("rnn", RECURRENT, SMALL, lambda: (LanguageModel(nn.RNN, 50, 16), (tokens(50, 12, 2),))),
    Entry("temporal convolutions", RECURRENT, SMALL, lambda: (Convolved(16), (torch.randn(2, 16, 40),))),
    Entry(
        "graphsage", GRAPHS, SMALL, lambda: (GraphConvolution(8, 16), (torch.randn(20, 8), _edges(20, 60)))
    ),
    Entry(
        "graph attention", GRAPHS, SMALL, lambda: (GraphAttention(8, 16), (torch.randn(20, 8), _adjacent(20)))
    ),
    Entry("schnet", GRAPHS, SMALL, lambda: (Distances(16), (torch.randint(10, (12,)), torch.randn(12, 3)))),
    Entry("pointnet", POINTS, SMALL, lambda: (PointNet(32, 10), (torch.randn(2, 64, 3),))),
    Entry("nerf", FIELDS, SMALL, lambda: (Radiance(64), (torch.randn(32, 3), torch.randn(32, 3)))),
    Entry("siren", FIELDS, SMALL, lambda: (Sine([2, 64, 64, 3]), (torch.rand(128, 2) * 2 - 1,))),
    Entry("realnvp", FLOWS, SMALL, lambda: (Coupling(8, 32, 4), (torch.randn(32, 8),))),
    Entry("glow of matrices", FLOWS, SMALL, lambda: (Mixing(6, 3), (torch.randn(32, 6),))),
    Entry("neural ode", EQUATIONS, SMALL, lambda: (Equation(4, 32, 10), (torch.randn(16, 4),))),
    Entry("fourier operator", EQUATIONS, SMALL, lambda: (Spectral(16, 8), (torch.randn(2, 2, 64),))),
    Entry("vae", GENERATIVE, SMALL, lambda: (Autoencoder(16, 8), (images(32, 2), torch.randn(2, 8)))),
    Entry("dcgan", GENERATIVE, SMALL, lambda: (Generator(16), (torch.randn(4, 32, 1, 1),))),
    Entry(
        "diffusion", GENERATIVE, SMALL, lambda: (Diffusion(32), (images(16, 2), torch.tensor([3.0, 500.0])))
    ),
    Entry("deepfm", TABLES, SMALL, lambda: (Ranked(100, 8), (torch.randint(100, (16, 8)),))),
    Entry("tabtransformer", TABLES, SMALL, _table),
    Entry("perceptron", TABLES, SMALL, lambda: (dense([20, 64, 64, 1], nn.GELU), (torch.randn(32, 20),))),
    Entry(
        "lstm, 2 x 256",
        RECURRENT,
        REAL,
        lambda: (LanguageModel(nn.LSTM, 5000, 256, 2), (tokens(5000, 64, 4),)),
    ),
    Entry(
        "nerf, 256 wide",
        FIELDS,
        REAL,
        lambda: (Radiance(256, 10, 64), (torch.randn(256, 3), torch.randn(256, 3))),
    ),
]

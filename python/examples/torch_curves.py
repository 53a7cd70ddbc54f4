"""An MLP-Mixer of torch with dense and with sparse layers, trained alike: accuracy on test samples by time, as a picture.

python torch_curves.py [--data FOLDER] [--epochs 15] [--device cuda] [--picture PICTURE.svg]

Trains on scikit-learn's digits, or on the four files of Fashion-MNIST in FOLDER (Debian's package dataset-fashion-mnist has them).
"""

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from varve.torch import rigl_step, sparsify, watched

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path)
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--device", default="cpu")
parser.add_argument("--picture")
options = parser.parse_args()


class Mixer(nn.Module):
    """Blocks that mix patches, then channels (Tolstikhin et al., MLP-Mixer, 2021). [samples, side, side] -> [samples, 10]"""

    def __init__(self, side, patch, channels, hidden, num_blocks):
        super().__init__()

        def mlp(width, between):
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, between), nn.GELU(), nn.Linear(between, width))

        self.patch = patch
        self.first, self.last = nn.Linear(patch**2, channels), nn.Linear(channels, 10)
        self.patches = nn.ModuleList(mlp((side // patch) ** 2, hidden // 4) for _ in range(num_blocks))
        self.channels = nn.ModuleList(mlp(channels, hidden) for _ in range(num_blocks))

    def forward(self, images):
        x = self.first(nn.functional.unfold(images[:, None], self.patch, stride=self.patch).mT)
        for patches, channels in zip(self.patches, self.channels):
            x = x + patches(x.mT).mT
            x = x + channels(x)
        return self.last(x.mean(1))


def read(name):
    """A file of Fashion-MNIST: numbers of one byte after a head that says their shape."""
    content = gzip.decompress((options.data / f"{name}-ubyte.gz").read_bytes())
    shape = np.frombuffer(content, ">i4", content[3], 4)
    return torch.tensor(np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape))


def train(density, epochs=options.epochs, batch=64):
    """Seconds and test accuracy after each epoch; with a density sparse layers, a tenth of whose edges move each epoch."""
    torch.manual_seed(1)
    model = Mixer(*shape)
    if density:
        sparsify(model, density=density, skip=("first", "last"))
    model = model.to(options.device)
    num_weights = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    seconds, curve = 0.0, []
    for epoch in range(epochs):
        order = torch.randperm(len(X_train), generator=torch.Generator().manual_seed(epoch)).to(options.device)
        begin = time.perf_counter()
        for first in range(0, len(order), batch):
            rows, is_last = order[first : first + batch], first + batch >= len(order)
            moves = density and is_last and epoch < epochs * 2 // 3
            optimizer.zero_grad()
            if moves:
                with watched(model):  # gradients of all places
                    nn.functional.cross_entropy(model(X_train[rows]), y_train[rows]).backward()
            else:
                nn.functional.cross_entropy(model(X_train[rows]), y_train[rows]).backward()
            optimizer.step()
            if moves:
                rigl_step(model, optimizer, fraction=0.1)
        with torch.no_grad():
            num_right = sum(int((model(images).argmax(1) == classes).sum()) for images, classes in zip(X_test.split(1000), y_test.split(1000)))
        seconds += time.perf_counter() - begin
        curve.append((seconds, num_right / len(y_test)))
        print(f"  epoch {epoch + 1}: {seconds:.2f} s, accuracy {num_right / len(y_test):.4f}", flush=True)
    print(f"{'sparse' if density else 'dense'}: {num_weights} weights and biases, {seconds:.2f} s, accuracy {num_right / len(y_test):.3f}")
    return curve


if options.data:
    shape = 28, 4, 128, 512, 4
    X_train, X_test = (read(f"{name}-images-idx3").float() / 255 for name in ("train", "t10k"))
    y_train, y_test = (read(f"{name}-labels-idx1").long() for name in ("train", "t10k"))
else:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    shape = 8, 2, 64, 256, 2
    images, classes = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = (torch.tensor(part) for part in train_test_split(images / 16, classes, random_state=0))
    X_train, X_test = (part.float().reshape(-1, 8, 8) for part in (X_train, X_test))
X_train, X_test, y_train, y_test = (part.to(options.device) for part in (X_train, X_test, y_train, y_test))

train(0.1, epochs=1)  # both have run once before times are taken
train(None, epochs=1)
curves = {"dense": train(None), "sparse, 10 % of the edges": train(0.1)}
if options.picture:
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "varve"})  # texts as texts, and equal names of parts each time
    axis = pyplot.subplots(figsize=(6, 3.2), layout="constrained")[1]
    for (name, curve), color in zip(curves.items(), ("tab:blue", "black")):
        axis.plot(*zip(*curve), marker=".", color=color, label=name)
    axis.set(xlabel=f"seconds of training on {options.device}", ylabel="accuracy on test samples", xscale="log")
    axis.legend()
    axis.figure.savefig(options.picture, metadata={"Date": None})

"""A dense and a sparse model of torch, trained alike: accuracy by processor time, as a picture.

python torch_curves.py [--data FOLDER] [--picture PICTURE.svg]

On scikit-learn's digits, or on the four files of Fashion-MNIST (https://github.com/zalandoresearch/fashion-mnist) in FOLDER.
"""

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch
import varve
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from varve.torch import rigl_step, sparsify, watched

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path)
parser.add_argument("--picture")
options = parser.parse_args()
if options.data:
    X_train, X_test = (varve.read_samples(options.data / f"{name}-images-idx3-ubyte.gz").X.toarray() for name in ("train", "t10k"))
    labels = (gzip.decompress((options.data / f"{name}-labels-idx1-ubyte.gz").read_bytes()) for name in ("train", "t10k"))
    y_train, y_test = (np.frombuffer(part, np.uint8, offset=8).astype(np.int64) for part in labels)
    num_epochs = 8
else:
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    num_epochs = 15
X_train, X_test = (torch.tensor(part / X_train.max(), dtype=torch.float32) for part in (X_train, X_test))
y_train, y_test = (torch.tensor(part) for part in (y_train, y_test))


def train(density, width=1024, epochs=num_epochs, batch=64):
    """Processor seconds and test accuracy after each epoch; with a density sparse layers, a tenth of whose edges move each epoch."""
    torch.manual_seed(1)
    layers = torch.nn.Linear(X_train.shape[1], width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)
    model = torch.nn.Sequential(*layers)
    if density:
        sparsify(model, density=density)
    num_weights = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    seconds, curve = 0.0, []
    for epoch in range(epochs):
        order = torch.randperm(len(X_train), generator=torch.Generator().manual_seed(epoch))
        begin = time.process_time()
        for first in range(0, len(order), batch):
            rows, is_last = order[first : first + batch], first + batch >= len(order)
            moves = density and is_last and epoch < epochs * 2 // 3
            optimizer.zero_grad()
            if moves:
                with watched(model):  # gradients of all places
                    torch.nn.functional.cross_entropy(model(X_train[rows]), y_train[rows]).backward()
            else:
                torch.nn.functional.cross_entropy(model(X_train[rows]), y_train[rows]).backward()
            optimizer.step()
            if moves:
                rigl_step(model, optimizer, fraction=0.1)
        seconds += time.process_time() - begin
        with torch.no_grad():
            accuracy = (model(X_test).argmax(1) == y_test).double().mean().item()
        curve.append((seconds, accuracy))
    print(f"{'sparse' if density else 'dense'}: {num_weights} weights and biases, {seconds:.2f} s, accuracy {accuracy:.3f}")
    return curve


torch.set_num_threads(1)
train(0.05, epochs=1)  # both have run once before times are taken
train(None, epochs=1)
curves = {"dense": train(None), "sparse, 5 % of the edges": train(0.05)}
if options.picture:
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "varve"})  # texts as texts, and equal names of parts each time
    axis = pyplot.subplots(figsize=(6, 3.2), layout="constrained")[1]
    for (name, curve), color in zip(curves.items(), ("tab:blue", "black")):
        axis.plot(*zip(*curve), marker=".", color=color, label=name)
    axis.set(xlabel="processor seconds of training, one thread", ylabel="accuracy on test samples", xscale="log")
    axis.legend()
    axis.figure.savefig(options.picture, metadata={"Date": None})

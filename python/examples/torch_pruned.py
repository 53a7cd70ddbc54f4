"""A model of torch: trained, pruned to a tenth of its weights, trained on, and exported to a file that Varve runs."""

import tempfile
from pathlib import Path

import torch
import varve
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.utils import prune

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = (torch.tensor(part) for part in train_test_split(X / 16, y, random_state=0))
X_train, X_test = X_train.float(), X_test.float()


def fit(model, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(epochs):
        for rows in torch.randperm(len(X_train)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X_train[rows]), y_train[rows]).backward()
            optimizer.step()


def accuracy(outputs):
    return (outputs.argmax(dim=1) == y_test).float().mean().item()


model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
linear = [(part, "weight") for part in model if isinstance(part, nn.Linear)]
fit(model, 15)
print(f"dense: {sum(part.weight.numel() for part, _ in linear)} weights, accuracy {accuracy(model(X_test)):.3f}")

# The smallest weights become zeros and stay zeros while the others are trained on.
prune.global_unstructured(linear, prune.L1Unstructured, amount=0.9)
fit(model, 15)
for part, name in linear:
    prune.remove(part, name)

# Zeros are no edges of the network.
network = varve.Network.from_torch(model)
print(f"pruned: {network.num_edges} edges, accuracy {accuracy(model(X_test)):.3f}")

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "digits.safetensors"  # also for `varve infer --network digits.safetensors`
    network.save(file)
    exported = varve.Network.from_file(file)

outputs = torch.empty(len(X_test), 10)
exported.infer(X_test, out=outputs)  # into the memory of torch
with torch.no_grad():
    expected = model(X_test)
difference = (outputs - expected).abs().max().item()
print(f"exported: accuracy {accuracy(outputs):.3f}, largest difference from torch {difference:.1e}")

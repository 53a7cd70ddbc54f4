"""Digits of scikit-learn: train a sparse network, read a dense one of scikit-learn, prune it, and train it again."""

import varve
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)

# A sparse network, trained as such: a fifth of the edges from the beginning.
sparse = varve.SparseClassifier(hidden=(128, 128), density=0.2, epochs=40, random_state=1).fit(X_train, y_train)
print(f"sparse from the beginning: {sparse.network_.num_edges} edges, accuracy {sparse.score(X_test, y_test):.3f}")

# A dense network of scikit-learn in varve: the same answers.
dense = MLPClassifier((128, 128), tol=0.01, random_state=1).fit(X_train, y_train)
network = varve.Network.from_sklearn(dense)
same = (dense.classes_[network.predict(X_test)] == dense.predict(X_test)).mean()
print(f"dense, by scikit-learn: {network.num_edges} edges, accuracy {dense.score(X_test, y_test):.3f}; varve agrees on {same:.1%}")

# Pruned to a fifth, and trained a little more.
pruned = network.prune(0.2)
before = pruned.evaluate(X_test, y_test).accuracy
after = varve.train(pruned, X_train, y_train, epochs=10).network
print(f"pruned: {pruned.num_edges} edges, accuracy {before:.3f}, after more training {after.evaluate(X_test, y_test).accuracy:.3f}")

"""Training steps and epochs of other programs, timed beside `varve train`. Each function gives seconds, the median of several, and imports its library itself.

Call them through `apart`: libraries bind threads and keep them, which would slow down whatever the calling process starts next.
"""
import multiprocessing
import sys
import time

from parallel_training import BATCH, L2, MODES

CAP = 32


def apart(function, *arguments):
    """Calls a function in a process of its own. Under OMP_PROC_BIND PyTorch binds the thread that imports it to one processor, and every process started
    from there, such as the next run of Varve, would have that processor alone."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        try:
            return process.apply(function, arguments)
        except ImportError as missing:
            sys.exit(f"{missing.name} is not installed, which this measurement compares with")


def median_seconds(step, count=10, finish=lambda: None):
    times = []
    for _ in range(3 + count):
        begin = time.perf_counter()
        step()
        finish()
        times.append(time.perf_counter() - begin)
    return sorted(times[3:])[count // 2]


def torch_step(width, layers, degree, batch, is_sparse):
    """A step of PyTorch: forward, backward, SGD with momentum. Sparse: CSR weights, errors through a stored transpose, gradients by sampled_addmm. Otherwise
    dense weights under a mask."""
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    numbers = torch.Generator().manual_seed(1)
    patterns = []
    for _ in range(layers):
        mask = torch.zeros(width, width)
        mask.scatter_(1, torch.rand(width, width, generator=numbers).topk(degree).indices, 1.0)
        patterns.append(mask)
    weights = [(torch.randn(width, width, generator=numbers) * mask / degree**0.5).to(device) for mask in patterns]
    x0 = (torch.rand(batch, width, generator=numbers) < 0.1).float().to(device)
    labels = torch.randint(width, (batch,), generator=numbers).to(device)
    if is_sparse:
        rows = [w.to_sparse_csr() for w in weights]
        columns = [w.t().contiguous().to_sparse_csr() for w in weights]
        moments = [torch.zeros_like(w.values()) for w in rows]
    else:
        masks = [mask.to(device) for mask in patterns]
        moments = [torch.zeros_like(w) for w in weights]

    def step():
        kept = [x0.t().contiguous()]
        for layer in range(layers):
            kept.append(((rows if is_sparse else weights)[layer] @ kept[-1]).clamp_(0, CAP))
        slopes = torch.softmax(kept[-1], 0)
        slopes[labels, torch.arange(batch, device=device)] -= 1
        error = slopes * ((kept[-1] > 0) & (kept[-1] < CAP))
        for layer in reversed(range(layers)):
            x = kept[layer]
            if is_sparse:
                zero = torch.sparse_csr_tensor(rows[layer].crow_indices(), rows[layer].col_indices(), torch.zeros_like(rows[layer].values()), (width, width))
                gradient = torch.sparse.sampled_addmm(zero, error, x.t(), beta=0.0).values()
                before = columns[layer] @ error if layer else None
                values = rows[layer].values()
            else:
                gradient = (error @ x.t()).mul_(masks[layer])
                before = weights[layer].t() @ error if layer else None
                values = weights[layer]
            moments[layer].mul_(0.9).add_(gradient, alpha=1 / batch)
            values.add_(moments[layer], alpha=-1e-6)
            if layer:
                error = before * ((x > 0) & (x < CAP))

    return median_seconds(step, finish=torch.cuda.synchronize if device == "cuda" else lambda: None)


def scipy_step(width, layers, degree, batch):
    """A step in the manner of SET's published program: samples in rows, weights [inputs, outputs] in CSR of SciPy, products by SciPy, and a compiled loop
    (Numba) that sums the gradient of one edge after the other over all samples. SGD with momentum, softmax and cross-entropy. The median of three."""
    import numba
    import numpy
    import scipy.sparse

    @numba.njit
    def gradients(x, error, rows, columns, out):
        for edge in range(len(out)):
            total = numpy.float32(0)
            for sample in range(len(x)):
                total += x[sample, rows[edge]] * error[sample, columns[edge]]
            out[edge] = total

    numbers = numpy.random.default_rng(1)
    weights = []
    for _ in range(layers):
        outputs = numpy.concatenate([numbers.permutation(width)[:degree] for _ in range(width)])
        values = (numbers.standard_normal(width * degree) / degree**0.5).astype(numpy.float32)
        weights.append(scipy.sparse.csr_matrix((values, (numpy.repeat(numpy.arange(width), degree), outputs)), shape=(width, width)))
    edges = [matrix.tocoo() for matrix in weights]
    moments = [numpy.zeros_like(matrix.data) for matrix in weights]
    x0 = (numbers.random((batch, width)) < 0.1).astype(numpy.float32)
    labels, everybody = numbers.integers(width, size=batch), numpy.arange(batch)

    def step():
        kept = [x0]
        for matrix in weights:
            kept.append(numpy.clip(kept[-1] @ matrix, 0, CAP))
        slopes = numpy.exp(kept[-1] - kept[-1].max(axis=1, keepdims=True))
        slopes /= slopes.sum(axis=1, keepdims=True)
        slopes[everybody, labels] -= 1
        error = slopes * ((kept[-1] > 0) & (kept[-1] < CAP))
        for layer in reversed(range(layers)):
            gradient = numpy.empty_like(weights[layer].data)
            gradients(kept[layer], error, edges[layer].row, edges[layer].col, gradient)
            if layer:
                error = (error @ weights[layer].T) * ((kept[layer] > 0) & (kept[layer] < CAP))
            moments[layer] = numpy.float32(0.9) * moments[layer] + gradient / numpy.float32(batch)
            weights[layer].data -= numpy.float32(1e-6) * moments[layer]

    return median_seconds(step, 3)


def torch_deep_step(width, layers, degree, batch, classes):
    """A step of PyTorch's automatic derivatives with dense layers under masks and Adam: a residual-like chain of identity and `degree` - 1 random edges, then
    a layer for the classes. The median of three."""
    import torch
    numbers = torch.Generator().manual_seed(1)
    masks, weights = [], []
    for _ in range(layers):
        mask = torch.eye(width)
        mask.scatter_(1, torch.rand(width, width, generator=numbers).topk(degree - 1).indices, 1.0)
        masks.append(mask)
        weights.append((torch.eye(width) + torch.randn(width, width, generator=numbers) * mask / (degree * layers)**0.5).requires_grad_())
    last = (torch.randn(classes, width, generator=numbers) / width**0.5).requires_grad_()
    biases = [torch.zeros(width, requires_grad=True) for _ in range(layers)]
    optimizer = torch.optim.Adam([*weights, *biases, last], lr=0.001)
    x, labels = torch.rand(batch, width, generator=numbers), torch.randint(classes, (batch,), generator=numbers)

    def step():
        out = x
        for weight, bias in zip(weights, biases, strict=True):
            out = torch.relu(torch.nn.functional.linear(out, weight, bias))
        loss = torch.nn.functional.cross_entropy(out @ last.t(), labels)
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight, mask in zip(weights, masks, strict=True):
                weight.grad.mul_(mask)
        optimizer.step()

    return median_seconds(step, 3)


HIDDEN, CLASSES = 100, 10
RATE = MODES[1][1]


def images_and_labels(count, kind):
    import numpy
    numbers = numpy.random.default_rng(1)
    return (numbers.random((count, 784)) * (numbers.random((count, 784)) < 0.5)).astype(kind), numbers.integers(CLASSES, size=count)


def numpy_epoch(count, precision):
    """An epoch of 784-100-10, sigmoid, softmax, L2, plain gradient descent in batches of 800 by NumPy (its products are a BLAS's)."""
    import numpy
    kind = numpy.float32 if precision == "float" else numpy.float64
    samples, labels = images_and_labels(count, kind)
    wanted = numpy.eye(CLASSES, dtype=kind)[labels]
    numbers = numpy.random.default_rng(2)
    first, second = ((numbers.standard_normal(shape) / shape[1]**0.5).astype(kind) for shape in ((HIDDEN, 784), (CLASSES, HIDDEN)))
    first_bias, second_bias = numpy.zeros(HIDDEN, kind), numpy.zeros(CLASSES, kind)
    one, rate, decay = kind(1), kind(RATE), kind(L2)

    def epoch():
        nonlocal first, second, first_bias, second_bias
        for begin in range(0, count, BATCH):
            x = samples[begin:begin + BATCH]
            hidden = one / (one + numpy.exp(-(x @ first.T + first_bias)))
            out = hidden @ second.T + second_bias
            out = numpy.exp(out - out.max(axis=1, keepdims=True))
            error = (out / out.sum(axis=1, keepdims=True) - wanted[begin:begin + BATCH]) / kind(len(x))
            before = (error @ second) * hidden * (one - hidden)
            second -= rate * (error.T @ hidden + decay * second)
            second_bias -= rate * error.sum(axis=0)
            first -= rate * (before.T @ x + decay * first)
            first_bias -= rate * before.sum(axis=0)

    return median_seconds(epoch, 5)


def torch_epoch(count, precision):
    """The same epoch by PyTorch's modules, automatic derivatives and SGD; on a GPU each step is one CUDA graph."""
    import torch
    kind = torch.float32 if precision == "float" else torch.float64
    device = "cuda" if torch.cuda.is_available() else "cpu"
    numbers = torch.Generator().manual_seed(1)
    samples = torch.rand(count, 784, generator=numbers).to(device, kind)
    labels = torch.randint(CLASSES, (count,), generator=numbers).to(device)
    model = torch.nn.Sequential(torch.nn.Linear(784, HIDDEN), torch.nn.Sigmoid(), torch.nn.Linear(HIDDEN, CLASSES)).to(device, kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, weight_decay=L2)
    x, y = samples[:BATCH].clone(), labels[:BATCH].clone()

    def step():
        optimizer.zero_grad(set_to_none=device == "cpu")
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    if device == "cuda":
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()

    def epoch():
        for begin in range(0, count, BATCH):
            x.copy_(samples[begin:begin + BATCH])
            y.copy_(labels[begin:begin + BATCH])
            graph.replay() if device == "cuda" else step()

    return median_seconds(epoch, 5, torch.cuda.synchronize if device == "cuda" else lambda: None)


def scikit_learn_epoch(count, precision):
    """The same epoch by scikit-learn's MLPClassifier: the difference of four epochs and one, over three."""
    import warnings

    import numpy
    from sklearn.neural_network import MLPClassifier
    samples, labels = images_and_labels(count, numpy.float32 if precision == "float" else numpy.float64)

    def seconds(epochs):
        model = MLPClassifier((HIDDEN,), activation="logistic", solver="sgd", alpha=L2, batch_size=BATCH, learning_rate_init=RATE, momentum=0,
                              max_iter=epochs, tol=0, n_iter_no_change=1000, shuffle=False)
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            model.fit(samples, labels)
        return time.perf_counter() - begin

    seconds(1)
    return (seconds(4) - seconds(1)) / 3

"""ONNX Runtime on processors: a chain of Gemm and an activation, dense weights."""
import numpy

from peer import Peer, Unavailable, require_dense_fits

try:
    import onnx
    import onnxruntime
except ImportError as missing:
    onnxruntime = None
    REASON = str(missing)

NODES = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "leaky_relu": "LeakyRelu", "clipped_relu": "Clip"}


def model_of(layers):
    """The network as an ONNX model."""
    helper, constant = onnx.helper, onnx.numpy_helper.from_array
    nodes, constants, last = [], [], "samples"
    for number, layer in enumerate(layers):
        names = [f"{kind}{number}" for kind in ("weights", "bias", "sum", "out")]
        constants += [constant(layer.weights.toarray(), names[0]), constant(layer.bias, names[1])]
        nodes.append(helper.make_node("Gemm", [last, *names[:2]], [names[2]], transB=1))
        last = names[2]
        if layer.activation == "identity":
            continue
        bounds, attributes = [], {}
        if layer.activation == "clipped_relu":
            bounds = [f"low{number}", f"high{number}"]
            constants += [constant(numpy.float32(bound), name) for bound, name in zip((0.0, layer.cap), bounds)]
        if layer.activation == "leaky_relu":
            attributes["alpha"] = layer.slope
        nodes.append(helper.make_node(NODES[layer.activation], [last, *bounds], [names[3]], **attributes))
        last = names[3]
    def info(name, width):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["count", width])
    graph = helper.make_graph(nodes, "network", [info("samples", layers[0].weights.shape[1])],
                              [info(last, layers[-1].weights.shape[0])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


class Dense(Peer):
    name = "ONNX Runtime, dense"
    version = onnxruntime.__version__ if onnxruntime else ""

    def __init__(self, layers, threads):
        if onnxruntime is None:
            raise Unavailable(REASON)
        if sum(layer.num_dense_bytes() for layer in layers) >= 2**31:
            raise Unavailable("a model with 2 GiB of weights or more does not fit one message of protobuf")
        require_dense_fits(layers)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(model_of(layers).SerializeToString(), options, providers=["CPUExecutionProvider"])

    def take(self, samples):
        self.samples = {"samples": samples.toarray()}

    def run(self):
        self.last, = self.session.run(None, self.samples)

    def result(self):
        return self.last


PEERS = [Dense]

#include "cublas_loop.cuh"
#include "cusparse_loop.cuh"

namespace varve::contenders {

std::unique_ptr<LayerLoop> make_layer_loop(LoopOptions const& options) {
  if (options.library == "cusparse") return std::make_unique<CusparseLoop>(options);
  if (options.library == "cublas") return std::make_unique<CublasLoop>(options);
  throw UsageError("there is no contender '" + options.library + "'; there are: cusparse, cublas");
}

} // namespace varve::contenders

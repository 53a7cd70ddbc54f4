#include "cusparse_loop.cuh"

#include <string>
#include <utility>

namespace varve::contenders {
namespace {

constexpr cudaDataType kFloat = CUDA_R_32F;
constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;

void check(cusparseStatus_t status, char const* what) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  throw ResourceError(std::string(what) + " failed in cuSPARSE: " + cusparseGetErrorString(status));
}

cusparseSpMMAlg_t algorithm_of(int number) {
  switch (number) {
  case 1:
    return CUSPARSE_SPMM_CSR_ALG1;
  case 2:
    return CUSPARSE_SPMM_CSR_ALG2;
  case 3:
    return CUSPARSE_SPMM_CSR_ALG3;
  default:
    throw UsageError("SpMM of a CSR matrix has no algorithm " + std::to_string(number) + "; there are: 1, 2, 3");
  }
}

/// A panel as the library sees it: a dense matrix [neurons, samples].
class DenseMatrix {
public:
  explicit DenseMatrix(Panel panel) {
    check(cusparseCreateDnMat(&matrix_, panel.num_neurons, panel.num_samples,
                              static_cast<std::int64_t>(panel.line_stride()), panel.values, kFloat,
                              panel.neuron_stride == 1 ? CUSPARSE_ORDER_COL : CUSPARSE_ORDER_ROW),
          "describing a panel");
  }
  ~DenseMatrix() { cusparseDestroyDnMat(matrix_); }
  DenseMatrix(DenseMatrix const&) = delete;
  DenseMatrix& operator=(DenseMatrix const&) = delete;

  cusparseDnMatDescr_t get() const { return matrix_; }

private:
  cusparseDnMatDescr_t matrix_ = nullptr;
};

} // namespace

CusparseLoop::CusparseLoop(LoopOptions options) : DeviceLoop(std::move(options)) {
  algorithm_of(this->options().algorithm);
  check(cusparseCreate(&handle_), "starting");
  check(cusparseSetStream(handle_, stream()), "taking a stream");
}

CusparseLoop::~CusparseLoop() {
  for (auto& weights : weights_) cusparseDestroySpMat(weights.matrix);
  cusparseDestroy(handle_);
}

void CusparseLoop::add_weights(HostLayer const& layer) {
  Weights weights;
  weights.row_pointers = DeviceArray<int>(layer.row_pointers);
  weights.columns = DeviceArray<int>(layer.columns);
  weights.values = DeviceArray<float>(layer.weights);
  check(cusparseCreateCsr(&weights.matrix, layer.num_outputs, layer.num_inputs,
                          static_cast<std::int64_t>(layer.weights.size()), weights.row_pointers.data(),
                          weights.columns.data(), weights.values.data(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_BASE_ZERO, kFloat),
        "describing weights");
  weights_.push_back(std::move(weights));
}

/// Memory that the library wants for a layer's product. The first run, off the clock, gets it and lets the library
/// analyse the weights; all later runs have the same samples, hence the same shapes.
char* CusparseLoop::work_space(Weights& weights, cusparseDnMatDescr_t previous, cusparseDnMatDescr_t next) {
  if (weights.buffer.size() > 0) return weights.buffer.data();
  auto const algorithm = algorithm_of(options().algorithm);
  std::size_t bytes = 0;
  check(cusparseSpMM_bufferSize(handle_, kAsIs, kAsIs, &kOne, weights.matrix, previous, &kZero, next, kFloat, algorithm,
                                &bytes),
        "planning a product");
  weights.buffer = DeviceArray<char>(bytes + 1);
  check(cusparseSpMM_preprocess(handle_, kAsIs, kAsIs, &kOne, weights.matrix, previous, &kZero, next, kFloat, algorithm,
                                weights.buffer.data()),
        "analysing weights");
  return weights.buffer.data();
}

void CusparseLoop::multiply(std::size_t number, Panel previous, Panel next) {
  Weights& weights = weights_[number];
  DenseMatrix const source(previous);
  DenseMatrix const target(next);
  char* const buffer = work_space(weights, source.get(), target.get());
  check(cusparseSpMM(handle_, kAsIs, kAsIs, &kOne, weights.matrix, source.get(), &kZero, target.get(), kFloat,
                     algorithm_of(options().algorithm), buffer),
        "a product");
}

} // namespace varve::contenders

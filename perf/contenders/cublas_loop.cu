#include "cublas_loop.cuh"

#include <string>
#include <utility>

namespace varve::contenders {
namespace {

constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;
constexpr std::size_t kWorkSpaceBytes = std::size_t{64} << 20U;

void check(cublasStatus_t status, char const* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw ResourceError(std::string(what) + " failed in cuBLAS: " + cublasGetStatusString(status));
}

} // namespace

CublasLoop::CublasLoop(LoopOptions options) : DeviceLoop(std::move(options)), work_space_(kWorkSpaceBytes) {
  check(cublasCreate(&handle_), "starting");
  check(cublasSetStream(handle_, stream()), "taking a stream");
  check(cublasSetWorkspace(handle_, work_space_.data(), work_space_.size()), "taking memory");
  check(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH), "choosing full precision"); // TF32 has a mode of its own
}

CublasLoop::~CublasLoop() { cublasDestroy(handle_); }

void CublasLoop::add_weights(HostLayer const& layer) {
  auto const inputs = static_cast<std::size_t>(layer.num_inputs);
  std::vector<float> dense(inputs * static_cast<std::size_t>(layer.num_outputs), 0.0F);
  for (std::size_t output = 0; output < static_cast<std::size_t>(layer.num_outputs); ++output) {
    for (int edge = layer.row_pointers[output]; edge < layer.row_pointers[output + 1]; ++edge)
      dense[output * inputs + static_cast<std::size_t>(layer.columns[static_cast<std::size_t>(edge)])] =
          layer.weights[static_cast<std::size_t>(edge)];
  }
  weights_.push_back(DeviceArray<float>(dense));
}

/// cuBLAS stores columns adjacent: our weights are its [inputs, outputs], a panel with samples adjacent its [samples,
/// neurons], one with neurons adjacent its [neurons, samples].
void CublasLoop::multiply(std::size_t number, Panel previous, Panel next) {
  float const* const weights = weights_[number].data();
  int const inputs = previous.num_neurons;
  int const outputs = next.num_neurons;
  int const samples = previous.num_samples;
  int const previous_line = static_cast<int>(previous.line_stride());
  int const next_line = static_cast<int>(next.line_stride());
  if (options().layout == Layout::samples_adjacent) {
    check(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, samples, outputs, inputs, &kOne, previous.values,
                      previous_line, weights, inputs, &kZero, next.values, next_line),
          "a product");
  } else {
    check(cublasSgemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, outputs, samples, inputs, &kOne, weights, inputs,
                      previous.values, previous_line, &kZero, next.values, next_line),
          "a product");
  }
}

} // namespace varve::contenders

#include "cublas.hpp"

#include "core/error.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace varve::product_study {
namespace {

constexpr int as_it_is = 0; // CUBLAS_OP_N

void check(int status, char const* what) {
  if (status != 0) throw ResourceError(fmt::format("{} failed in cuBLAS: status {}", what, status));
}

} // namespace

Cublas::Cublas(std::string const& library, void* stream) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW);
  if (opened == nullptr) throw UsageError(fmt::format("--cublas {} cannot be opened: {}", library, dlerror()));
  auto const find = [&](char const* name) {
    auto* const function = dlsym(opened, name);
    if (function == nullptr) throw UsageError(fmt::format("--cublas {} has no {}", library, name));
    return function;
  };
  auto const create = reinterpret_cast<int (*)(void**)>(find("cublasCreate_v2"));
  auto const set_stream = reinterpret_cast<int (*)(void*, void*)>(find("cublasSetStream_v2"));
  auto const set_math_mode = reinterpret_cast<int (*)(void*, int)>(find("cublasSetMathMode"));
  destroy_ = reinterpret_cast<int (*)(void*)>(find("cublasDestroy_v2"));
  sgemm_ = reinterpret_cast<Gemm<float>>(find("cublasSgemm_v2"));
  dgemm_ = reinterpret_cast<Gemm<double>>(find("cublasDgemm_v2"));
  constexpr int default_math = 0; // TF32 has a mode of its own
  check(create(&handle_), "starting");
  check(set_stream(handle_, stream), "taking a stream");
  check(set_math_mode(handle_, default_math), "choosing full precision");
}

Cublas::~Cublas() {
  if (handle_ != nullptr) destroy_(handle_);
}

/// cuBLAS stores columns adjacent: our matrices are its transposed ones, and its product is B^T A^T.
template <class Scalar>
void Cublas::multiply_by(Gemm<Scalar> gemm, Scalar const* a, Scalar const* b, Scalar* c, int rows, int columns,
                         int depth) const {
  Scalar const one = 1;
  Scalar const zero = 0;
  check(gemm(handle_, as_it_is, as_it_is, columns, rows, depth, &one, b, columns, a, depth, &zero, c, columns),
        "a product");
}

void Cublas::multiply(float const* a, float const* b, float* c, int rows, int columns, int depth) const {
  multiply_by(sgemm_, a, b, c, rows, columns, depth);
}

void Cublas::multiply(double const* a, double const* b, double* c, int rows, int columns, int depth) const {
  multiply_by(dgemm_, a, b, c, rows, columns, depth);
}

} // namespace varve::product_study

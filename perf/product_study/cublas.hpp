#pragma once

#include <string>

namespace varve::product_study {

/// gemm of cuBLAS, from a shared library that is opened when the program runs, so that the build needs none. Float
/// without TF32.
class Cublas {
public:
  /// `stream`: the CUDA stream of the products. Throws UsageError if the library cannot be opened or lacks a function,
  /// ResourceError if cuBLAS fails.
  Cublas(std::string const& library, void* stream);
  ~Cublas();
  Cublas(Cublas const&) = delete;
  Cublas& operator=(Cublas const&) = delete;

  /// C = A B in device memory, all row by row: A has rows x depth numbers, B depth x columns. Does not wait for it.
  void multiply(float const* a, float const* b, float* c, int rows, int columns, int depth) const;
  void multiply(double const* a, double const* b, double* c, int rows, int columns, int depth) const;

private:
  template <class Scalar>
  using Gemm = int (*)(void*, int, int, int, int, int, Scalar const*, Scalar const*, int, Scalar const*, int,
                       Scalar const*, Scalar*, int);

  template <class Scalar>
  void multiply_by(Gemm<Scalar> gemm, Scalar const* a, Scalar const* b, Scalar* c, int rows, int columns,
                   int depth) const;

  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  Gemm<float> sgemm_ = nullptr;
  Gemm<double> dgemm_ = nullptr;
};

} // namespace varve::product_study

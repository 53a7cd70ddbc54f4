// The layer loop in SuiteSparse:GraphBLAS, as LAGraph's LAGraph_dnn has it: four calls a layer. peer_graphblas.py
// compiles this file to a shared library and calls it by ctypes. Functions return 0, or GraphBLAS's error code.
#include <complex>
#include <cstdint>
#include <vector>

extern "C" { // the header of Debian 12 (7.4) does not say so itself; what it includes must have been included before
#include <GraphBLAS.h>
}

namespace {

struct Layer {
  GrB_Matrix weights = nullptr; // [inputs, outputs]
  GrB_Matrix bias = nullptr;    // diagonal, [outputs, outputs]
  float cap = 0.0F;             // 0: none
};

std::vector<Layer> layers;
GrB_Matrix samples = nullptr;
GrB_Matrix current = nullptr;

GrB_Info import(GrB_Matrix& matrix, std::uint64_t rows, std::uint64_t columns, std::uint64_t const* pointers,
                std::uint64_t const* indices, float const* values) {
  auto const count = pointers[rows];
  return GrB_Matrix_import_FP32(&matrix, GrB_FP32, rows, columns, pointers, indices, values, rows + 1, count, count,
                                GrB_CSR_FORMAT);
}

GrB_Info run_layer(Layer const& layer) {
  GrB_Index num_samples = 0;
  GrB_Index num_outputs = 0;
  GrB_Matrix next = nullptr;
  GrB_Matrix_nrows(&num_samples, current);
  GrB_Matrix_ncols(&num_outputs, layer.weights);
  GrB_Info info = GrB_Matrix_new(&next, GrB_FP32, num_samples, num_outputs);
  if (info == GrB_SUCCESS)
    info = GrB_mxm(next, nullptr, nullptr, GrB_PLUS_TIMES_SEMIRING_FP32, current, layer.weights, nullptr);
  if (info == GrB_SUCCESS) info = GrB_mxm(next, nullptr, nullptr, GxB_PLUS_PLUS_FP32, next, layer.bias, nullptr);
  if (info == GrB_SUCCESS) info = GrB_Matrix_select_FP32(next, nullptr, nullptr, GrB_VALUEGT_FP32, next, 0.0F, nullptr);
  if (info == GrB_SUCCESS && layer.cap > 0.0F)
    info = GrB_Matrix_apply_BinaryOp2nd_FP32(next, nullptr, nullptr, GrB_MIN_FP32, next, layer.cap, nullptr);
  GrB_Matrix_free(&current);
  current = next;
  return info;
}

} // namespace

extern "C" {

int varve_start(int threads) {
  GrB_Info const info = GrB_init(GrB_NONBLOCKING);
  return info == GrB_SUCCESS ? GxB_Global_Option_set_INT32(static_cast<GxB_Option_Field>(GxB_NTHREADS), threads) : info;
}

/// 70400 is version 7.4.0.
int varve_version() {
  return GxB_IMPLEMENTATION_MAJOR * 10000 + GxB_IMPLEMENTATION_MINOR * 100 + GxB_IMPLEMENTATION_SUB;
}

void varve_forget() {
  for (auto& layer : layers) {
    GrB_Matrix_free(&layer.weights);
    GrB_Matrix_free(&layer.bias);
  }
  layers.clear();
  GrB_Matrix_free(&samples);
  GrB_Matrix_free(&current);
}

/// Adds a layer: its weights [inputs, outputs] in CSR, one bias an output.
int varve_add(std::uint64_t inputs, std::uint64_t outputs, std::uint64_t const* pointers, std::uint64_t const* indices,
              float const* values, float const* bias, float cap) {
  Layer layer;
  layer.cap = cap;
  GrB_Info info = import(layer.weights, inputs, outputs, pointers, indices, values);
  std::vector<std::uint64_t> places(outputs + 1);
  for (std::uint64_t i = 0; i <= outputs; ++i) places[i] = i;
  if (info == GrB_SUCCESS) info = import(layer.bias, outputs, outputs, places.data(), places.data(), bias);
  layers.push_back(layer);
  return info;
}

int varve_take(std::uint64_t rows, std::uint64_t columns, std::uint64_t const* pointers, std::uint64_t const* indices,
               float const* values) {
  GrB_Matrix_free(&samples);
  return import(samples, rows, columns, pointers, indices, values);
}

int varve_run() {
  GrB_Matrix_free(&current);
  GrB_Info info = GrB_Matrix_dup(&current, samples);
  for (auto const& layer : layers)
    if (info == GrB_SUCCESS) info = run_layer(layer);
  return info == GrB_SUCCESS ? GrB_Matrix_wait(current, GrB_MATERIALIZE) : info;
}

/// Writes the last activations, dense, to zeros [samples, outputs].
int varve_result(std::uint64_t outputs, float* dense) {
  GrB_Index count = 0;
  GrB_Matrix_nvals(&count, current);
  std::vector<GrB_Index> rows(count);
  std::vector<GrB_Index> columns(count);
  std::vector<float> values(count);
  GrB_Info const info = GrB_Matrix_extractTuples_FP32(rows.data(), columns.data(), values.data(), &count, current);
  for (GrB_Index i = 0; info == GrB_SUCCESS && i < count; ++i) dense[rows[i] * outputs + columns[i]] = values[i];
  return info;
}

} // extern "C"

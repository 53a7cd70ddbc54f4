#include "engine/random_case.hpp"
#include "formats/device_layer.hpp"
#include "kernels/binary_samples.hpp"
#include "kernels/execution_spaces.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace varve {
namespace {

template <class ExecutionSpace>
class BinarySamples : public testing::Test {
protected:
  static std::vector<std::uint32_t> bits_of(SparseMatrix const& matrix) {
    ExecutionSpace const space;
    DeviceSamples<ExecutionSpace, float> samples;
    samples.num_samples = static_cast<int>(matrix.num_rows);
    samples.num_neurons = static_cast<int>(matrix.num_columns);
    samples.row_pointers = upload<ExecutionSpace>("row_pointers", matrix.row_pointers);
    samples.columns = upload<ExecutionSpace>("columns", matrix.column_indices);
    auto const words = upload<ExecutionSpace>(
        "words", std::vector<std::uint32_t>((matrix.num_rows + 31) / 32 * matrix.num_columns, 0xdeadbeef));
    set_sample_bits(space, samples, SampleBits<float>{words, samples.num_neurons, {}});
    space.fence("set sample bits");
    return download(words);
  }

  static std::vector<std::uint32_t> expected(SparseMatrix const& matrix) {
    std::vector<std::uint32_t> words((matrix.num_rows + 31) / 32 * matrix.num_columns, 0);
    for (std::size_t sample = 0; sample < matrix.num_rows; ++sample) {
      for (NeuronIndex const neuron : matrix.row_columns(sample))
        words[sample / 32 * matrix.num_columns + neuron] |= std::uint32_t(1) << (sample % 32);
    }
    return words;
  }
};
TYPED_TEST_SUITE(BinarySamples, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(BinarySamples, HaveABitForEachEntry) {
  test::RandomCases random(5);
  for (std::size_t const rows : {1U, 31U, 32U, 33U, 100U}) {
    for (std::size_t const columns : {1U, 64U, 1000U, 4096U, 4097U, 20000U}) {
      auto const matrix = random.draw_matrix(rows, columns, 1 + columns / 3, 1.0);
      EXPECT_EQ(this->bits_of(matrix), this->expected(matrix)) << rows << " samples of " << columns << " neurons";
    }
  }
}

} // namespace
} // namespace varve

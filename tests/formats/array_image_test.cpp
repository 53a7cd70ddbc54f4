#include "engine/random_case.hpp"
#include "formats/csr.hpp"
#include "formats/decoded.hpp"
#include "formats/sliced_ell.hpp"
#include "formats/staged_blocks.hpp"
#include "kernels/execution_spaces.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace varve {
namespace {

template <class ExecutionSpace>
class ArrayImages : public testing::Test {
protected:
  using Bytes = DeviceArray<ExecutionSpace, unsigned char>;

  static Layer layer() {
    test::RandomCases random(11);
    Layer layer;
    layer.weights = random.draw_matrix(133, 70, 12, 1.0);
    for (int output = 1; output < 133; ++output) layer.bias.push_back(random.real(-1.0, 1.0));
    return layer;
  }

  /// Brings the image to a device, where `format` finds it then.
  template <class Format>
  static Bytes place(Format& format, std::vector<unsigned char> const& image) {
    auto const bytes = upload<ExecutionSpace>("image", image);
    move_arrays(format, bytes.data());
    return bytes;
  }

  template <class Format>
  static void expect_holds(Format const& format, Format const& uploaded) {
    EXPECT_EQ(test::decoded(format), test::decoded(uploaded));
    EXPECT_EQ(bytes_on_device(format), bytes_on_device(uploaded));
  }

  template <class Format, class Encoded>
  static void expect_same_in_image(Encoded const& encoded) {
    Format uploaded(layer(), encoded);
    ArraysInImage<ExecutionSpace> image;
    Format in_image(layer(), encoded, {&image});
    auto const bytes = place(in_image, image.bytes());
    expect_holds(in_image, uploaded);

    ArraysInImage<ExecutionSpace> taken; // the same bytes, by way of the device
    Format back(layer(), encoded);
    for_each_array(back, [&](auto& array) { taken.take(array); });
    EXPECT_EQ(taken.bytes(), image.bytes());
    auto const back_bytes = place(back, taken.bytes());
    expect_holds(back, uploaded);
  }
};
TYPED_TEST_SUITE(ArrayImages, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(ArrayImages, OfSlicedEll) {
  using Format = SlicedEll<TypeParam, float, std::uint16_t, 16, 8, 1>;
  TestFixture::template expect_same_in_image<Format>(Format::encode(this->layer().weights, {}));
}

TYPED_TEST(ArrayImages, OfPatternBlocks) {
  using Format = SlicedEll<TypeParam, double, std::uint32_t, 1, 1, 4>;
  auto const weights = this->layer().weights;
  TestFixture::template expect_same_in_image<Format>(Format::encode(weights, order_by_input_list(weights, 4)));
}

TYPED_TEST(ArrayImages, OfStagedBlocks) {
  using Format = StagedBlocks<TypeParam, float, 8, 8, 1>;
  auto stages = find_stages(this->layer().weights, 8, 70, 32, 0.0);
  ASSERT_TRUE(stages.has_value());
  TestFixture::template expect_same_in_image<Format>(Format::encode(this->layer().weights, std::move(*stages)));
}

TYPED_TEST(ArrayImages, OfCsr) {
  using Format = Csr<TypeParam, float, std::uint16_t>;
  Format const uploaded(this->layer());
  ArraysInImage<TypeParam> image;
  Format in_image(this->layer(), {&image});
  EXPECT_EQ(image.bytes().size() % ArraysInImage<TypeParam>::alignment, 0U);
  auto const bytes = this->place(in_image, image.bytes());
  this->expect_holds(in_image, uploaded);
  EXPECT_EQ(download(in_image.frame.bias), download(uploaded.frame.bias));
  EXPECT_EQ(download(in_image.frame.neurons), download(uploaded.frame.neurons));
}

} // namespace
} // namespace varve

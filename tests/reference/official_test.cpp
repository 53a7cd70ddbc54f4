#include "network/official_network.hpp"
#include "reference/infer.hpp"
#include "reference/verdict.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::OfficialNetwork;

std::string const kGoldenDir = VARVE_GOLDEN_DIR;

/// The official images 1 to 600, read by the simplest means, apart from all readers under test.
SampleSet official_images() {
  gzFile const file = gzopen((kGoldenDir + "/sparse-images-1024.tsv.gz").c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open the official images");
  std::string text;
  std::array<char, 65536> buffer{};
  for (int size = 1; size > 0;) {
    size = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    if (size > 0) text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  gzclose(file);

  std::vector<std::set<NeuronIndex>> pixels(600);
  std::istringstream numbers(text);
  std::size_t sample = 0;
  NeuronIndex neuron = 0;
  double value = 0.0;
  while (numbers >> sample >> neuron >> value) pixels.at(sample - 1).insert(neuron - 1);

  SampleSet images;
  images.matrix.num_rows = pixels.size();
  images.matrix.num_columns = test::kOfficialNeurons;
  images.matrix.values = {1.0};
  for (auto const& row : pixels) {
    images.matrix.column_indices.insert(images.matrix.column_indices.end(), row.begin(), row.end());
    images.matrix.row_pointers.push_back(images.matrix.column_indices.size());
  }
  return images;
}

/// The true categories, from 0.
std::vector<SampleIndex> official_categories() {
  std::ifstream file(kGoldenDir + "/neuron1024-l120-categories.tsv");
  std::vector<SampleIndex> numbers;
  for (SampleIndex number = 0; file >> number;) numbers.push_back(number - 1);
  return numbers;
}

class Official : public testing::Test {
protected:
  static void SetUpTestSuite() {
    images_ = official_images();
    network_ = std::make_unique<Network>(load(OfficialNetwork()));
  }
  static void TearDownTestSuite() { network_.reset(); }

  static inline SampleSet images_;
  static inline std::unique_ptr<Network> network_;
};

TEST_F(Official, TruthIsTheKnownOne) {
  EXPECT_EQ(official_categories(), (std::vector<SampleIndex>{286, 294, 385, 426, 427, 528, 570}));
}

TEST_F(Official, CategoriesInDouble) {
  EXPECT_EQ(categories(infer<double>(*network_, images_)), official_categories());
}

TEST_F(Official, CategoriesInFloat) { EXPECT_EQ(categories(infer<float>(*network_, images_)), official_categories()); }

TEST_F(Official, CategoriesInExactArithmetic) {
  auto const verdicts = judge(*network_, images_, Arithmetic::exact, false).of_samples;
  std::vector<SampleIndex> alive;
  for (std::size_t sample = 0; sample < verdicts.size(); ++sample) {
    if (verdicts[sample].is_alive) alive.push_back(sample);
    EXPECT_TRUE(verdicts[sample].is_certain_in_double);
  }
  EXPECT_EQ(alive, official_categories());
}

TEST_F(Official, SurvivorsAreSaturated) {
  auto const last = infer(*network_, images_);
  EXPECT_EQ(last.matrix.num_entries(), 7U * test::kOfficialNeurons);
  for (auto const value : last.matrix.values) EXPECT_EQ(value, kChallengeCap);
}

} // namespace
} // namespace varve

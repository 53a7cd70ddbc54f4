#include "io/foreign_files.hpp"

#include "io/files.hpp"
#include "io/open.hpp"
#include "io/text_file.hpp"

#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::sentence_about;
using test::sentence_of;
using test::TemporaryFolder;
using test::write_bytes;

/// The first line of a file, with these words.
std::string banner(std::string const& words) { return "%%MatrixMarket matrix " + words + "\n"; }

TEST(MatrixMarket, EveryFormatKindAndSymmetryIsRead) {
  TemporaryFolder const folder;
  SparseMatrix const general{2, 3, {0, 2, 3}, {0, 2, 1}, {1.5, -2, 4}};
  SparseMatrix const symmetric{2, 2, {0, 2, 3}, {0, 1, 0}, {1, 2, 2}};
  SparseMatrix const skew{2, 2, {0, 1, 2}, {1, 0}, {-2, 2}};
  for (auto const& [text, matrix] : std::vector<std::pair<std::string, SparseMatrix>>{
           {banner("coordinate real general") + "2 3 3\n1 3 -2\n1 1 1.5\n2 2 4\n", general},
           {banner("coordinate double general") + "% a note\n\n2 3 3\n1\t3 -2.\n% another\n1  1 15e-1 \n2 2 +4\r\n",
            general},
           {banner("array real general") + "2 3\n1.5\n0\n0\n4\n-2\n0\n", general},
           {banner("coordinate real symmetric") + "2 2 2\n1 1 1\n2 1 2\n", symmetric},
           {banner("array integer symmetric") + "2 2\n1\n2\n0\n", symmetric},
           {banner("coordinate real skew-symmetric") + "2 2 1\n2 1 2\n", skew},
           {banner("array real skew-symmetric") + "2 2\n2\n", skew},
           {banner("coordinate pattern general") + "2 2 3\n1 1\n2 2\n1 2\n", {2, 2, {0, 2, 3}, {0, 1, 1}, {1}}},
           {banner("coordinate pattern symmetric") + "2 2 1\n2 1\n", {2, 2, {0, 1, 2}, {1, 0}, {1}}},
           {banner("coordinate unsigned-integer general") + "2 2 2\n1 2 2\n2 1 1099511627776\n",
            {2, 2, {0, 1, 2}, {1, 0}, {2, 1099511627776}}},
           {"%%matrixmarket MATRIX Coordinate Integer GENERAL\n1 1 0\n", {1, 1, {0, 0}, {}, {}}},
           {banner("coordinate real general") + "2 2 1\n1 2 900\n% an end", {2, 2, {0, 1, 1}, {1}, {900}}}}) {
    auto const path = write_bytes(folder / "matrix", text);
    EXPECT_TRUE(is_matrix_market(path));
    EXPECT_EQ(read_matrix_market(path), matrix) << text;
    EXPECT_EQ(open_samples(path, std::nullopt).matrix, matrix) << text;
  }
}

TEST(MatrixMarket, RowsAreSamplesAndTargetsAndZerosAreNone) {
  TemporaryFolder const folder;
  std::string const text = banner("coordinate real general") + "4 3 5\n1 1 2\n2 3 0\n3 1 1\n3 2 2\n4 3 2\n";
  TextWriter compressed(folder / "matrix.gz");
  compressed.write(text);
  compressed.commit();
  for (auto const& path : {write_bytes(folder / "matrix", text), folder / "matrix.gz"}) {
    EXPECT_EQ(read_matrix_market(path).num_entries(), 5U);
    SampleSet const all{{4, 3, {0, 1, 1, 3, 4}, {0, 0, 1, 2}, {2, 1, 2, 2}}, 0};
    EXPECT_TRUE(holds_samples(path));
    EXPECT_EQ(open_samples(path, 3), all);
    for (auto const& range : {SampleRange{1, 3}, SampleRange{3, 4}, SampleRange{2, 2}})
      EXPECT_EQ(to_set(open_matrix_market_samples(path, range)->read(0, range.second - range.first)),
                samples_of(all, range.first, range.second));
    EXPECT_EQ(to_set(open_targets(path, 3, {0, 4}, OtherSamples::refused)->read(0, 4)), all);
    EXPECT_EQ(sentence_about(path, [&] { open_samples(path, 4); }),
              " holds samples of 3 neurons, the network has 4 inputs");
    EXPECT_EQ(sentence_about(path,
                             [&] {
                               open_targets(path, 2, {0, 4}, OtherSamples::refused);
                             }),
              " holds targets of 3 neurons, the network has 2 outputs");
    EXPECT_EQ(sentence_about(path,
                             [&] {
                               open_targets(path, 3, {0, 3}, OtherSamples::refused);
                             }),
              ": found targets of the samples 1:4, expected targets of the samples 1:3");
    EXPECT_EQ(sentence_of<UsageError>([&] {
                open_samples(path, 3, SampleRange{2, 5});
              }),
              "the samples 3:5 were asked for, but " + path.string() + " holds the samples 1:4");
  }
}

TEST(MatrixMarket, WhatIsWrongIsNamed) {
  TemporaryFolder const folder;
  auto const sentence = [&](std::string const& text) {
    auto const path = write_bytes(folder / "matrix", text);
    return sentence_about(path, [&] { read_matrix_market(path); });
  };
  auto const general = banner("coordinate real general");
  for (auto const& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"%%MatrixMarket vector coordinate real general\n",
            ":1: found \"%%MatrixMarket vector coordinate real ge...\", expected %%MatrixMarket matrix, and three "
            "words "
            "more"},
           {banner("list real general"),
            ":1: found \"%%MatrixMarket matrix list real general\", expected the format coordinate or array"},
           {banner("array complex general"),
            ":1: found \"%%MatrixMarket matrix array complex gene...\", expected values of "
            "the kind real, integer or, with coordinate, pattern"},
           {banner("array pattern general"),
            ":1: found \"%%MatrixMarket matrix array pattern gene...\", expected values of "
            "the kind real, integer or, with coordinate, pattern"},
           {banner("array real hermitian"), ":1: found \"%%MatrixMarket matrix array real hermiti...\", expected the "
                                            "symmetry general, symmetric or skew-symmetric"},
           {general, ": found no line of sizes, expected one behind the banner"},
           {general + "2 2\n", ":2: found \"2 2\", expected the number of entries"},
           {general + "2 2 2\n1 1 1\n", ": found 1 entries, expected 2 as the line of sizes says"},
           {general + "2 2 1\n1 1 1\n1 2 1\n", ":4: found another entry, expected 1 as the line of sizes says"},
           {general + "2 2 1\n0 1 1\n", ":3: found \"0 1 1\", expected a row from 1 to 2"},
           {general + "2 2 1\n1 3 1\n", ":3: found \"1 3 1\", expected a column from 1 to 2"},
           {general + "2 2 1\n1 1 inf\n", ":3: found \"1 1 inf\", expected a finite number"},
           {general + "2 2 1\n1 1 1 1\n", ":3: found \"1 1 1 1\", expected no more on this line"},
           {general + "2 2 1\n1 2 +-5\n", ":3: found \"1 2 +-5\", expected a number"},
           {general + "2 2 1\n1 2 1e400\n", ":3: found \"1 2 1e400\", expected a number within the range of its type"},
           {general + "2 2 1\n1 2 1.0D+00\n",
            ":3: found \"1 2 1.0D+00\", expected a number, with e instead of Fortran's D"},
           {banner("coordinate real skew-symmetric") + "2 2 1\n1 1 3\n",
            ":3: found \"1 1 3\", expected nothing but 0 on the diagonal of a skew-symmetric matrix"},
           {general + "2 2 1\n1 2 90", ":3: found \"1 2 90\" at the end of the file, expected a line break behind it, "
                                       "without which the file may have been cut"},
           {general + "2 2 2\n1 2 1\n1 2 3\n",
            ": found row 0, column 1 (both from 0) a second time, expected each entry "
            "once (SciPy: call sum_duplicates())"},
           {general + "4294967296 1 0\n", ":2: found a matrix of 4294967296 x 1, expected no more than 4294967295"},
           {general + "2097153 1 1\n1 1 1\n",
            ":2: found 2097153 rows for 1 entries, expected no more than 2097152, or than there are entries"},
           {banner("coordinate real symmetric") + "2 3 0\n",
            ":2: found \"2 3 0\", expected as many rows as columns in a symmetric matrix"},
           {banner("coordinate real symmetric") + "2 2 1\n1 2 1\n",
            ":3: found \"1 2 1\", expected an entry on or below the diagonal of a symmetric matrix"}}) {
    EXPECT_EQ(sentence(text), expected) << text;
  }
}

} // namespace
} // namespace varve

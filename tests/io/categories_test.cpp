#include "io/categories.hpp"

#include "io/files.hpp"
#include "io/text_file.hpp"

#include <string>
#include <vector>

namespace varve {
namespace {

using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;
using Samples = std::vector<SampleIndex>;

TEST(Categories, CountFromOneInTheFile) {
  TemporaryFolder const folder;
  Samples const samples = {0, 6, 41};
  write_categories(folder / "out.tsv", samples);
  EXPECT_EQ(read_bytes(folder / "out.tsv"), "1\n7\n42\n");
  EXPECT_EQ(read_categories(folder / "out.tsv"), samples);
  write_categories(folder / "out.tsv.gz", samples);
  EXPECT_EQ(read_categories(folder / "out.tsv.gz"), samples);
  write_categories(folder / "none.tsv", {});
  EXPECT_EQ(read_categories(folder / "none.tsv"), Samples());
}

TEST(Categories, AcceptAnyOrderCommentsBlankLinesAndForeignLineEnds) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "in.tsv", "# ids\r\n42\r\n\r\n% more\n 7 \n1\r\n# end");
  EXPECT_EQ(read_categories(path), (Samples{0, 6, 41}));
}

TEST(Categories, WrongLinesAreNamed) {
  TemporaryFolder const folder;
  auto const path = folder / "in.tsv";
  auto const sentence = [&](std::string const& text) {
    write_bytes(path, text);
    return test::sentence_about(path, [&] { read_categories(path); });
  };
  std::string const expected = ", expected one sample number from 1 to 18446744073709551615";
  EXPECT_EQ(sentence("1\nseven\n"), ":2: found \"seven\"" + expected);
  EXPECT_EQ(sentence("1\n90"),
            ":2: found \"90\" at the end of the file, expected a line break behind it, without which the "
            "file may have been cut");
  EXPECT_EQ(sentence("1\n\n0\n"), ":3: found \"0\"" + expected);
  EXPECT_EQ(sentence("-3\n"), ":1: found \"-3\"" + expected);
  EXPECT_EQ(sentence("3 4\n"), ":1: found \"3 4\"" + expected);
  EXPECT_EQ(sentence("1.5\n"), ":1: found \"1.5\"" + expected);
  EXPECT_EQ(sentence("9\n8\n9\n"), ":3: found sample 9 a second time, expected each sample once");
}

TEST(Predictions, HoldSampleAndNeuronFromOne) {
  TemporaryFolder const folder;
  write_predictions(folder / "out.tsv", Samples{0, 9}, std::vector<NeuronIndex>{3, 0});
  EXPECT_EQ(read_bytes(folder / "out.tsv"), "1\t4\n10\t1\n");
  write_predictions(folder / "out.tsv.zst", Samples{0, 9}, std::vector<NeuronIndex>{3, 0});
  EXPECT_EQ(read_text(folder / "out.tsv.zst"), "1\t4\n10\t1\n");
  EXPECT_THROW(write_predictions(folder / "none.tsv", Samples{0, 9}, std::vector<NeuronIndex>{3}), std::logic_error);
  EXPECT_FALSE(std::filesystem::exists(folder / "none.tsv"));
}

} // namespace
} // namespace varve

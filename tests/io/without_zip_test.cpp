#include "io/files.hpp"
#include "io/foreign_bytes.hpp"
#include "io/npz.hpp"
#include "io/zip_file.hpp"

namespace varve {
namespace {

/// This program is built with a zip_file.cpp that lacks libzip, as on a machine that has none.
TEST(WithoutZip, ReadingIsRefusedWithTheNameOfTheFile) {
  testing::TemporaryFolder const folder;
  testing::ZipWriter archive;
  archive.add("format.npy", "csr");
  auto const path = testing::write_bytes(folder / "matrix.npz", archive.finish());
  EXPECT_TRUE(is_zip(path));
  EXPECT_EQ(testing::sentence_about(path, [&] { read_npz(path); }),
            " is a ZIP archive, which this build of Varve cannot read; build it with libzip");
}

} // namespace
} // namespace varve

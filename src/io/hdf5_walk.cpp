#include "io/hdf5_walk.hpp"

#include "io/hdf5.hpp"
#include "io/network_file.hpp"
#include "io/plain_binsparse.hpp"
#include "io/sample_file.hpp"

namespace varve {

void walk_hdf5(std::filesystem::path const& path) {
  auto const file = hdf5::open_file(path);
  if (H5Aexists(file.id(), "format") == 0) return walk_plain_binsparse(path);
  auto const format = hdf5::read_text(file.id(), "format", path.string());
  if (format == "varve-samples") return walk_sample_file(path);
  if (format == "varve-network") return NetworkFile::walk(path);
}

} // namespace varve

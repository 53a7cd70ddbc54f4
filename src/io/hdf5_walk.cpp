#include "io/hdf5_walk.hpp"

#include "io/network_file.hpp"
#include "io/sample_file.hpp"

namespace varve {

bool says_samples(std::filesystem::path const& path) {
  auto const file = hdf5::open_file(path);
  return hdf5::read_text(file.id(), "format", path.string()) == "varve-samples";
}

hdf5::Walk structure_walk(std::filesystem::path const& path) {
  return {"structure", [path](hdf5::Share share) {
            if (!says_samples(path)) {
              NetworkFile::walk(path, share);
            } else if (share.number == 0) { // samples have few groups
              walk_sample_file(path);
            }
          }};
}

} // namespace varve

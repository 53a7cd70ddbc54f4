#include "io/hdf5_walk.hpp"

#include "io/network_file.hpp"
#include "io/plain_binsparse.hpp"
#include "io/sample_file.hpp"

namespace varve {

std::string declared_format(std::filesystem::path const& path) {
  auto const file = hdf5::open_file(path);
  return H5Aexists(file.id(), "format") > 0 ? hdf5::read_text(file.id(), "format", path.string()) : std::string();
}

bool says_samples(std::filesystem::path const& path) {
  auto const file = hdf5::open_file(path);
  return hdf5::read_text(file.id(), "format", path.string()) == "varve-samples";
}

hdf5::Walk structure_walk(std::filesystem::path const& path) {
  return {"structure", [path](hdf5::Share share) {
            auto const format = declared_format(path);
            if (format == "varve-network") return NetworkFile::walk(path, share);
            if (share.number > 0) return; // the others have few groups
            if (format == "varve-samples") return walk_sample_file(path);
            if (format.empty()) walk_plain_binsparse(path);
          }};
}

} // namespace varve

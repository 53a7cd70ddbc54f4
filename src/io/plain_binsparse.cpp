#include "io/plain_binsparse.hpp"

#include "core/error.hpp"
#include "io/binsparse.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_guard.hpp"
#include "io/hdf5_walk.hpp"
#include "io/line_error.hpp"
#include "io/matrix_parts.hpp"
#include "io/natural_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace varve {
namespace {

namespace fs = std::filesystem;

bool has_descriptor(hid_t group) { return H5Aexists(group, "binsparse") > 0; }

/// The names of all links of the root group.
std::vector<std::string> names_in(hdf5::File const& file, std::string const& place) {
  constexpr std::uint64_t most_names = 1 << 20;
  constexpr std::size_t longest_name = 4096;
  auto const root = hdf5::open_group(file.id(), "/", place);
  auto const count = hdf5::num_children(root, place);
  if (count > most_names)
    throw InputError(fmt::format("{}: found {} groups, expected no more than {}", place, count, most_names));
  std::vector<std::string> names;
  auto const take = [](hid_t, char const* name, H5L_info_t const*, void* target) -> herr_t {
    auto& list = *static_cast<std::vector<std::string>*>(target);
    list.emplace_back(name, strnlen(name, longest_name));
    return 0;
  };
  if (H5Literate(root.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, take, &names) < 0)
    throw InputError(fmt::format("{}: the names of its groups cannot be read", place));
  std::ranges::sort(names, comes_before);
  return names;
}

/// The groups with a matrix. Call it under hdf5::guarded.
std::vector<std::string> plain_matrices_in(hdf5::File const& file, std::string const& place) {
  if (has_descriptor(file.id())) return {""};
  std::vector<std::string> matrices;
  auto const refuse = [](char const*, char const*, char const*, char const*, unsigned*, hid_t, void*) -> herr_t {
    return -1; // a link into another file
  };
  hdf5::Properties const access(H5Pcreate(H5P_LINK_ACCESS));
  H5Pset_elink_cb(access.id(), refuse, nullptr);
  for (auto const& name : names_in(file, place)) {
    if (H5Aexists_by_name(file.id(), name.c_str(), "binsparse", access.id()) > 0) matrices.push_back(name);
  }
  return matrices;
}

std::string place_of(fs::path const& path, std::string const& name) {
  return name.empty() ? path.string() : fmt::format("{}: {}", path.string(), quote(name));
}

/// Opens a group and reads its descriptor.
binsparse::Descriptor open_plain_matrix(hdf5::File const& file, std::string const& name, std::string const& place,
                                        hdf5::Group& group) {
  group = hdf5::open_group(file.id(), name.empty() ? "/" : name, place);
  return binsparse::read_descriptor(group, place, binsparse::Formats::all);
}

/// Runs work(file) under the protection against broken files, whatever the file holds.
template <class Work>
auto in_file(fs::path const& path, Work const& work) {
  auto const lock = hdf5::lock();
  auto const fail_memory = [&] { throw ResourceError(fmt::format("{} does not fit into memory", path.string())); };
  try {
    return hdf5::guarded(path, structure_walk(path), [&] { return work(hdf5::open_file(path)); });
  } catch (std::bad_alloc const&) {
    fail_memory();
  } catch (std::length_error const&) {
    fail_memory();
  }
  std::abort();
}

} // namespace

bool is_plain_binsparse(fs::path const& path) {
  if (!hdf5::has_signature(path)) return false;
  return in_file(path, [&](hdf5::File const& file) {
    return H5Aexists(file.id(), "format") == 0 && !plain_matrices_in(file, path.string()).empty();
  });
}

void walk_plain_binsparse(fs::path const& path) {
  auto const file = hdf5::open_file(path);
  for (auto const& name : plain_matrices_in(file, path.string())) {
    hdf5::Group group;
    auto const place = place_of(path, name);
    auto const descriptor = open_plain_matrix(file, name, place, group);
    binsparse::require_arrays(group, descriptor, place);
  }
}

std::vector<std::string> plain_matrix_names(fs::path const& path) {
  return in_file(path, [&](hdf5::File const& file) { return plain_matrices_in(file, path.string()); });
}

SparseMatrix read_plain_matrix(fs::path const& path, std::string const& name) {
  return in_file(path, [&](hdf5::File const& file) {
    auto const names = plain_matrices_in(file, path.string());
    if (name.empty() && names.size() != 1)
      throw InputError(fmt::format("{}: found {} matrices, expected one", path.string(), names.size()));
    auto const& wanted = name.empty() ? names.front() : name;
    hdf5::Group group;
    auto const place = place_of(path, wanted);
    auto const descriptor = open_plain_matrix(file, wanted, place, group);
    return to_matrix(binsparse::read_parts(group, descriptor, place), place);
  });
}

std::vector<double> read_plain_list(fs::path const& path, std::string const& name) {
  return in_file(path, [&](hdf5::File const& file) {
    auto const place = place_of(path, name);
    auto const list = hdf5::open_dataset(file.id(), name, place);
    return hdf5::read_reals(list, 0, hdf5::length_of(list, place), place);
  });
}

} // namespace varve

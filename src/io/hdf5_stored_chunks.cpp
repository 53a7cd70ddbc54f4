#include "io/hdf5_stored_chunks.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/hdf5_access.hpp"
#include "io/hdf5_storage.hpp"

#include <fmt/format.h>

#include <limits>
#include <span>

namespace varve::hdf5 {
namespace {

constexpr std::uint64_t checksum_bytes = 4;

std::vector<H5Z_filter_t> filters_of(Properties const& properties, std::string const& place) {
  std::vector<H5Z_filter_t> filters;
  int const count = H5Pget_nfilters(properties.id());
  for (int number = 0; number < count; ++number) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t num_parameters = 0;
    auto const filter = H5Pget_filter2(properties.id(), static_cast<unsigned>(number), &flags, &num_parameters, nullptr,
                                       0, nullptr, &config);
    bool const is_known =
        filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_FLETCHER32;
    if (!is_known || (filter == H5Z_FILTER_DEFLATE && std::ranges::find(filters, filter) != filters.end())) {
      throw InputError(fmt::format("{}: found the filter {} of HDF5, expected shuffle, deflate (once) or fletcher32 "
                                   "(h5repack writes such files)",
                                   place, filter));
    }
    filters.push_back(filter);
  }
  return filters;
}

} // namespace

StoredChunks::StoredChunks(Dataset const& dataset, std::string const& place) : dataset_(dataset), place_(place) {
  Properties const properties(H5Dget_create_plist(dataset.id()));
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED) return;
  int const dimensions = H5Pget_chunk(properties.id(), static_cast<int>(chunk_.size()), chunk_.data());
  Dataspace const space(H5Dget_space(dataset.id()));
  VARVE_REQUIRE((dimensions == 1 || dimensions == 2) && H5Sget_simple_extent_ndims(space.id()) == dimensions,
                "chunks of numbers have one or two dimensions");
  H5Sget_simple_extent_dims(space.id(), lengths_.data(), nullptr);
  Datatype const type(H5Dget_type(dataset.id()));
  chunk_bytes_ = capped_multiply(capped_multiply(chunk_[0], chunk_[1]), H5Tget_size(type.id()));
  filters_ = filters_of(properties, place);
  unsigned options = 0;
  skips_filters_at_edges_ = H5Pget_chunk_opts(properties.id(), &options) >= 0 && options != 0;
  file_size_ = size_of_file(dataset);
}

std::uint64_t StoredChunks::elements_at_once() const {
  return has_chunks() ? capped_multiply(chunks_at_once, chunk_[0]) : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t StoredChunks::rows_at_once(std::uint64_t num_columns) const {
  if (!has_chunks()) return std::numeric_limits<std::uint64_t>::max();
  auto const across = num_columns / chunk_[1] + 2;
  return capped_multiply(std::max<std::uint64_t>(1, chunks_at_once / across), chunk_[0]);
}

std::uint64_t StoredChunks::list_rows_at_once(std::uint64_t num_columns) const {
  if (!has_chunks()) return std::numeric_limits<std::uint64_t>::max();
  return std::max<std::uint64_t>(1, chunks_at_once / (num_columns / chunk_[0] + 2));
}

bool StoredChunks::is_written(Place const& chunk_number) {
  auto const across = (lengths_[1] + chunk_[1] - 1) / chunk_[1];
  auto const [entry, is_new] = was_written_.try_emplace(chunk_number[0] * across + chunk_number[1], false);
  if (is_new) {
    try {
      entry->second = check({chunk_number[0] * chunk_[0], chunk_number[1] * chunk_[1]});
    } catch (...) {
      was_written_.erase(entry);
      throw;
    }
  }
  return entry->second;
}

/// Returns true if the chunk that begins there was written.
bool StoredChunks::check(std::array<hsize_t, 2> const& begin) {
  hsize_t size = 0;
  if (H5Dget_chunk_storage_size(dataset_.id(), begin.data(), &size) < 0 || size == 0) { // a failure in HDF5 1.10
    require_zeros_elsewhere();
    return false;
  }
  if (size > file_size_) {
    throw InputError(
        fmt::format("{}: found a chunk of {} bytes in a file of {} bytes, expected less", place_, size, file_size_));
  }
  bool const is_at_edge = begin[0] + chunk_[0] > lengths_[0] || begin[1] + chunk_[1] > lengths_[1];
  if (filters_.empty() || (skips_filters_at_edges_ && is_at_edge)) {
    require_bytes(size);
  } else {
    check_filtered(begin, size);
  }
  return true;
}

/// For a chunk that HDF5 does not find: the index must be sound, so that it was never written, and the dataset must
/// mean zeros by that. An index that lists as many chunks as there are lists one under a wrong place; matrices that
/// Varve wrote have all their chunks.
void StoredChunks::require_zeros_elsewhere() {
  if (are_others_zeros_) return;
  Dataspace const space(H5Dget_space(dataset_.id()));
  hsize_t num_chunks = 0;
  if (H5Dget_num_chunks(dataset_.id(), space.id(), &num_chunks) < 0)
    throw InputError(fmt::format("{}: its chunks cannot be found ({})", place_, reason()));
  auto const num_all =
      capped_multiply((lengths_[0] + chunk_[0] - 1) / chunk_[0], (lengths_[1] + chunk_[1] - 1) / chunk_[1]);
  if (num_chunks >= num_all || is_of_varve()) {
    throw InputError(fmt::format("{}: a chunk of it is not found, though its index lists {} of {}: the file is damaged",
                                 place_, num_chunks, num_all));
  }
  Properties const properties(H5Dget_create_plist(dataset_.id()));
  H5D_fill_value_t fill = H5D_FILL_VALUE_ERROR;
  if (H5Pfill_value_defined(properties.id(), &fill) < 0 || fill == H5D_FILL_VALUE_USER_DEFINED) {
    throw InputError(
        fmt::format("{}: found a chunk that was never written, expected all or zeros in its place", place_));
  }
  are_others_zeros_ = true;
}

/// True in the files of MatrixWriter.
bool StoredChunks::is_of_varve() const {
  File const file(H5Iget_file_id(dataset_.id()));
  try {
    return H5Aexists(file.id(), "format") > 0 && read_text(file.id(), "format", place_) == "varve-matrix";
  } catch (InputError const&) { // not text, or of variable length, which Varve does not write
    return false;
  }
}

void StoredChunks::require_bytes(std::uint64_t bytes) const {
  if (bytes == chunk_bytes_) return;
  throw InputError(fmt::format("{}: found a chunk of {} bytes, expected {}", place_, bytes, chunk_bytes_));
}

/// Undoes the filters, as far as they change the number of bytes. What a checksum says is left to HDF5, which checks
/// it.
void StoredChunks::check_filtered(std::array<hsize_t, 2> const& begin, std::uint64_t size) {
  std::vector<char> bytes(static_cast<std::size_t>(size));
  std::uint32_t skipped = 0;
  if (H5Dread_chunk(dataset_.id(), H5P_DEFAULT, begin.data(), &skipped, bytes.data()) < 0)
    throw InputError(fmt::format("{}: a chunk of it cannot be read ({})", place_, reason()));
  for (auto number = filters_.size(); number-- > 0;) {
    if ((skipped >> number & 1U) != 0) continue;
    if (filters_[number] == H5Z_FILTER_FLETCHER32) {
      bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), checksum_bytes));
    } else if (filters_[number] == H5Z_FILTER_DEFLATE) {
      std::vector<char> inflated(static_cast<std::size_t>(bytes_before(number, skipped)));
      if (!inflater_.inflate(bytes, inflated)) {
        throw InputError(fmt::format("{}: found a chunk that does not inflate to {} bytes", place_, inflated.size()));
      }
      bytes = std::move(inflated);
    }
  }
  require_bytes(bytes.size());
}

/// The bytes of a chunk that went into a filter: those of its elements, and checksums that filters before added.
std::uint64_t StoredChunks::bytes_before(std::size_t filter, std::uint32_t skipped) const {
  auto bytes = chunk_bytes_;
  for (std::size_t number = 0; number < filter; ++number)
    if (filters_[number] == H5Z_FILTER_FLETCHER32 && (skipped >> number & 1U) == 0) bytes += checksum_bytes;
  return bytes;
}

} // namespace varve::hdf5

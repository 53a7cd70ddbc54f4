#include "io/hdf5_chunks.hpp"

#include "core/checked.hpp"
#include "core/host_threads.hpp"
#include "core/spare_vectors.hpp"
#include "io/chunk_queue.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

namespace varve::hdf5 {
namespace {

using Kind = ElementType::Kind;

constexpr std::size_t largest_chunk = std::size_t{1} << 24; // in bytes; HDF5 reads larger ones
constexpr std::size_t most_bytes = std::size_t{1} << 26;    // decoded chunks of all threads together

/// The type of the numbers of a dataset; nullopt if they are not stored with the lowest byte first.
std::optional<ElementType> type_of(Dataset const& dataset) {
  Datatype const type(H5Dget_type(dataset.id()));
  std::pair<hid_t, ElementType> const known[] = {
      {H5T_STD_U16LE, {Kind::unsigned_integer, 2}}, {H5T_STD_U32LE, {Kind::unsigned_integer, 4}},
      {H5T_IEEE_F32LE, {Kind::floating, 4}},        {H5T_IEEE_F64LE, {Kind::floating, 8}},
      {H5T_STD_U8LE, {Kind::unsigned_integer, 1}},  {H5T_STD_U64LE, {Kind::unsigned_integer, 8}},
      {H5T_STD_I32LE, {Kind::signed_integer, 4}},   {H5T_STD_I64LE, {Kind::signed_integer, 8}},
      {H5T_STD_I8LE, {Kind::signed_integer, 1}},    {H5T_STD_I16LE, {Kind::signed_integer, 2}}};
  for (auto const& [id, found] : known)
    if (H5Tequal(type.id(), id) > 0) return found;
  return std::nullopt;
}

/// Adds the filters to the format. Returns false unless they are one or more of shuffle, deflate and Fletcher-32, in
/// this order.
bool take_filters(Properties const& properties, ChunkFormat& format) {
  int const count = H5Pget_nfilters(properties.id());
  int last = 0;
  for (int number = 0; number < count; ++number) {
    unsigned flags = 0;
    unsigned config = 0;
    std::array<unsigned, 1> parameter{};
    std::size_t num_parameters = parameter.size();
    auto const filter = H5Pget_filter2(properties.id(), static_cast<unsigned>(number), &flags, &num_parameters,
                                       parameter.data(), 0, nullptr, &config);
    int const place = filter == H5Z_FILTER_SHUFFLE ? 1 : filter == H5Z_FILTER_DEFLATE ? 2 : 3;
    bool const is_known = place < 3 || filter == H5Z_FILTER_FLETCHER32;
    if (!is_known || place <= last) return false;
    // the shuffle says the size of what it took apart
    if (filter == H5Z_FILTER_SHUFFLE && (num_parameters < 1 || parameter[0] != format.type.size)) return false;
    format.is_shuffled = format.is_shuffled || place == 1;
    format.is_deflated = format.is_deflated || place == 2;
    format.has_checksum = format.has_checksum || place == 3;
    last = place;
  }
  // HDF5 does not say how many bytes a chunk without filters takes in the file, but reads that many
  return count > 0;
}

bool is_read_only(Dataset const& dataset) {
  File const file(H5Iget_file_id(dataset.id()));
  unsigned intent = 0;
  return H5Fget_intent(file.id(), &intent) >= 0 && intent == H5F_ACC_RDONLY;
}

/// The sizes of a dataset; nullopt if it has other than `Rank` dimensions.
template <std::size_t Rank>
std::optional<std::array<hsize_t, Rank>> sizes_of(Dataset const& dataset) {
  Dataspace const space(H5Dget_space(dataset.id()));
  std::array<hsize_t, Rank> sizes{};
  if (H5Sget_simple_extent_ndims(space.id()) != static_cast<int>(Rank)) return std::nullopt;
  if (H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr) < 0) return std::nullopt;
  return sizes;
}

/// The format of the chunks of a dataset, and their sizes; nullopt if HDF5 has to read it.
template <std::size_t Rank>
std::optional<ChunkFormat> format_of(Dataset const& dataset, std::array<hsize_t, Rank>& chunk) {
  Properties const properties(H5Dget_create_plist(dataset.id()));
  unsigned options = 0;
  bool const has_chunks =
      H5Pget_layout(properties.id()) == H5D_CHUNKED &&
      H5Pget_chunk(properties.id(), static_cast<int>(Rank), chunk.data()) == static_cast<int>(Rank) &&
      H5Pget_chunk_opts(properties.id(), &options) >= 0 && options == 0;
  if (std::endian::native != std::endian::little || !has_chunks || !is_read_only(dataset)) return std::nullopt;
  hsize_t length = 1;
  for (auto const size : chunk) length = capped_multiply(length, size);
  auto const type = type_of(dataset);
  if (!type || length == 0 || length > largest_chunk / type->size) return std::nullopt;
  ChunkFormat format{*type, static_cast<std::size_t>(length)};
  if (!take_filters(properties, format)) return std::nullopt;
  return format;
}

/// Reads the stored bytes of the chunk that begins at this place. Returns false if there are none, far more than the
/// numbers take, or some that were not filtered.
bool read_stored(Dataset const& dataset, hsize_t const* begin, ChunkFormat const& format, std::vector<char>& bytes) {
  constexpr std::size_t overhead = 1024; // of filters, in bytes
  hsize_t size = 0;
  if (H5Dget_chunk_storage_size(dataset.id(), begin, &size) < 0) return false;
  if (size == 0 || size > 2 * format.bytes() + overhead) return false;
  bytes = SpareVectors<char>::of_process().take(static_cast<std::size_t>(size));
  std::uint32_t skipped_filters = 0;
  return H5Dread_chunk(dataset.id(), H5P_DEFAULT, begin, &skipped_filters, bytes.data()) >= 0 && skipped_filters == 0;
}

/// Threads that decode `num_chunks` chunks beside the one that reads them.
std::size_t num_helpers_for(std::uint64_t num_chunks, ChunkFormat const& format) {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>({num_chunks - 1, num_host_threads() - 1, most_bytes / format.bytes()}));
}

/// The rows of a block in the chunk that begins at `begin`.
template <class Element>
std::vector<ChunkRun<Element>> runs_of(MatrixBlock const& block, std::array<hsize_t, 2> const& begin,
                                       std::array<hsize_t, 2> const& chunk, Element* values) {
  auto const first_row = std::max<std::uint64_t>(begin[0], block.first_row);
  auto const last_row = std::min<std::uint64_t>(begin[0] + chunk[0], block.first_row + block.num_rows);
  auto const first_column = std::max<std::uint64_t>(begin[1], block.first_column);
  auto const last_column = std::min<std::uint64_t>(begin[1] + chunk[1], block.first_column + block.num_columns);
  std::vector<ChunkRun<Element>> runs;
  for (auto row = first_row; row < last_row; ++row) {
    auto const place = (row - block.first_row) * block.num_columns + first_column - block.first_column;
    runs.push_back({static_cast<std::size_t>((row - begin[0]) * chunk[1] + first_column - begin[1]),
                    std::span(values + place, static_cast<std::size_t>(last_column - first_column))});
  }
  return runs;
}

} // namespace

template <class Element>
bool read_chunks(Dataset const& dataset, std::uint64_t first, std::span<Element> elements,
                 std::function<bool(std::span<Element const>)> const& accepts) {
  if (elements.empty()) return true;
  auto const end = capped_add(first, elements.size());
  std::array<hsize_t, 1> chunk{};
  auto const format = format_of(dataset, chunk);
  auto const length = sizes_of<1>(dataset);
  if (!format || !length || length->front() < end || !ChunkDecoder::converts<Element>(format->type)) return false;
  auto const first_chunk = first / format->length;
  auto const last_chunk = (end - 1) / format->length;
  ChunkQueue<Element> queue(*format, num_helpers_for(last_chunk - first_chunk + 1, *format), accepts);
  for (auto number = first_chunk; number <= last_chunk; ++number) {
    hsize_t const begin = number * format->length;
    auto const from = std::max<std::uint64_t>(begin, first);
    auto const to = std::min<std::uint64_t>(begin + format->length, end);
    StoredChunk<Element> stored{{},
                                {{static_cast<std::size_t>(from - begin), elements.subspan(from - first, to - from)}}};
    if (!read_stored(dataset, &begin, *format, stored.bytes) || !queue.add(std::move(stored))) return false;
  }
  return queue.finish();
}

template <class Element>
bool read_chunks(Dataset const& dataset, MatrixBlock const& block, Element* values) {
  if (block.size() == 0) return true;
  std::array<hsize_t, 2> chunk{};
  auto const format = format_of(dataset, chunk);
  auto const sizes = sizes_of<2>(dataset);
  auto const end_row = capped_add(block.first_row, block.num_rows);
  auto const end_column = capped_add(block.first_column, block.num_columns);
  if (!format || !sizes || (*sizes)[0] < end_row || (*sizes)[1] < end_column) return false;
  if (format->type.kind != Kind::floating || format->type.size != sizeof(Element)) return false;
  auto const first_row = block.first_row / chunk[0];
  auto const first_column = block.first_column / chunk[1];
  auto const num_down = (end_row - 1) / chunk[0] - first_row + 1;
  auto const num_across = (end_column - 1) / chunk[1] - first_column + 1;
  if (capped_multiply(capped_multiply(num_down, num_across), format->length) > capped_multiply(2, block.size()))
    return false;
  ChunkQueue<Element> queue(*format, num_helpers_for(num_down * num_across, *format));
  for (std::uint64_t number = 0; number < num_down * num_across; ++number) {
    std::array<hsize_t, 2> const begin = {(first_row + number / num_across) * chunk[0],
                                          (first_column + number % num_across) * chunk[1]};
    StoredChunk<Element> stored{{}, runs_of(block, begin, chunk, values)};
    if (!read_stored(dataset, begin.data(), *format, stored.bytes) || !queue.add(std::move(stored))) return false;
  }
  return queue.finish();
}

template bool read_chunks(Dataset const&, std::uint64_t, std::span<double>,
                          std::function<bool(std::span<double const>)> const&);
template bool read_chunks(Dataset const&, std::uint64_t, std::span<std::int64_t>,
                          std::function<bool(std::span<std::int64_t const>)> const&);
template bool read_chunks(Dataset const&, std::uint64_t, std::span<std::uint16_t>,
                          std::function<bool(std::span<std::uint16_t const>)> const&);
template bool read_chunks(Dataset const&, std::uint64_t, std::span<std::uint32_t>,
                          std::function<bool(std::span<std::uint32_t const>)> const&);
template bool read_chunks(Dataset const&, std::uint64_t, std::span<std::uint64_t>,
                          std::function<bool(std::span<std::uint64_t const>)> const&);
template bool read_chunks(Dataset const&, MatrixBlock const&, float*);
template bool read_chunks(Dataset const&, MatrixBlock const&, double*);

} // namespace varve::hdf5

#include "io/hdf5_plain.hpp"

#include "core/host_threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>

namespace varve::hdf5 {
namespace {

constexpr std::uint64_t bytes_at_a_time = std::uint64_t{1} << 18U; ///< for a thread

bool read_bytes(int descriptor, std::uint64_t begin, char* bytes, std::uint64_t count) {
  while (count > 0) {
    auto const read = pread(descriptor, bytes, static_cast<std::size_t>(count), static_cast<off_t>(begin));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    begin += static_cast<std::uint64_t>(read);
    bytes += read;
    count -= static_cast<std::uint64_t>(read);
  }
  return true;
}

} // namespace

std::optional<PlainPlace> plain_place(Dataset const& dataset, MatrixShape const& shape) {
  Properties const properties(H5Dget_create_plist(dataset.id()));
  Datatype const type(H5Dget_type(dataset.id()));
  File const file(H5Iget_file_id(dataset.id()));
  Properties const access(H5Fget_access_plist(file.id()));
  bool const is_contiguous = H5Pget_layout(properties.id()) == H5D_CONTIGUOUS;
  auto const native = shape.element_size == sizeof(float) ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
  unsigned intent = 0;
  bool const is_read_only = H5Fget_intent(file.id(), &intent) >= 0 && intent == H5F_ACC_RDONLY;
  if (!is_contiguous || !is_read_only || H5Tequal(type.id(), native) <= 0) return std::nullopt;
  auto const begin = H5Dget_offset(dataset.id());
  void* handle = nullptr;
  if (begin == HADDR_UNDEF || H5Pget_driver(access.id()) != H5FD_SEC2 ||
      H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &handle) < 0 || handle == nullptr)
    return std::nullopt;
  return PlainPlace{*static_cast<int const*>(handle), begin};
}

template <class Scalar>
bool read_plain(PlainPlace const& place, MatrixShape const& shape, MatrixBlock const& block, Scalar* values) {
  if (block.size() == 0) return true;
  bool const is_whole = block.num_columns == shape.num_columns; // then rows lie one after the other
  auto const row_bytes = block.num_columns * sizeof(Scalar);
  auto const rows_at_a_time = std::max<std::uint64_t>(1, bytes_at_a_time / row_bytes);
  std::atomic<bool> is_read = true;
  for_each_on_host_threads((block.num_rows + rows_at_a_time - 1) / rows_at_a_time, [&](std::size_t part) {
    auto const first = part * rows_at_a_time;
    auto const last = std::min(first + rows_at_a_time, block.num_rows);
    auto const step = is_whole ? last - first : 1;
    for (auto row = first; row < last && is_read; row += step) {
      auto const number = (block.first_row + row) * shape.num_columns + block.first_column;
      auto* const to = reinterpret_cast<char*>(values + row * block.num_columns);
      if (!read_bytes(place.descriptor, place.begin + number * sizeof(Scalar), to, step * row_bytes)) is_read = false;
    }
  });
  return is_read;
}
template bool read_plain(PlainPlace const&, MatrixShape const&, MatrixBlock const&, float*);
template bool read_plain(PlainPlace const&, MatrixShape const&, MatrixBlock const&, double*);

} // namespace varve::hdf5

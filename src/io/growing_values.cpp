#include "io/growing_values.hpp"

#include "core/error.hpp"
#include "io/binsparse.hpp"
#include "io/same_bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace varve {
namespace {

constexpr std::uint64_t values_per_block = std::uint64_t{1} << 16;

} // namespace

GrowingValues::GrowingValues(hid_t group, std::filesystem::path path) : group_(group), path_(std::move(path)) {}

void GrowingValues::append(SparseMatrix const& matrix) {
  auto const count = matrix.num_entries();
  if (count == 0) return;
  if (num_entries_ == 0) shared_ = matrix.values[0];
  bool const stays_iso =
      !list_ && std::ranges::all_of(matrix.values, [&](double value) { return same_bits(value, *shared_); });
  if (!stays_iso) append_to_list(matrix.values, count);
  num_entries_ += count;
}

void GrowingValues::finish() {
  if (list_) return list_->close();
  auto const values = shared_ ? std::vector<double>{*shared_} : std::vector<double>{0.0};
  bool const is_float = binsparse::fit_float(values);
  hdf5::write_list(group_, "values", is_float ? H5T_IEEE_F32LE : H5T_IEEE_F64LE, values, false, path_);
}

void GrowingValues::append_to_list(std::vector<double> const& values, std::uint64_t count) {
  bool const fits = binsparse::fit_float(values);
  if (!list_) start_list(fits && binsparse::fit_float({*shared_}));
  if (is_float_ && !fits) widen();
  if (values.size() == count) {
    list_->append(values.data(), count);
  } else {
    append_repeated(values[0], count);
  }
}

void GrowingValues::append_repeated(double value, std::uint64_t count) {
  std::vector<double> const block(std::min(count, values_per_block), value);
  for (std::uint64_t done = 0; done < count; done += block.size()) {
    list_->append(block.data(), std::min<std::uint64_t>(block.size(), count - done));
  }
}

void GrowingValues::start_list(bool is_float) {
  is_float_ = is_float;
  list_.emplace(group_, "values", is_float ? H5T_IEEE_F32LE : H5T_IEEE_F64LE, path_);
  if (num_entries_ > 0) append_repeated(*shared_, num_entries_);
}

void GrowingValues::widen() {
  hdf5::GrowingList wide(group_, "wide_values", H5T_IEEE_F64LE, path_);
  try {
    for (std::uint64_t done = 0; done < list_->length(); done += values_per_block) {
      auto const block =
          hdf5::read_reals(list_->dataset(), done, std::min(values_per_block, list_->length() - done), path_.string());
      wide.append(block.data(), block.size());
    }
  } catch (InputError const& error) { // it is an output, whoever reads it
    throw ResourceError(fmt::format("{} cannot be written: its values are lost ({})", path_.string(), error.what()));
  }
  list_.reset();
  bool const is_moved = H5Ldelete(group_, "values", H5P_DEFAULT) >= 0 &&
                        H5Lmove(group_, "wide_values", group_, "values", H5P_DEFAULT, H5P_DEFAULT) >= 0;
  VARVE_REQUIRE(is_moved, "the values of a sample file cannot be widened");
  list_.emplace(std::move(wide));
  is_float_ = false;
}

} // namespace varve

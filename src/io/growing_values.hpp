#pragma once

#include "io/hdf5.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace varve {

/// The values of a growing file in the narrowest form possible: one shared value while all are equal, then float while
/// all are exact in float, then double. Stored values are widened when a new value does not fit. Hold hdf5::lock()
/// during every use.
class GrowingValues {
public:
  /// Values of the group `group` of the file `path`; the group must outlive this object.
  GrowingValues(hid_t group, std::filesystem::path path);

  bool is_iso() const { return !list_ && num_entries_ != 1; }

  void append(SparseMatrix const& matrix);

  /// Writes the shared value, if it remained the only one.
  void finish();

private:
  void append_to_list(std::vector<double> const& values, std::uint64_t count);
  void append_repeated(double value, std::uint64_t count);
  void start_list(bool is_float);
  void widen();

  hid_t group_;
  std::filesystem::path path_;
  std::optional<double> shared_;
  std::optional<hdf5::GrowingList> list_;
  bool is_float_ = false;
  std::uint64_t num_entries_ = 0;
};

} // namespace varve

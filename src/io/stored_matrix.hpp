#pragma once

#include "io/container.hpp"
#include "io/container_writer.hpp"
#include "network/ready_samples.hpp"
#include "network/sample_memory.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Sparse matrices in containers: the arrays NAME.pointers, NAME.indices and NAME.values (FORMAT.md).
namespace varve::container {

/// A sparse matrix of an open container, whose arrays have the right types and sizes; what they hold is checked when it
/// is read.
class StoredMatrix {
public:
  /// Throws InputError if an array is missing or has another type or size.
  StoredMatrix(File& file, std::string const& name, std::uint64_t num_rows, std::uint64_t num_columns);

  std::uint64_t num_rows() const { return num_rows_; }
  std::uint64_t num_columns() const { return num_columns_; }
  std::uint64_t num_entries() const { return indices_->count(); }
  bool has_one_value() const { return values_->count() == 1 && num_entries() != 1; }
  /// File and name, for messages.
  std::string const& place() const { return place_; }

  /// The number of entries of the rows [first, last). Throws InputError as the functions below do.
  EdgeOffset count_entries(std::uint64_t first, std::uint64_t last) const;
  /// The rows [first, last). Throws InputError if the file is damaged or pointers do not ascend; the caller checks the
  /// rest (require_valid).
  SparseMatrix rows(std::uint64_t first, std::uint64_t last) const;
  /// The same rows, checked, with their columns in `memory`; nullopt where rows() has to read them, or its caller says
  /// what is wrong.
  std::optional<ReadySamples> ready_rows(std::uint64_t first, std::uint64_t last, SampleMemory& memory) const;

private:
  std::vector<EdgeOffset> pointers(std::uint64_t first, std::uint64_t last) const;
  std::vector<double> values(EdgeOffset first, std::size_t count) const;
  template <class Column>
  bool read_ready_columns(EdgeOffset first, SampleMemory& memory, ReadySamples& samples) const;

  File const* file_;
  std::string place_;
  std::uint64_t num_rows_;
  std::uint64_t num_columns_;
  Array const* pointers_;
  Array const* indices_;
  Array const* values_;
};

/// The arrays of a matrix in the types in which they are written.
class NarrowMatrix {
public:
  explicit NarrowMatrix(SparseMatrix const& matrix);

  /// The hash over all hashes of the arrays, by which equal matrices of one shape are known.
  Digest identity() const;
  /// Call it once.
  void add_to(Writer& writer, std::string const& name);

private:
  template <class... Numbers>
  struct List {
    std::variant<std::vector<Numbers>...> numbers;
    std::vector<Digest> hashes;
  };

  List<std::uint32_t, std::uint64_t> pointers_;
  List<std::uint16_t, std::uint32_t> indices_;
  List<float, double> values_;
};

/// A sparse matrix that grows by rows.
class GrowingMatrix {
public:
  GrowingMatrix(Writer& writer, std::string name, std::uint64_t num_columns);

  /// Throws InputError if the rows are malformed or have another width, ResourceError if the disk is full or fails.
  void append(SparseMatrix const& rows);
  std::uint64_t num_rows() const { return num_rows_; }
  std::uint64_t num_columns() const { return num_columns_; }
  /// Adds its arrays to the writer. Call it once.
  void finish();

private:
  void append_values(SparseMatrix const& rows);
  template <class Number>
  void append_as(std::vector<double> const& values);
  void write_out_shared(std::uint64_t count);
  void widen();

  Writer& writer_;
  std::string name_;
  std::uint64_t num_columns_;
  std::uint64_t num_rows_ = 0;
  std::uint64_t num_entries_ = 0;
  GrowingBytes pointers_, indices_;
  std::optional<GrowingBytes> values_; ///< empty while all entries so far share one
  bool are_doubles_ = false;
  double shared_ = 0.0;
};

} // namespace varve::container

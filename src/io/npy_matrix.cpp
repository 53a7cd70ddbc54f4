#include "core/error.hpp"
#include "io/dense_matrix.hpp"
#include "io/matrix_parts.hpp"
#include "io/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

/// The functions of io/npy.hpp for whole files.
namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t numbers_per_block = std::uint64_t{1} << 14;

NpyStream open_array(fs::path const& path) { return {open_bytes(path), path.string()}; }

[[noreturn]] void fail_shape(fs::path const& path, NpyHeader const& header, char const* expected) {
  throw InputError(fmt::format("{}: found an array of the shape ({}), expected {}", path.string(),
                               fmt::join(header.shape, ", "), expected));
}

/// Opens an array of two dimensions whose indices can be stored.
NpyStream open_numbers(fs::path const& path) {
  auto stream = open_array(path);
  if (stream.header().shape.size() != 2) fail_shape(path, stream.header(), "two dimensions");
  auto const& shape = stream.header().shape;
  require_countable(shape[0], shape[1], stream.header().num_elements(), path.string());
  return stream;
}

/// Throws InputError unless the file is exactly as long as its header says.
void require_length(fs::path const& path) {
  auto stream = open_array(path);
  stream.skip(stream.header().num_elements());
  stream.require_end();
}

/// Calls visit(value) for all numbers of an array, in their order in the file.
template <class Visit>
void for_each_number(NpyStream&& stream, Visit const& visit) {
  for (auto left = stream.header().num_elements(); left > 0;) {
    auto const block = stream.read_reals(std::min(left, numbers_per_block));
    left -= block.size();
    for (auto const value : block) visit(value);
  }
}

/// Reads the rows of an array of two dimensions, whose last index runs fastest, part by part.
class NpyReader final : public SampleReader {
public:
  NpyReader(fs::path const& path, OptionalSampleRange const& range) : path_(path), stream_(open_numbers(path)) {
    rows_ = rows_within(path, 0, stream_->header().shape[0], range);
    num_neurons_ = stream_->header().shape[1];
    stream_->skip(rows_.first * num_neurons_);
    count((rows_.second - rows_.first) * num_neurons_);
    stream_->skip((stream_->header().shape[0] - rows_.second) * num_neurons_);
    stream_->require_end();
    stream_.emplace(open_numbers(path_));
  }

  std::size_t num_samples() const override { return rows_.second - rows_.first; }
  std::size_t num_neurons() const override { return num_neurons_; }
  EdgeOffset num_entries() const override { return num_entries_; }
  SampleIndex first_sample() const override { return rows_.first; }
  bool has_one_value() const override { return value_.has_value() && !has_many_values_; }

  SampleBatch read(std::size_t first, std::size_t last) override {
    VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
    auto const begin = rows_.first + first;
    if (begin < next_) { // streams cannot go back: read from the start again
      stream_.emplace(open_numbers(path_));
      next_ = 0;
    }
    stream_->skip((begin - next_) * num_neurons_);
    next_ = rows_.first + last;
    SampleSet samples;
    samples.first_sample = begin;
    samples.matrix.num_columns = num_neurons_;
    for (auto row = first; row < last; ++row) append_row(samples.matrix);
    require_valid(samples.matrix, path_.string().c_str());
    make_iso_if_equal(samples.matrix);
    return samples;
  }

private:
  void count(std::uint64_t num_elements) {
    while (num_elements > 0) {
      auto const block = stream_->read_reals(std::min(num_elements, numbers_per_block));
      num_elements -= block.size();
      for (auto const value : block) {
        if (value == 0.0) continue;
        ++num_entries_;
        if (!value_) value_ = value;
        has_many_values_ = has_many_values_ || value != *value_;
      }
    }
  }

  void append_row(SparseMatrix& matrix) {
    for (std::uint64_t column = 0; column < num_neurons_;) {
      for (auto const value : stream_->read_reals(std::min(num_neurons_ - column, numbers_per_block))) {
        if (value != 0.0) {
          matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
          matrix.values.push_back(value);
        }
        ++column;
      }
    }
    matrix.row_pointers.push_back(matrix.num_entries());
    ++matrix.num_rows;
  }

  fs::path path_;
  std::optional<NpyStream> stream_;
  SampleRange rows_;       ///< wanted rows of the file
  std::uint64_t next_ = 0; ///< the next row in the stream
  std::uint64_t num_neurons_ = 0;
  EdgeOffset num_entries_ = 0;  ///< entries of all wanted rows
  std::optional<double> value_; ///< the first value that is not zero
  bool has_many_values_ = false;
};

} // namespace

SparseMatrix read_npy_matrix(fs::path const& path) {
  auto const header = open_numbers(path).header();
  require_length(path); // before memory is taken for the rows that the header promises
  auto const order = header.is_fortran ? DenseOrder::by_columns : DenseOrder::by_rows;
  return matrix_of_dense({header.shape[0], header.shape[1], order}, path.string(),
                         [&](auto const& visit) { for_each_number(open_numbers(path), visit); });
}

std::vector<double> read_npy_list(fs::path const& path) {
  auto stream = open_array(path);
  auto const& header = stream.header();
  if (std::ranges::count_if(header.shape, [](auto length) { return length != 1; }) > 1)
    fail_shape(path, header, "a list");
  auto list = stream.read_reals(header.num_elements());
  stream.require_end();
  return list;
}

std::unique_ptr<SampleReader> open_npy_samples(fs::path const& path, OptionalSampleRange const& range) {
  auto const header = open_array(path).header();
  if (!header.is_fortran || header.shape.size() != 2) return std::make_unique<NpyReader>(path, range);
  return samples_of_matrix(read_npy_matrix(path), path, range);
}

Labels read_npy_labels(fs::path const& path) {
  auto stream = open_array(path);
  if (stream.header().shape.size() != 1) fail_shape(path, stream.header(), "one dimension, the class of each sample");
  Labels labels;
  for (auto left = stream.header().num_elements(); left > 0;) {
    auto const block = stream.read_indices(std::min(left, numbers_per_block));
    left -= block.size();
    for (auto const label : block)
      labels.classes.push_back(static_cast<NeuronIndex>(std::min<std::uint64_t>(label, no_class)));
  }
  stream.require_end();
  return labels;
}

} // namespace varve

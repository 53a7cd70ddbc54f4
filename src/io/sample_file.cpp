#include "io/sample_file.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/binsparse.hpp"
#include "io/growing_values.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_guard.hpp"
#include "io/line_error.hpp"
#include "io/output_file.hpp"

#include <fmt/format.h>

#include <limits>
#include <new>
#include <optional>
#include <stdexcept>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr char const* format_name = "varve-samples";
constexpr std::uint64_t format_version = 1;

/// An open file whose attributes have been read and checked; use and destroy it under the lock.
struct OpenSampleFile {
  hdf5::File file;
  hdf5::Group samples;
  binsparse::Descriptor descriptor;
  SampleIndex first_sample = 0;
};

SampleIndex read_first_sample(hdf5::File const& file, std::string const& place) {
  if (H5Aexists(file.id(), "first_sample") == 0) return 0;
  return hdf5::read_count(file.id(), "first_sample", place);
}

/// Throws InputError unless all sample numbers fit in 64 bits, counted from 0 and from 1.
void require_countable(SampleIndex first_sample, std::uint64_t num_samples, std::string const& place) {
  constexpr auto largest = std::numeric_limits<SampleIndex>::max();
  if (capped_add(first_sample, num_samples) < largest) return;
  throw InputError(fmt::format("{}: found {} as the number of the first of {} samples, expected no more than {}", place,
                               first_sample, num_samples, largest - 1 - num_samples));
}

/// Opens and checks a file. Call it under hdf5::guarded.
OpenSampleFile open_unguarded(fs::path const& path) {
  auto const place = path.string();
  OpenSampleFile open;
  open.file = hdf5::open_file(path);
  auto const format = hdf5::read_text(open.file.id(), "format", place);
  if (format != format_name) {
    throw InputError(fmt::format("{}: found the format {}, expected \"{}\"", place, quote(format), format_name));
  }
  auto const version = hdf5::read_count(open.file.id(), "version", place);
  if (version != format_version) {
    throw InputError(fmt::format("{}: found version {} of the format, expected {}", place, version, format_version));
  }
  open.first_sample = read_first_sample(open.file, place);
  open.samples = hdf5::open_group(open.file.id(), "samples", place);
  open.descriptor = binsparse::read_descriptor(open.samples, place + ": samples");
  require_countable(open.first_sample, open.descriptor.num_rows, place);
  return open;
}

OpenSampleFile open_sample_file(fs::path const& path) {
  return hdf5::guarded(
      path, [&] { walk_sample_file(path); }, [&] { return open_unguarded(path); });
}

/// The rows of the file that hold the wanted samples.
SampleRange rows_of(fs::path const& path, SampleIndex first_sample, std::uint64_t num_samples,
                    OptionalSampleRange const& range) {
  if (!range) return {0, num_samples};
  bool const is_within =
      range->first >= first_sample && range->first <= range->second && range->second - first_sample <= num_samples;
  if (is_within) return {range->first - first_sample, range->second - first_sample};
  throw UsageError(fmt::format(
      "the samples {}:{} were asked for, but {} holds {}", range->first + 1, range->second, path.string(),
      num_samples == 0 ? "none" : fmt::format("the samples {}:{}", first_sample + 1, first_sample + num_samples)));
}

} // namespace

void walk_sample_file(fs::path const& path) {
  auto const open = open_unguarded(path);
  binsparse::require_arrays(open.samples, open.descriptor, path.string() + ": samples");
}

SampleFileHeader read_sample_header(fs::path const& path) {
  auto const lock = hdf5::lock();
  auto const open = open_sample_file(path);
  return {open.descriptor.num_rows, open.descriptor.num_columns, open.descriptor.num_entries, open.first_sample};
}

void require_width(fs::path const& path, std::size_t num_inputs) {
  auto const found = read_sample_header(path).num_neurons;
  if (found == num_inputs) return;
  throw InputError(
      fmt::format("{} holds samples of {} neurons, the network takes {} inputs", path.string(), found, num_inputs));
}

SampleSet read_sample_file(fs::path const& path, OptionalSampleRange const& range) {
  SampleFileReader reader(path, range);
  return reader.read_set(0, reader.num_samples());
}

struct SampleFileReader::Contents {
  fs::path path;
  std::string place;
  OpenSampleFile open;
  SampleRange rows; ///< wanted rows of the matrix in the file
  EdgeOffset num_entries = 0;
};

SampleFileReader::SampleFileReader(fs::path const& path, OptionalSampleRange const& range) {
  auto const lock = hdf5::lock();
  contents_ = std::make_unique<Contents>();
  contents_->path = path;
  contents_->place = path.string() + ": samples";
  contents_->open = open_sample_file(path);
  auto const& [file, samples, descriptor, first_sample] = contents_->open;
  auto const rows = rows_of(path, first_sample, descriptor.num_rows, range);
  contents_->rows = rows;
  contents_->num_entries =
      range ? binsparse::count_entries(samples, descriptor, rows.first, rows.second, contents_->place)
            : descriptor.num_entries;
}

SampleFileReader::~SampleFileReader() {
  auto const lock = hdf5::lock();
  contents_.reset();
}

std::size_t SampleFileReader::num_samples() const { return contents_->rows.second - contents_->rows.first; }
std::size_t SampleFileReader::num_neurons() const { return contents_->open.descriptor.num_columns; }
EdgeOffset SampleFileReader::num_entries() const { return contents_->num_entries; }
SampleIndex SampleFileReader::first_sample() const { return contents_->open.first_sample + contents_->rows.first; }

bool SampleFileReader::has_one_value() const { return contents_->open.descriptor.is_iso; }

SampleSet SampleFileReader::read_set(std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
  auto const fail_memory = [&] {
    throw ResourceError(fmt::format("{} does not fit into memory", contents_->path.string()));
  };
  SampleSet samples;
  samples.first_sample = first_sample() + first;
  try {
    auto const lock = hdf5::lock();
    auto const begin = contents_->rows.first;
    samples.matrix = binsparse::read_rows(contents_->open.samples, contents_->open.descriptor, begin + first,
                                          begin + last, contents_->place);
  } catch (std::bad_alloc const&) {
    fail_memory();
  } catch (std::length_error const&) {
    fail_memory();
  }
  require_valid(samples.matrix, contents_->place.c_str());
  return samples;
}

void write_sample_file(fs::path const& path, SampleSet const& samples) {
  SampleFileWriter writer(path, samples.num_neurons());
  writer.append(samples);
  writer.commit();
}

struct SampleFileWriter::Contents {
  OutputFile output;
  hdf5::File file;
  hdf5::Group samples;
  hdf5::GrowingList pointers;
  hdf5::GrowingList indices;
  std::optional<GrowingValues> values;
  std::size_t num_neurons = 0;
  std::size_t num_samples = 0;
  EdgeOffset num_entries = 0;
  SampleIndex first_sample = 0;
  SparseMatrix block; ///< entries not yet written, each with its own value
  std::vector<EdgeOffset> block_ends;

  Contents(fs::path const& path, std::size_t neurons) : output(path), num_neurons(neurons) {
    file = hdf5::create_file(output.partial_path(), path);
    samples = hdf5::create_group(file.id(), "samples", path);
    pointers = hdf5::GrowingList(samples.id(), "pointers_to_1", H5T_STD_U64LE, path);
    auto const largest_index = neurons == 0 ? 0 : neurons - 1;
    indices = hdf5::GrowingList(samples.id(), "indices_1", binsparse::index_type(largest_index), path);
    values.emplace(samples.id(), path);
    EdgeOffset const begin = 0;
    pointers.append(&begin, 1);
  }

  /// Adds a row to the current block. Blocks end at rows that do not depend on how samples were divided into batches,
  /// so equal samples give equal files.
  void append_row(SparseMatrix const& matrix, std::size_t row) {
    constexpr std::size_t most_rows = std::size_t{1} << 14;
    constexpr std::size_t most_entries = std::size_t{1} << 18;
    auto const begin = static_cast<std::ptrdiff_t>(matrix.row_pointers[row]);
    auto const end = static_cast<std::ptrdiff_t>(matrix.row_pointers[row + 1]);
    auto& columns = block.column_indices;
    columns.insert(columns.end(), matrix.column_indices.begin() + begin, matrix.column_indices.begin() + end);
    if (matrix.is_iso()) {
      block.values.insert(block.values.end(), static_cast<std::size_t>(end - begin), matrix.values[0]);
    } else {
      block.values.insert(block.values.end(), matrix.values.begin() + begin, matrix.values.begin() + end);
    }
    num_entries += matrix.row_size(row);
    ++num_samples;
    block_ends.push_back(num_entries);
    if (block_ends.size() >= most_rows || columns.size() >= most_entries) write_block();
  }

  void write_block() {
    pointers.append(block_ends.data(), block_ends.size());
    indices.append(block.column_indices.data(), block.column_indices.size());
    values->append(block);
    block_ends.clear();
    block.column_indices.clear();
    block.values.clear();
  }
};

SampleFileWriter::SampleFileWriter(fs::path const& path, std::size_t num_neurons) {
  auto const lock = hdf5::lock();
  contents_ = std::make_unique<Contents>(path, num_neurons);
}

SampleFileWriter::~SampleFileWriter() {
  auto const lock = hdf5::lock();
  contents_.reset();
}

void SampleFileWriter::append(SampleSet const& batch) {
  VARVE_REQUIRE(contents_, "a sample file is written after its commit");
  auto& contents = *contents_;
  if (contents.num_samples == 0) contents.first_sample = batch.first_sample;
  VARVE_REQUIRE(batch.num_neurons() == contents.num_neurons, "batches of one sample file have the same neurons");
  VARVE_REQUIRE(batch.first_sample == contents.first_sample + contents.num_samples,
                "batches of one sample file follow each other without a gap");
  require_valid(batch.matrix, "samples to write");
  auto const lock = hdf5::lock();
  for (std::size_t row = 0; row < batch.num_samples(); ++row) contents.append_row(batch.matrix, row);
}

void SampleFileWriter::commit() {
  VARVE_REQUIRE(contents_, "a sample file is committed twice");
  auto const lock = hdf5::lock();
  auto& contents = *contents_;
  auto const& path = contents.output.path();
  contents.write_block();
  contents.values->finish();
  hdf5::write_text(contents.file.id(), "format", format_name, path);
  hdf5::write_integer(contents.file.id(), "version", format_version, path);
  hdf5::write_integer(contents.file.id(), "first_sample", contents.first_sample, path);
  binsparse::write_descriptor(
      contents.samples, {contents.num_samples, contents.num_neurons, contents.num_entries, contents.values->is_iso()},
      path);
  hdf5::flush(contents.file, path);
  contents.values.reset();
  contents.indices = {};
  contents.pointers = {};
  contents.samples = {};
  contents.file = {};
  contents.output.commit();
  contents_.reset();
}

} // namespace varve

#include "core/error.hpp"
#include "io/growing_matrix.hpp"
#include "io/hdf5.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"
#include "io/sample_format.hpp"
#include "network/activations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

/// The writer of io/sample_file.hpp.
namespace varve {
namespace {

namespace fs = std::filesystem;

/// The sum of hashes of labels and their samples: the same however the labels are divided.
std::uint64_t hash_of(Labels const& labels) {
  std::uint64_t sum = 0;
  for (std::size_t label = 0; label < labels.num_samples(); ++label)
    sum += activation_fingerprint(labels.first_sample + label, labels.classes[label], 0);
  return sum;
}

/// What the file holds of the samples or the targets, read part by part. Throws InputError if it is broken.
GrowingMatrix::Rows rows_in(fs::path const& path, SamplePart part) {
  constexpr std::size_t most_entries = std::size_t{1} << 20;
  SampleFileReader reader(path, std::nullopt, part);
  auto const count = reader.num_samples();
  GrowingMatrix::Rows found{count, reader.num_entries(), reader.first_sample(), 0};
  auto const per_row = std::max<std::size_t>(1, reader.num_entries() / std::max<std::size_t>(1, count));
  auto const at_once = std::max<std::size_t>(1, most_entries / per_row);
  for (std::size_t first = 0; first < count; first += at_once)
    found.hash += hash(reader.read_set(first, std::min(first + at_once, count)), Precision::double_precision);
  return found;
}

/// Writes labels to a file in blocks of whole chunks, so that each chunk is compressed only once.
class GrowingLabels {
public:
  GrowingLabels(hdf5::File const& file, SampleIndex first_sample, fs::path const& path)
      : list_(file.id(), "labels", H5T_STD_U32LE, path), first_sample_(first_sample) {}

  void append(Labels const& batch) {
    VARVE_REQUIRE(batch.first_sample == first_sample_ + num_labels(), "labels of one file follow without a gap");
    hash_ += hash_of(batch);
    for (auto const label : batch.classes) {
      block_.push_back(label);
      if (block_.size() == block_size) write_block();
    }
  }

  /// Writes the last labels. Call it once, after the last append().
  void finish() {
    write_block();
    list_.close();
  }

  SampleIndex first_sample() const { return first_sample_; }
  std::uint64_t num_labels() const { return list_.length() + block_.size(); }
  std::uint64_t hash() const { return hash_; } ///< hash_of() the labels so far

private:
  static constexpr std::size_t block_size = std::size_t{1} << 16;

  void write_block() {
    list_.append(block_.data(), block_.size());
    block_.clear();
  }

  hdf5::GrowingList list_;
  SampleIndex first_sample_;
  std::uint64_t hash_ = 0;
  std::vector<NeuronIndex> block_;
};

} // namespace

void write_sample_file(fs::path const& path, SampleSet const& samples) {
  SampleFileWriter writer(path, samples.num_neurons());
  writer.append(samples);
  writer.commit();
}

struct SampleFileWriter::Contents {
  OutputFile output;
  hdf5::File file;
  std::optional<GrowingMatrix> samples;
  std::optional<GrowingMatrix> targets;
  std::optional<GrowingLabels> labels;

  Contents(fs::path const& path, std::size_t num_neurons) : output(path) {
    file = hdf5::create_file(output.partial_path(), path);
    samples.emplace(file.id(), "samples", num_neurons, path);
  }

  /// Throws std::logic_error if the file has labels or targets, but not for each sample.
  void require_complete() const {
    auto const fit = [&](std::uint64_t count, SampleIndex first_sample) {
      return count == samples->rows().num_rows && first_sample == samples->rows().first_sample;
    };
    VARVE_REQUIRE(!labels || fit(labels->num_labels(), labels->first_sample()), "each sample needs a label");
    VARVE_REQUIRE(!targets || fit(targets->rows().num_rows, targets->rows().first_sample), "each sample needs targets");
  }

  /// Writes all that is left and closes the file.
  void finish() {
    auto const& path = output.path();
    samples->finish();
    if (targets) targets->finish();
    if (labels) labels->finish();
    hdf5::write_text(file.id(), "format", sample_format::name, path);
    hdf5::write_integer(file.id(), "version", sample_format::version, path);
    hdf5::write_integer(file.id(), "first_sample", samples->rows().first_sample, path);
    samples->close();
    if (targets) targets->close();
    hdf5::close_file(file, path);
  }

  /// True if this file holds what was appended. Throws InputError if it is broken.
  bool are_in(fs::path const& written) const {
    if (labels && hash_of(read_sample_labels(written)) != labels->hash()) return false;
    if (targets && rows_in(written, SamplePart::targets) != targets->rows()) return false;
    return rows_in(written, SamplePart::samples) == samples->rows();
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
  auto const lock = hdf5::lock();
  contents_->samples->append(batch);
}

void SampleFileWriter::append_labels(Labels const& batch) {
  VARVE_REQUIRE(contents_, "a sample file is written after its commit");
  auto const lock = hdf5::lock();
  if (!contents_->labels) contents_->labels.emplace(contents_->file, batch.first_sample, contents_->output.path());
  contents_->labels->append(batch);
}

void SampleFileWriter::append_targets(SampleSet const& batch) {
  VARVE_REQUIRE(contents_, "a sample file is written after its commit");
  auto const lock = hdf5::lock();
  if (!contents_->targets)
    contents_->targets.emplace(contents_->file.id(), "targets", batch.num_neurons(), contents_->output.path());
  contents_->targets->append(batch);
}

void SampleFileWriter::commit() {
  VARVE_REQUIRE(contents_, "a sample file is committed twice");
  contents_->require_complete();
  {
    auto const lock = hdf5::lock();
    contents_->finish();
  }
  contents_->output.commit([&](fs::path const& written) { return contents_->are_in(written); });
  contents_.reset();
}

} // namespace varve

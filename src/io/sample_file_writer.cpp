#include "core/error.hpp"
#include "io/growing_matrix.hpp"
#include "io/hdf5.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"
#include "io/sample_format.hpp"

#include <cstddef>
#include <optional>
#include <vector>

/// The writer of io/sample_file.hpp.
namespace varve {
namespace {

namespace fs = std::filesystem;

/// Writes labels to a file in blocks of whole chunks, so that each chunk is compressed only once.
class GrowingLabels {
public:
  GrowingLabels(hdf5::File const& file, SampleIndex first_sample, fs::path const& path)
      : list_(file.id(), "labels", H5T_STD_U32LE, path), first_sample_(first_sample) {}

  void append(Labels const& batch) {
    VARVE_REQUIRE(batch.first_sample == first_sample_ + num_labels(), "labels of one file follow without a gap");
    for (auto const label : batch.classes) {
      block_.push_back(label);
      if (block_.size() == block_size) write_block();
    }
  }

  void write_block() {
    list_.append(block_.data(), block_.size());
    block_.clear();
  }

  SampleIndex first_sample() const { return first_sample_; }
  std::uint64_t num_labels() const { return list_.length() + block_.size(); }

private:
  static constexpr std::size_t block_size = std::size_t{1} << 16;

  hdf5::GrowingList list_;
  SampleIndex first_sample_;
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
      return count == samples->num_rows() && first_sample == samples->first_sample();
    };
    VARVE_REQUIRE(!labels || fit(labels->num_labels(), labels->first_sample()), "each sample needs a label");
    VARVE_REQUIRE(!targets || fit(targets->num_rows(), targets->first_sample()), "each sample needs targets");
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
  auto const lock = hdf5::lock();
  auto& contents = *contents_;
  auto const& path = contents.output.path();
  contents.require_complete();
  contents.samples->finish();
  if (contents.targets) contents.targets->finish();
  if (contents.labels) contents.labels->write_block();
  hdf5::write_text(contents.file.id(), "format", sample_format::name, path);
  hdf5::write_integer(contents.file.id(), "version", sample_format::version, path);
  hdf5::write_integer(contents.file.id(), "first_sample", contents.samples->first_sample(), path);
  hdf5::flush(contents.file, path);
  contents.labels.reset();
  contents.targets.reset();
  contents.samples.reset();
  contents.file = {};
  contents.output.commit();
  contents_.reset();
}

} // namespace varve

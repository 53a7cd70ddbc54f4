#pragma once

#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"
#include "io/sample_writer.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>

namespace varve {

/// What a sample file says about its samples before they are read.
struct SampleFileHeader {
  std::size_t num_samples = 0;
  std::size_t num_neurons = 0;
  EdgeOffset num_entries = 0;
  SampleIndex first_sample = 0;
};

/// Reads the header of an HDF5 sample file (see FORMAT.md). Throws InputError, naming the file, if it is missing,
/// broken or no sample file.
SampleFileHeader read_sample_header(std::filesystem::path const& path);

/// Reads all of a sample file but its numbers, as all readers of it do: for hdf5::try_out, under its lock. Throws
/// as read_sample_header.
void walk_sample_file(std::filesystem::path const& path);

/// Throws InputError, as read_sample_header, or if the samples have another width than a network's inputs.
void require_width(std::filesystem::path const& path, std::size_t num_inputs);

/// Reads the samples of an HDF5 file, or a range of them and nothing else from the disk. Throws InputError as
/// read_sample_header, or if the content is malformed; UsageError if the file holds no such range.
SampleSet read_sample_file(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt);

/// The samples of an HDF5 file, or a range of them, read from the disk part by part; the file stays open.
class SampleFileReader final : public SampleReader {
public:
  /// Throws as read_sample_file does.
  explicit SampleFileReader(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt);
  ~SampleFileReader() override;

  std::size_t num_samples() const override;
  std::size_t num_neurons() const override;
  EdgeOffset num_entries() const override;
  SampleIndex first_sample() const override;
  bool has_one_value() const override;
  SampleBatch read(std::size_t first, std::size_t last) override { return read_set(first, last); }

  /// The same as a set of its own.
  SampleSet read_set(std::size_t first, std::size_t last);

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Writes a sample file; it appears whole or not at all.
void write_sample_file(std::filesystem::path const& path, SampleSet const& samples);

/// Writes a sample file batch by batch; the file appears with commit() or not at all. Its bytes depend on the samples
/// alone, not on how they were divided into batches.
class SampleFileWriter final : public SampleWriter {
public:
  /// Throws UsageError or ResourceError as OutputFile does.
  SampleFileWriter(std::filesystem::path const& path, std::size_t num_neurons);
  ~SampleFileWriter() override;

  void append(SampleSet const& batch) override;
  void commit() override;

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve

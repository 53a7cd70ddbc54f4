#include "io/sample_reader.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <algorithm>
#include <future>
#include <limits>
#include <system_error>

namespace varve {

std::string shown(SampleRange const& samples) {
  if (samples.first == samples.second) return "none";
  return fmt::format("the samples {}:{}", samples.first + 1, samples.second);
}

SampleRange rows_within(std::filesystem::path const& path, SampleIndex first_sample, std::uint64_t num_samples,
                        OptionalSampleRange const& range) {
  if (!range) return {0, num_samples};
  bool const is_within =
      range->first >= first_sample && range->first <= range->second && range->second - first_sample <= num_samples;
  if (is_within) return {range->first - first_sample, range->second - first_sample};
  fail<UsageError>("the samples {}:{} were asked for, but {} holds {}", range->first + 1, range->second, path.string(),
                   shown({first_sample, first_sample + num_samples}));
}

void require_samples(std::filesystem::path const& path, char const* what, SampleRange const& found,
                     SampleRange const& wanted, OtherSamples others) {
  bool const holds = found.first <= wanted.first && wanted.second <= found.second;
  if (holds && (others == OtherSamples::ignored || found == wanted)) return;
  fail<InputError>("{}: found {} of {}, expected {} of {}", path.string(), what, shown(found), what, shown(wanted));
}

namespace {

std::size_t bytes_in_memory(SampleReader const& reader) {
  return capped_add(capped_multiply(reader.num_entries(), reader.bytes_per_entry()),
                    capped_multiply(reader.num_samples(), sizeof(EdgeOffset)));
}

class SamplesAhead final : public SampleReader {
public:
  SamplesAhead(std::unique_ptr<SampleReader> reader, std::future<SampleBatch> reading)
      : SampleReader(reader->facts()), reader_(std::move(reader)), reading_(std::move(reading)) {}

  SampleBatch read(std::size_t first, std::size_t last) override {
    VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
    if (!samples_) samples_ = reading_.get();
    return samples_->part(first, last);
  }

private:
  std::unique_ptr<SampleReader> reader_;
  std::future<SampleBatch> reading_; ///< uses the reader; waits for its thread when it is destroyed
  std::optional<SampleBatch> samples_;
};

} // namespace

SampleBatch SamplesInMemory::read(std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
  std::size_t const length = samples_.num_samples();
  auto batch = samples_.part(0, 0);
  for (std::size_t next = first; next < last;) {
    std::size_t const begin = next % length;
    std::size_t const end = std::min(length, begin + (last - next));
    batch.append(samples_.part(begin, end));
    next += end - begin;
  }
  return batch.numbered_from(first_sample() + first);
}

std::unique_ptr<SampleReader> repeated(std::unique_ptr<SampleReader> reader, std::size_t repetitions,
                                       std::size_t bytes) {
  if (repetitions == 1) return reader;
  auto const most = std::numeric_limits<std::size_t>::max() / sizeof(double) / repetitions;
  auto const last = capped_add(reader->first_sample(), capped_multiply(reader->num_samples(), repetitions));
  bool const has_numbers = last < std::numeric_limits<SampleIndex>::max();
  if (reader->num_samples() > most || reader->num_entries() > most || !has_numbers)
    fail<UsageError>("{} samples cannot be repeated {} times: there would be more than can be counted",
                     reader->num_samples(), repetitions);
  if (samples_that_fit(*reader, bytes) < reader->num_samples()) {
    fail<ResourceError>("samples that are repeated are kept in memory, but these take {} bytes and there are {} for "
                        "them; raise --memory input, or give a part with --samples",
                        bytes_in_memory(*reader), bytes);
  }
  return std::make_unique<SamplesInMemory>(reader->read(0, reader->num_samples()), repetitions);
}

std::size_t samples_that_fit(SampleReader const& reader, std::size_t bytes) {
  constexpr std::size_t num_parts = 3;
  auto const num_samples = std::max<std::size_t>(reader.num_samples(), 1);
  auto const needed = static_cast<double>(bytes_in_memory(reader));
  if (needed <= static_cast<double>(bytes)) return num_samples;
  auto const fit = static_cast<double>(bytes) / num_parts / needed * static_cast<double>(num_samples);
  return std::max<std::size_t>(1, static_cast<std::size_t>(fit));
}

std::unique_ptr<SampleReader> read_ahead(std::unique_ptr<SampleReader> reader, std::shared_ptr<SampleMemory> memory) {
  reader->read_into(std::move(memory));
  try {
    auto reading = std::async(std::launch::async, [source = reader.get()] {
      use_allowed_processors();
      return source->read(0, source->num_samples());
    });
    return std::make_unique<SamplesAhead>(std::move(reader), std::move(reading));
  } catch (std::system_error const&) {
    return reader;
  }
}

} // namespace varve

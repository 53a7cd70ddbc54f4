#include "io/samples_ahead.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <future>
#include <optional>
#include <system_error>
#include <utility>

namespace varve {
namespace {

class SamplesAhead final : public SampleReader {
public:
  SamplesAhead(std::unique_ptr<SampleReader> reader, std::future<SampleBatch> reading)
      : reader_(std::move(reader)), reading_(std::move(reading)) {}

  std::size_t num_samples() const override { return reader_->num_samples(); }
  std::size_t num_neurons() const override { return reader_->num_neurons(); }
  EdgeOffset num_entries() const override { return reader_->num_entries(); }
  SampleIndex first_sample() const override { return reader_->first_sample(); }
  bool has_one_value() const override { return reader_->has_one_value(); }

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

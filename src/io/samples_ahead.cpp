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
  /// Throws std::system_error if there is no thread.
  explicit SamplesAhead(SampleReader& reader)
      : reader_(reader), reading_(std::async(std::launch::async, [&reader] {
          use_allowed_processors();
          return reader.read(0, reader.num_samples());
        })) {}

  /// The reader whose samples these are lives as long as this one from now on.
  void keep(std::unique_ptr<SampleReader> reader) { kept_ = std::move(reader); }

  std::size_t num_samples() const override { return reader_.num_samples(); }
  std::size_t num_neurons() const override { return reader_.num_neurons(); }
  EdgeOffset num_entries() const override { return reader_.num_entries(); }
  SampleIndex first_sample() const override { return reader_.first_sample(); }
  bool has_one_value() const override { return reader_.has_one_value(); }

  SampleBatch read(std::size_t first, std::size_t last) override {
    VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
    if (!samples_) samples_ = reading_.get();
    return samples_->part(first, last);
  }

private:
  std::unique_ptr<SampleReader> kept_;
  SampleReader& reader_;
  std::future<SampleBatch> reading_; ///< waits for its thread when it is destroyed
  std::optional<SampleBatch> samples_;
};

} // namespace

std::unique_ptr<SampleReader> read_ahead(std::unique_ptr<SampleReader> reader, std::shared_ptr<SampleMemory> memory) {
  reader->read_into(std::move(memory));
  try {
    auto ahead = std::make_unique<SamplesAhead>(*reader);
    ahead->keep(std::move(reader));
    return ahead;
  } catch (std::system_error const&) {
    return reader;
  }
}

} // namespace varve

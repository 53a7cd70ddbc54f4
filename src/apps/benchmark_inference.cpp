#include "apps/benchmark_cases.hpp"
#include "apps/benchmark_run.hpp"
#include "apps/infer_options.hpp"
#include "apps/network_run.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "io/open.hpp"
#include "plan/memory.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace varve {
namespace {

/// The network and the samples of the user's files.
BenchmarkCase case_of_files(BenchmarkOptions const& options) {
  std::shared_ptr<NetworkSource const> const network = open_network(options.network, options.challenge);
  return {std::filesystem::path(options.network).filename().string(),
          "files of the user",
          [network] { return network; },
          [network, path = options.input] { return open_samples(path, network->layer(0).num_inputs()); },
          {},
          {"auto"}};
}

Field field_of(BenchmarkOptions const& options, BenchmarkCase const& one, NetworkSource const& network,
               SampleBatch const& samples) {
  Field field;
  for (auto const& backend : options.backends) {
    std::size_t memory_left = available_memory(parse_backend(backend)) / 3;
    for (auto const& reductions : options.reductions.empty() ? one.reductions : options.reductions) {
      auto engine = engine_options(options, backend, reductions);
      limit_memory(engine, 1);
      engine.device_memory_limit = memory_limits(engine, engine.backend).device;
      auto contender = std::make_unique<NetworkRun>(network, samples, engine, reductions, options.check);
      contender->stay_within(memory_left);
      field.push_back(std::move(contender));
    }
  }
  return field;
}

} // namespace

void measure_inference(BenchmarkOptions const& options, BenchmarkRun& run) {
  for (auto const& one : options.suite.empty() ? std::vector{case_of_files(options)} : cases_of(options.suite)) {
    auto const network = one.network();
    SampleBatch const all = one.samples();
    auto counts = options.samples.empty() ? one.sample_counts : options.samples;
    if (counts.empty()) counts = {all.num_samples()};
    for (auto const count : counts) {
      if (count > all.num_samples() || count == 0)
        throw UsageError(fmt::format("{} has {} samples, {} were asked for", one.name, all.num_samples(), count));
      auto const samples = all.part(0, count);
      run.measure(one.name, one.about, field_of(options, one, *network, samples));
    }
  }
}

} // namespace varve

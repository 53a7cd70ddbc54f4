#include "engine/inference.hpp"
#include "engine/places.hpp"
#include "engine/training_at.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"
#include "reference/training_case.hpp"

#include <Kokkos_Core.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// What Kokkos told its tools while an object of this class lived. Kernels by which Kokkos copies or fills are its own.
class Listener {
public:
  Listener() {
    namespace tools = Kokkos::Tools::Experimental;
    heard() = {};
    tools::set_begin_parallel_for_callback(&begin_kernel);
    tools::set_begin_parallel_reduce_callback(&begin_kernel);
    tools::set_begin_parallel_scan_callback(&begin_kernel);
    tools::set_push_region_callback(&push_region);
    tools::set_begin_deep_copy_callback(&begin_copy);
    tools::set_end_deep_copy_callback(&end_copy);
    tools::set_allocate_data_callback(&allocate);
  }
  ~Listener() {
    namespace tools = Kokkos::Tools::Experimental;
    tools::set_begin_parallel_for_callback(nullptr);
    tools::set_begin_parallel_reduce_callback(nullptr);
    tools::set_begin_parallel_scan_callback(nullptr);
    tools::set_push_region_callback(nullptr);
    tools::set_begin_deep_copy_callback(nullptr);
    tools::set_end_deep_copy_callback(nullptr);
    tools::set_allocate_data_callback(nullptr);
  }
  Listener(Listener const&) = delete;
  Listener& operator=(Listener const&) = delete;

  static std::set<std::string> const& kernels() { return heard().kernels; }
  static std::set<std::string> const& kernels_of_many_threads() { return heard().kernels_of_many_threads; }
  static std::set<std::string> const& regions() { return heard().regions; }
  static std::set<std::string> const& allocations() { return heard().allocations; }

private:
  struct Heard {
    std::set<std::string> kernels, kernels_of_many_threads, regions, allocations;
    int copies_under_way = 0;
  };
  static Heard& heard() {
    static Heard all;
    return all;
  }

  static void begin_kernel(char const* name, std::uint32_t device, std::uint64_t*) {
    namespace tools = Kokkos::Tools::Experimental;
    if (heard().copies_under_way != 0) return;
    heard().kernels.insert(name);
    if (tools::identifier_from_devid(device).type == tools::DeviceType::OpenMP)
      heard().kernels_of_many_threads.insert(name);
  }
  static void push_region(char const* name) { heard().regions.insert(name); }
  static void begin_copy(Kokkos::Tools::SpaceHandle, char const*, void const*, Kokkos::Tools::SpaceHandle, char const*,
                         void const*, std::uint64_t) {
    ++heard().copies_under_way;
  }
  static void end_copy() { --heard().copies_under_way; }
  static void allocate(Kokkos::Tools::SpaceHandle, char const* label, void const*, std::uint64_t) {
    heard().allocations.insert(label);
  }
};

class ProfilingLabels : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, ProfilingLabels, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(ProfilingLabels, OfKernelsAndRegionsBeginWithTheName) {
  RadixNet const network(128, 20, 1, -0.3);
  auto const samples = digit_images(128, 70, 1);
  for (auto const& options : test::all_choices(GetParam())) {
    SCOPED_TRACE(test::describe(options));
    Listener const listener;
    test::run_all(network, samples, options);
    EXPECT_FALSE(Listener::kernels().empty());
    EXPECT_THAT(Listener::kernels(), testing::Each(testing::StartsWith("varve::")));
    EXPECT_THAT(Listener::regions(), testing::Each(testing::StartsWith("varve::")));
    EXPECT_THAT(Listener::regions(),
                testing::IsSupersetOf({"varve::prepare", "varve::upload", "varve::layer_loop", "varve::collect"}));
  }
}

/// A launch for each of thousands of narrow layers would take longer than their work.
TEST_P(ProfilingLabels, ShowThatHostsTrainNarrowLayersInSeries) {
  auto const given = test::training_case({std::vector<std::size_t>(9, 20), 130});
  auto const training = prepare_training(given.network, test::training_at(GetParam(), 130));
  training->add_samples(given.samples, given.labels, "set");
  training->step(0, test::rows_from(0, 130), 0.1); // makes the arrays
  Listener const listener;
  training->step(0, test::rows_from(0, 130), 0.1);
  bool const is_host = GetParam().backend == Backend::serial || GetParam().backend == Backend::openmp;
  EXPECT_THAT(Listener::kernels(), testing::Each(testing::StartsWith("varve::")));
  EXPECT_EQ(Listener::kernels().count("varve::series_forward"), is_host ? 1U : 0U);
  EXPECT_EQ(Listener::kernels().count("varve::series_backward"), is_host ? 1U : 0U);
  EXPECT_EQ(Listener::kernels().count("varve::fused_backward"), 0U) << "only the first layer is by itself";
}

/// A call on one sample would take longer to wake threads than to read its results, and on a busy machine wait for
/// them.
TEST_P(ProfilingLabels, ShowThatOneThreadReadsTheResultsOfFewSamples) {
  RadixNet const network(128, 3, 1, 0.1);
  bool const has_threads = GetParam().backend == Backend::openmp;
  for (std::size_t const num_samples : {1U, 500U}) {
    Listener const listener;
    auto const samples = random_samples(128, num_samples, 0.5, 3);
    auto const run = test::run_all(network, samples, test::options_at(GetParam()));
    ASSERT_EQ(run.result.live_samples.size(), num_samples);
    for (auto const* const kernel : {"varve::hash_activations", "varve::gather_rows"}) {
      EXPECT_EQ(Listener::kernels().count(kernel), 1U) << kernel;
      EXPECT_EQ(Listener::kernels_of_many_threads().count(kernel), has_threads && num_samples == 500 ? 1U : 0U)
          << kernel;
    }
  }
}

} // namespace
} // namespace varve

#include "engine/launch_times.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace varve {
namespace {

namespace tools = Kokkos::Tools::Experimental;

/// State of the callbacks, which are plain functions. Kokkos calls them on the thread that launches.
struct Record {
  Stopwatch time;
  std::vector<TracedSpan> spans;         ///< ordered by begin
  std::vector<std::size_t> open_regions; ///< a stack of indices in `spans`
  tools::EventSet callbacks_before = tools::get_callbacks();
};

std::optional<Record>& record() {
  static std::optional<Record> one;
  return one;
}

/// `number` identifies the launch in end_launch().
void begin_launch(char const* name, std::uint32_t /*device*/, std::uint64_t* number) {
  *number = record()->spans.size();
  record()->spans.push_back({name, record()->time.seconds(), -1.0, false});
}

void end_launch(std::uint64_t number) {
  if (number < record()->spans.size()) record()->spans[number].end = record()->time.seconds();
}

void begin_region(char const* name) {
  record()->open_regions.push_back(record()->spans.size());
  record()->spans.push_back({name, record()->time.seconds(), -1.0, true});
}

void end_region() {
  if (record()->open_regions.empty()) return; // it began before the trace
  record()->spans[record()->open_regions.back()].end = record()->time.seconds();
  record()->open_regions.pop_back();
}

} // namespace

LaunchTrace::LaunchTrace() {
  VARVE_REQUIRE(!record(), "two traces at a time");
  record().emplace();
  auto callbacks = record()->callbacks_before;
  callbacks.begin_parallel_for = callbacks.begin_parallel_reduce = callbacks.begin_parallel_scan = &begin_launch;
  callbacks.end_parallel_for = callbacks.end_parallel_reduce = callbacks.end_parallel_scan = &end_launch;
  callbacks.push_region = &begin_region;
  callbacks.pop_region = &end_region;
  tools::set_callbacks(callbacks);
}

LaunchTrace::~LaunchTrace() {
  tools::set_callbacks(record()->callbacks_before);
  record().reset();
}

std::vector<TracedSpan> LaunchTrace::spans() const {
  auto ended = record()->spans;
  std::erase_if(ended, [](TracedSpan const& span) { return span.end < span.begin; });
  return ended;
}

bool has_kokkos_tool() { return Kokkos::Tools::profileLibraryLoaded(); }

} // namespace varve

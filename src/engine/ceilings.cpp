#include "engine/ceilings.hpp"

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/pack.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace varve {
namespace {

constexpr int row_bytes = 64;         ///< bytes of a gathered row
constexpr int rows_per_item = 256;    ///< rows that a work item gathers
constexpr int near_bytes = 32 * 1024; ///< a table that fits the nearest cache
constexpr int num_chains = 8;         ///< independent chains of fma of a work item
constexpr int links = 512;            ///< fma of a chain

/// Numbers of a gathered row.
template <class Scalar>
constexpr int row_lanes = row_bytes / int{sizeof(Scalar)};

/// target(i) = source(i). Work items: elements.
template <class ExecutionSpace, class Scalar>
struct Copy {
  ConstDeviceArray<ExecutionSpace, Scalar> source;
  DeviceArray<ExecutionSpace, Scalar> target;

  KOKKOS_FUNCTION void operator()(std::size_t i) const { target(i) = source(i); }
};

/// rows(i) = a pseudorandom number below num_rows.
template <class ExecutionSpace>
struct ChooseRows {
  DeviceArray<ExecutionSpace, std::uint32_t> rows;
  std::uint32_t num_rows;

  KOKKOS_FUNCTION void operator()(std::size_t i) const {
    std::uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15ULL;
    bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    rows(i) = static_cast<std::uint32_t>((bits ^ (bits >> 27U)) % num_rows);
  }
};

/// sums(group, lane) = sum over rows_per_item rows of table(row, lane). Work items: on a host, groups, whose lanes are
/// in vector registers; on a GPU, lanes of groups, so that neighbouring work items read adjacent bytes.
template <class ExecutionSpace, class Scalar>
struct Gather {
  static constexpr int num_lanes = row_lanes<Scalar>;
  static constexpr int width = kOnHost<ExecutionSpace> ? num_lanes : 1; ///< lanes of a work item

  ConstDeviceArray<ExecutionSpace, Scalar> table;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> rows;
  DeviceArray<ExecutionSpace, Scalar> sums;

  KOKKOS_FUNCTION void operator()(std::size_t item) const {
    std::size_t const group = item / (num_lanes / width);
    std::size_t const first_lane = item % (num_lanes / width);
    Scalar sum[width] = {};
    for (int i = 0; i < rows_per_item; ++i) {
      Scalar const* const row = table.data() + std::size_t{rows(group * rows_per_item + i)} * num_lanes + first_lane;
      for (int lane = 0; lane < width; ++lane) sum[lane] += row[lane];
    }
    for (int lane = 0; lane < width; ++lane) sums(item * width + lane) = sum[lane];
  }
};

/// results(i) = sum of num_chains chains of fma in registers; a chain is a vector register on a host and a number on a
/// GPU.
template <class ExecutionSpace, class Scalar>
struct Multiply {
  static constexpr int width = kOnHost<ExecutionSpace> ? row_lanes<Scalar> : 1;

  Scalar weight;
  DeviceArray<ExecutionSpace, Scalar> results;

  KOKKOS_FUNCTION void operator()(std::size_t item) const {
    Pack<Scalar, width> value;
    Pack<Scalar, width> sums[num_chains];
    for (int lane = 0; lane < width; ++lane) {
      value.lane[lane] = static_cast<Scalar>(item);
      for (auto& sum : sums) sum.lane[lane] = static_cast<Scalar>(lane);
    }
    for (int link = 0; link < links; ++link) {
      VARVE_UNROLL
      for (int chain = 0; chain < num_chains; ++chain) add_product(sums[chain], weight, value);
    }
    Scalar all = 0;
    for (auto const& sum : sums) {
      for (int lane = 0; lane < width; ++lane) all += sum.lane[lane];
    }
    results(item) = all;
  }
};

struct Empty {
  KOKKOS_FUNCTION void operator()(std::size_t /*item*/) const {}
};

/// The kernels of measure_ceilings on one execution space.
template <class ExecutionSpace, class Scalar>
class Measurement {
public:
  Measurement(ExecutionSpace space, std::size_t array_bytes)
      : space_(std::move(space)), size_(array_bytes / sizeof(Scalar)) {}

  /// Measures all kernels one after the other, in several rounds.
  Ceilings run(int num_rounds) {
    auto const first = allocate<Scalar>(size_);
    auto const second = allocate<Scalar>(size_);
    Kokkos::deep_copy(space_, first, Scalar(1));
    Kokkos::deep_copy(space_, second, Scalar(1));
    auto found = measure(first, second);
    for (int round = 1; round < num_rounds; ++round) found = best_of(found, measure(first, second));
    return found;
  }

private:
  using Array = DeviceArray<ExecutionSpace, Scalar>;

  Ceilings measure(Array const& first, Array const& second) {
    Ceilings found;
    found.copy_bytes = size_ * sizeof(Scalar);
    double const seconds = fastest([&] { launch(size_, Copy<ExecutionSpace, Scalar>{first, second}); });
    found.copy_bytes_per_second = 2.0 * static_cast<double>(found.copy_bytes) / seconds;
    found.gather_bytes_per_second = gather(first, near_bytes / row_bytes, second);
    found.far_gather_bytes_per_second = gather(first, found.copy_bytes / row_bytes, second);
    found.fma_per_second = multiply(second);
    constexpr int launches = 1000;
    found.launch_seconds = fastest([&] {
                             for (int i = 0; i < launches; ++i) launch(1, Empty());
                           }) /
                           launches;
    return found;
  }

  template <class T>
  static DeviceArray<ExecutionSpace, T> allocate(std::size_t size) {
    return DeviceArray<ExecutionSpace, T>(Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::ceilings"), size);
  }

  template <class Kernel>
  void launch(std::size_t items, Kernel const& kernel) {
    launch_range("varve::ceiling", space_, items, kernel);
  }

  /// The shortest time of the work, from fence to fence, after one warm-up run: of at least three runs, and of more if
  /// they are short, because other load on the machine then disturbs only some of them.
  double fastest(std::function<void()> const& work) {
    constexpr int fewest = 3;
    constexpr int most = 1000;
    constexpr double enough = 0.1; // seconds
    work();
    double best = 1e300;
    Stopwatch const all;
    for (int run = 0; run < fewest || (run < most && all.seconds() < enough); ++run) {
      space_.fence("varve: before a ceiling");
      Stopwatch const time;
      work();
      space_.fence("varve: after a ceiling");
      best = std::min(best, std::max(time.seconds(), 1e-9));
    }
    return best;
  }

  /// Bytes per second of random rows from the first num_rows rows of the table; `sums` is overwritten.
  double gather(DeviceArray<ExecutionSpace, Scalar> const& table, std::size_t num_rows,
                DeviceArray<ExecutionSpace, Scalar> const& sums) {
    using Kernel = Gather<ExecutionSpace, Scalar>;
    // enough groups for many work items per thread, and few enough for the arrays
    std::size_t const groups =
        std::min<std::size_t>(size_ / Kernel::num_lanes, std::size_t{kOnHost<ExecutionSpace> ? 1 : 8} << 13U);
    auto const rows = allocate<std::uint32_t>(groups * rows_per_item);
    launch(rows.size(), ChooseRows<ExecutionSpace>{rows, static_cast<std::uint32_t>(num_rows)});
    double const seconds = fastest([&] {
      launch(groups * (Kernel::num_lanes / Kernel::width), Kernel{table, rows, sums});
    });
    return static_cast<double>(groups) * rows_per_item * row_bytes / seconds;
  }

  double multiply(DeviceArray<ExecutionSpace, Scalar> const& results) {
    using Kernel = Multiply<ExecutionSpace, Scalar>;
    auto const items_a_thread = std::size_t{1} << (kOnHost<ExecutionSpace> ? 8U : 14U);
    auto const items =
        std::min<std::size_t>(results.size(), static_cast<std::size_t>(num_processors(space_)) * items_a_thread);
    double const seconds = fastest([&] { launch(items, Kernel{Scalar(0.5), results}); });
    return static_cast<double>(items) * Kernel::width * num_chains * links / seconds;
  }

  ExecutionSpace space_;
  std::size_t size_;
};

/// Bytes of an array that exceeds all caches: at most a sixteenth of the available memory, but at least 1 MiB.
std::size_t array_bytes(Backend backend) {
  constexpr std::size_t least = std::size_t{1} << 20U;
  std::size_t const enough = std::size_t{1} << (has_own_memory(backend) ? 30U : 28U);
  return std::clamp(available_memory(backend) / 16 / row_bytes * row_bytes, least, enough);
}

template <class... Spaces>
Ceilings measure_on(SpaceList<Spaces...> /*spaces*/, Backend backend, bool in_double, int num_rounds) {
  Ceilings found;
  auto const measure = [&]<class Space>() {
    if (to_backend<Space>() != backend_of_kernels(backend)) return;
    auto const space = instance_of_backend<Space>(backend);
    found = in_double ? Measurement<Space, double>(space, array_bytes(backend)).run(num_rounds)
                      : Measurement<Space, float>(space, array_bytes(backend)).run(num_rounds);
  };
  (measure.template operator()<Spaces>(), ...);
  return found;
}

} // namespace

Ceilings best_of(Ceilings const& one, Ceilings const& other) {
  auto best = one;
  for (auto const rate : {&Ceilings::copy_bytes_per_second, &Ceilings::gather_bytes_per_second,
                          &Ceilings::far_gather_bytes_per_second, &Ceilings::fma_per_second})
    best.*rate = std::max(one.*rate, other.*rate);
  best.launch_seconds = std::min(one.launch_seconds, other.launch_seconds);
  return best;
}

Ceilings measure_ceilings(Backend backend, Precision precision, int num_rounds) {
  auto const found = measure_on(CompiledSpaces(), backend, precision == Precision::double_precision, num_rounds);
  if (found.copy_bytes == 0) throw UsageError("this build has no backend " + to_string(backend));
  return found;
}

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

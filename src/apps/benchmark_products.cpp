#include "apps/benchmark_products.hpp"

#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "products/product_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t checked_numbers = 1000;
constexpr std::size_t plenty = std::size_t{1} << 30U; ///< bytes on the device

struct ProductCase {
  std::string name;
  ProductShape shape;
  bool is_short_of_memory = false; ///< a quarter of A and B fits the device
};

std::vector<ProductCase> const product_cases = {
    {"product-512x512x512", {512, 512, 512}},
    {"product-1024x1024x1024", {1024, 1024, 1024}},
    {"product-2048x64x1024", {2048, 64, 1024}},
    {"product-1024x1024x1024-quarter-of-memory", {1024, 1024, 1024}, true},
};

/// A and B row by row, and some numbers of C as plain loops give them.
template <class Scalar>
struct ProductData {
  std::vector<Scalar> a, b;
  std::vector<std::pair<std::size_t, Scalar>> expected; ///< place in C, row by row, and number
};

template <class Scalar>
ProductData<Scalar> data_of(ProductShape const& shape) {
  ProductData<Scalar> data;
  std::mt19937_64 generator(1); // NOLINT: the same numbers everywhere
  data.a.resize(shape.rows * shape.depth);
  data.b.resize(shape.depth * shape.columns);
  for (auto* const values : {&data.a, &data.b}) // from -1 to 1; a distribution of the library may differ elsewhere
    for (auto& value : *values) value = static_cast<Scalar>(static_cast<double>(generator() >> 40U) * 0x1p-23 - 1.0);
  for (std::size_t number = 0; number < checked_numbers; ++number) {
    auto const row = generator() % shape.rows;
    auto const column = generator() % shape.columns;
    Scalar sum = 0;
    for (std::uint64_t k = 0; k < shape.depth; ++k)
      sum = std::fma(data.a[row * shape.depth + k], data.b[k * shape.columns + column], sum);
    data.expected.emplace_back(row * shape.columns + column, sum);
  }
  return data;
}

template <class Scalar>
ReadBlock<Scalar> reader(std::vector<Scalar> const& values, std::uint64_t num_columns) {
  return [&values, num_columns](MatrixBlock const& block, Scalar* to) {
    for (std::uint64_t row = 0; row < block.num_rows; ++row) {
      auto const* const from = values.data() + (block.first_row + row) * num_columns + block.first_column;
      to = std::copy(from, from + block.num_columns, to);
    }
  };
}

/// A product on one backend in one way, and its times.
template <class Scalar>
class ProductContender {
public:
  ProductContender(ProductCase const& one, ProductData<Scalar> const& data, std::string const& backend, ProductWay way)
      : backend_(parse_backend(backend)), way_(way), shape_(one.shape), data_(data) {
    auto const bytes = sizeof(Scalar) * (one.shape.rows + one.shape.columns) * one.shape.depth;
    limit_ = one.is_short_of_memory ? static_cast<std::size_t>(bytes / 4) : plenty;
    tiles_ = tiles_of(shape_, choose_tile(shape_, product_device<Scalar>(backend_, limit_), 4096));
    c_.resize(shape_.rows * shape_.columns);
  }

  /// Computes the product from matrices in memory to a matrix in memory.
  double run() {
    Stopwatch const time;
    ProductInputs<Scalar> const inputs{reader(data_.a, shape_.depth), reader(data_.b, shape_.columns)};
    auto const engine = make_product_engine<Scalar>(backend_, tiles_, limit_, inputs, way_);
    auto const order = order_of_tasks(tiles_, engine->memory().order);
    std::size_t place = 0;
    hash_ = 0;
    engine->run([&] { return place < order.size() ? std::optional(order[place++]) : std::nullopt; },
                [&](std::uint64_t, TileSums<Scalar> const& sums) { keep(sums); });
    memory_ = engine->memory();
    traffic_ = engine->traffic();
    return time.seconds();
  }

  void measure() { seconds_.push_back(run()); }

  /// Throws ResourceError unless the product is right.
  void require_right(std::string const& name) const {
    double const rounding = static_cast<double>(shape_.depth) * std::numeric_limits<Scalar>::epsilon();
    double const allowed = way_ == ProductWay::library ? rounding : 0.0;
    for (auto const& [place, number] : data_.expected) {
      auto const difference = std::abs(static_cast<double>(c_[place]) - static_cast<double>(number));
      if (difference <= allowed) continue;
      throw ResourceError(fmt::format("{} on {} ({}): number {} is {}, plain loops give {}", name, to_string(backend_),
                                      way_name(), place, c_[place], number));
    }
  }

  std::string way_name() const { return way_ == ProductWay::library ? "library" : "own"; }
  ProductWay way() const { return way_; }
  Backend backend() const { return backend_; }
  std::uint64_t hash() const { return hash_; }
  ProductTiles const& tiles() const { return tiles_; }
  ProductMemory const& memory() const { return memory_; }
  ProductTraffic const& traffic() const { return traffic_; }
  std::vector<double> const& seconds() const { return seconds_; }

private:
  void keep(TileSums<Scalar> const& sums) {
    auto const& block = sums.block;
    values_.resize(static_cast<std::size_t>(block.size()));
    hash_ += finish_tile<Scalar>(sums, {}, nullptr, values_.data());
    for (std::uint64_t row = 0; row < block.num_rows; ++row) {
      auto const* const from = values_.data() + row * block.num_columns;
      std::copy(from, from + block.num_columns,
                c_.data() + (block.first_row + row) * shape_.columns + block.first_column);
    }
  }

  Backend backend_;
  ProductWay way_;
  ProductShape shape_;
  ProductData<Scalar> const& data_;
  std::size_t limit_ = 0;
  ProductTiles tiles_;
  ProductMemory memory_;
  ProductTraffic traffic_;
  std::vector<Scalar> c_, values_;
  std::uint64_t hash_ = 0;
  std::vector<double> seconds_;
};

template <class Scalar>
Json describe(RecordHead const& head, ProductContender<Scalar> const& contender, BenchmarkOptions const& options) {
  bool const is_own = contender.way() == ProductWay::own;
  auto const& shape = contender.tiles().shape;
  double const fma =
      static_cast<double>(shape.rows) * static_cast<double>(shape.columns) * static_cast<double>(shape.depth);
  Json record = begin_record(head, "product");
  record["setup"] = {{"backend", to_string(contender.backend())},
                     {"device", device_name(contender.backend())},
                     {"precision", options.precision},
                     {"reductions", contender.way_name()}};
  record["samples"] = shape.rows;
  record["shape"] = {{"rows", shape.rows}, {"columns", shape.columns}, {"depth", shape.depth}};
  record["check"] = {{"right", true},
                     {"way", is_own ? "1000 numbers have the bits of plain loops"
                                    : "1000 numbers are those of plain loops within rounding"},
                     {"numbers", checked_numbers}};
  if (is_own) record["product_hash"] = fmt::format("{:016x}", contender.hash());
  record["tiles"] = {
      {"tile", contender.tiles().tile}, {"step", contender.tiles().step}, {"tiles", contender.tiles().num_tasks()}};
  record["memory"] = {{"bytes", contender.memory().bytes()}, {"kept_tiles", contender.memory().num_slots}};
  record["brought_bytes"] = contender.traffic().brought_bytes;
  record["run_seconds"] = summary_of(contender.seconds());
  record["fma"] = fma;
  record["throughput"] = {{"fma_per_second", {{"p50", fma / record["run_seconds"]["median"].get<double>()}}}};
  record["run_seconds_all"] = contender.seconds();
  return record;
}

void print_product(Json const& record) {
  auto const& seconds = record["run_seconds"];
  fmt::print("{:41} {:7} {:8} {:>9} spread {:>5.1f} %  p95 {:>9}  {:>12}  {}\n", record["case"].get<std::string>(),
             record["setup"]["backend"].get<std::string>(), record["setup"]["reductions"].get<std::string>(),
             readable_seconds(seconds["median"].get<double>()), 100.0 * seconds["spread"].get<double>(),
             readable_seconds(seconds["p95"].get<double>()),
             with_prefix(record["throughput"]["fma_per_second"]["p50"].get<double>(), "fma/s"),
             record["check"]["way"].get<std::string>());
}

template <class Scalar>
void measure(ProductCase const& one, BenchmarkOptions const& options, BenchmarkRun& run) {
  auto const data = data_of<Scalar>(one.shape);
  std::vector<ProductContender<Scalar>> field;
  for (auto const& name : options.backends) {
    field.emplace_back(one, data, name, ProductWay::own);
    if (has_library_product()) field.emplace_back(one, data, name, ProductWay::library);
  }
  for (auto& contender : field) {
    contender.run();
    contender.require_right(one.name);
    if (contender.way() == ProductWay::own && contender.hash() != field.front().hash())
      throw ResourceError(fmt::format("{}: {} and {} give other bits", one.name, to_string(field.front().backend()),
                                      to_string(contender.backend())));
  }
  double const enough = options.seconds * static_cast<double>(field.size());
  Stopwatch const time;
  for (std::size_t round = 0; round < options.repeats || (round < most_rounds && time.seconds() < enough); ++round)
    for (auto& contender : field) contender.measure();
  for (auto const& contender : field) {
    auto const record = describe(run.head_of(one.name, "random numbers from -1 to 1 in memory"), contender, options);
    print_product(record);
    run.add(record);
  }
}

} // namespace

void measure_products(BenchmarkOptions const& options, BenchmarkRun& run) {
  for (auto const& one : product_cases) {
    if (options.precision == "double") {
      measure<double>(one, options, run);
    } else {
      measure<float>(one, options, run);
    }
  }
}

} // namespace varve

#include "apps/benchmark_run.hpp"
#include "core/stopwatch.hpp"
#include "products/product_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace varve {
namespace {

constexpr std::size_t checked_numbers = 1000;
constexpr std::size_t plenty = std::size_t{1} << 30U; ///< bytes on the device

struct ProductCase {
  std::string name;
  ProductShape shape;
  bool is_short_of_memory = false; ///< a quarter of A and B fits the device
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

/// A product of matrices in memory on one backend in one way. Its times: "run_seconds" of the whole product.
template <class Scalar>
class TimedProduct final : public Contender {
public:
  /// `data` must outlive the object.
  TimedProduct(ProductCase const& one, ProductData<Scalar> const& data, Backend its_backend, ProductWay way)
      : Contender("product", its_backend, way == ProductWay::library ? "library" : "own"),
        way_(way),
        shape_(one.shape),
        data_(data) {
    auto const bytes = sizeof(Scalar) * (shape_.rows + shape_.columns) * shape_.depth;
    limit_ = one.is_short_of_memory ? static_cast<std::size_t>(bytes / 4) : plenty;
    tiles_ = tiles_of(shape_, choose_tile(shape_, product_device<Scalar>(its_backend, limit_), 4096));
    c_.resize(shape_.rows * shape_.columns);
    rates = {{"fma_per_second", fma(), "run_seconds"}};
  }

  AnswerCheck check() override {
    run();
    bool const is_own = way_ == ProductWay::own;
    double const rounding = static_cast<double>(shape_.depth) * std::numeric_limits<Scalar>::epsilon();
    for (auto const& [place, number] : data_.expected) {
      auto const difference = std::abs(static_cast<double>(c_[place]) - static_cast<double>(number));
      if (!(difference <= (is_own ? 0.0 : rounding)))
        return {false, fmt::format("number {} is {}, plain loops give {}", place, c_[place], number), checked_numbers};
    }
    return {true,
            is_own ? "1000 numbers have the bits of plain loops"
                   : "1000 numbers are those of plain loops within rounding",
            checked_numbers};
  }

  void measure() override {
    Stopwatch const time;
    run();
    seconds["run_seconds"].push_back(time.seconds());
  }

  std::optional<std::pair<std::string, std::uint64_t>> answer() const override {
    return way_ == ProductWay::own ? std::optional(std::pair(std::string("own"), hash_)) : std::nullopt;
  }

  void describe(nlohmann::ordered_json& record) override {
    record["setup"].update(
        {{"precision", sizeof(Scalar) == sizeof(double) ? "double" : "float"}, {"reductions", work}});
    record.update({{"samples", shape_.rows},
                   {"shape", {{"rows", shape_.rows}, {"columns", shape_.columns}, {"depth", shape_.depth}}},
                   {"tiles", {{"tile", tiles_.tile}, {"step", tiles_.step}, {"tiles", tiles_.num_tasks()}}},
                   {"memory", {{"bytes", memory_.bytes()}, {"kept_tiles", memory_.num_slots}}},
                   {"brought_bytes", traffic_.brought_bytes},
                   {"fma", fma()}});
    if (way_ == ProductWay::own) record["product_hash"] = fmt::format("{:016x}", hash_);
  }

private:
  double fma() const {
    return static_cast<double>(shape_.rows) * static_cast<double>(shape_.columns) * static_cast<double>(shape_.depth);
  }

  void run() {
    ProductInputs<Scalar> const inputs{reader(data_.a, shape_.depth), reader(data_.b, shape_.columns)};
    auto const engine = std::make_unique<ProductEngine<Scalar>>(backend, tiles_, limit_, inputs, way_);
    auto const order = order_of_tasks(tiles_, engine->memory().order);
    std::size_t place = 0;
    hash_ = 0;
    engine->run([&] { return place < order.size() ? std::optional(order[place++]) : std::nullopt; },
                [&](std::uint64_t, TileSums<Scalar> const& sums) { keep(sums); });
    memory_ = engine->memory();
    traffic_ = engine->traffic();
  }

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

  ProductWay way_;
  ProductShape shape_;
  ProductData<Scalar> const& data_;
  std::size_t limit_ = 0;
  ProductTiles tiles_;
  ProductMemory memory_;
  ProductTraffic traffic_;
  std::vector<Scalar> c_, values_;
  std::uint64_t hash_ = 0;
};

template <class Scalar>
void measure(ProductCase const& one, BenchmarkOptions const& options, BenchmarkRun& run) {
  auto const data = data_of<Scalar>(one.shape);
  Field field;
  for (auto const& name : options.backends) {
    for (auto const way : {ProductWay::own, ProductWay::library}) {
      if (way == ProductWay::own || has_library_product())
        field.push_back(std::make_unique<TimedProduct<Scalar>>(one, data, parse_backend(name), way));
    }
  }
  run.measure(one.name, "random numbers from -1 to 1 in memory", std::move(field));
}

} // namespace

void measure_products(BenchmarkOptions const& options, BenchmarkRun& run) {
  std::vector<ProductCase> const cases = {
      {"product-512x512x512", {512, 512, 512}},
      {"product-1024x1024x1024", {1024, 1024, 1024}},
      {"product-2048x64x1024", {2048, 64, 1024}},
      {"product-1024x1024x1024-quarter-of-memory", {1024, 1024, 1024}, true},
  };
  for (auto const& one : cases) {
    if (precision_of(options.computing.precision) == Precision::double_precision) {
      measure<double>(one, options, run);
    } else {
      measure<float>(one, options, run);
    }
  }
}

} // namespace varve

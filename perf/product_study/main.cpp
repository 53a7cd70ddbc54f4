/// Times the ladder from a naive product to that of varve multiply, beside a BLAS. Nothing is timed before its bits
/// equal those of the naive product (a BLAS has bits of its own; its largest difference is printed). One JSON record a
/// line, with the mean and the largest error of 1000 numbers against sums in long double (float: in double). Exit code
/// 1 if a rung has other bits.
#include "ladder.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "products/finished_tile.hpp"
#include "products/product_engine.hpp"

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace varve::product_study {
namespace {

struct Options {
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  std::string blas;
  std::string only;
  std::size_t rows = 1024;
  std::size_t columns = 1024;
  std::size_t depth = 1024;
  std::uint64_t tile = 0;
  double device_memory_limit = 1.0;
  std::size_t repeat = 5;
};

template <class Scalar>
Problem<Scalar> random_problem(Options const& options) {
  Problem<Scalar> problem{options.rows, options.columns, options.depth, {}, {}};
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  problem.a.resize(options.rows * options.depth);
  problem.b.resize(options.depth * options.columns);
  for (auto* const values : {&problem.a, &problem.b})
    for (auto& value : *values) value = static_cast<Scalar>(uniform(generator));
  return problem;
}

/// Reads blocks of a matrix in memory.
template <class Scalar>
ReadBlock<Scalar> reader(std::vector<Scalar> const& values, std::size_t num_columns) {
  return [&values, num_columns](MatrixBlock const& block, Scalar* to) {
    for (std::uint64_t row = 0; row < block.num_rows; ++row) {
      auto const* const from = values.data() + (block.first_row + row) * num_columns + block.first_column;
      to = std::copy(from, from + block.num_columns, to);
    }
  };
}

/// The product of varve multiply: tiles in host memory are read, brought to the device, packed, multiplied and
/// finished.
template <class Scalar>
Rung<Scalar> own_product(Problem<Scalar> const& problem, Options const& options) {
  auto const backend = parse_backend(options.backend);
  auto const limit = static_cast<std::size_t>(options.device_memory_limit * 0x1p30);
  ProductShape const shape{problem.rows, problem.columns, problem.depth};
  auto const tile = options.tile > 0 ? options.tile : choose_tile(shape, product_device<Scalar>(backend, limit), 4096);
  auto const tiles = tiles_of(shape, tile);
  auto const c = std::make_shared<std::vector<Scalar>>(problem.rows * problem.columns);
  auto const inputs =
      ProductInputs<Scalar>{reader(problem.a, problem.depth), reader(problem.b, problem.columns), false, false};
  auto const run = [=, &problem] {
    auto const engine = make_product_engine<Scalar>(backend, tiles, limit, inputs);
    auto const order = order_of_tasks(tiles);
    std::size_t place = 0;
    std::vector<Scalar> values;
    engine->run([&] { return place < order.size() ? std::optional(order[place++]) : std::nullopt; },
                [&](std::uint64_t, TileSums<Scalar> const& sums) {
                  values.resize(static_cast<std::size_t>(sums.block.size()));
                  finish_tile<Scalar>(sums, {}, nullptr, values.data());
                  auto const& block = sums.block;
                  for (std::uint64_t row = 0; row < block.num_rows; ++row) {
                    auto const* const from = values.data() + row * block.num_columns;
                    std::copy(from, from + block.num_columns,
                              c->data() + (block.first_row + row) * problem.columns + block.first_column);
                  }
                });
  };
  return {"product", run, [c] { return *c; }};
}

/// cblas_sgemm or cblas_dgemm of a shared library. Throws UsageError if it lacks them.
template <class Scalar>
Rung<Scalar> blas_product(Problem<Scalar> const& problem, std::string const& library) {
  using Gemm =
      void (*)(int, int, int, int, int, int, Scalar, Scalar const*, int, Scalar const*, int, Scalar, Scalar*, int);
  void* const handle = dlopen(library.c_str(), RTLD_NOW);
  if (handle == nullptr) throw UsageError(fmt::format("--blas {} cannot be opened: {}", library, dlerror()));
  auto const gemm = reinterpret_cast<Gemm>(dlsym(handle, sizeof(Scalar) == 4 ? "cblas_sgemm" : "cblas_dgemm"));
  if (gemm == nullptr) throw UsageError(fmt::format("--blas {} has no cblas_sgemm and cblas_dgemm", library));
  auto const c = std::make_shared<std::vector<Scalar>>(problem.rows * problem.columns);
  auto const run = [gemm, c, &problem] {
    constexpr int by_rows = 101;
    constexpr int as_it_is = 111;
    auto const rows = static_cast<int>(problem.rows);
    auto const columns = static_cast<int>(problem.columns);
    auto const depth = static_cast<int>(problem.depth);
    gemm(by_rows, as_it_is, as_it_is, rows, columns, depth, Scalar(1), problem.a.data(), depth, problem.b.data(),
         columns, Scalar(0), c->data(), columns);
  };
  return {"blas", run, [c] { return *c; }};
}

template <class Scalar>
std::vector<Rung<Scalar>> simple_rungs(Problem<Scalar> const& problem, Backend wanted) {
  std::vector<Rung<Scalar>> rungs;
  auto const visit = [&]<Backend... Compiled>() {
    ((Compiled == wanted ? void(rungs = ladder_on<Compiled, Scalar>(problem)) : void()), ...);
  };
  visit.template operator()<VARVE_BACKENDS>();
  return rungs;
}

/// A number of C as the chain of docs/products.md, its place, and the same sum in a wider type, in which it is exact up
/// to a rounding far below that of Scalar.
template <class Scalar>
struct PlainNumber {
  using Wide = std::conditional_t<sizeof(Scalar) == 4, double, long double>;
  std::size_t place = 0;
  Scalar value = 0;
  Wide exact = 0;
};

template <class Scalar>
std::vector<PlainNumber<Scalar>> plain_numbers(Problem<Scalar> const& problem) {
  constexpr std::size_t count = 1000;
  std::mt19937_64 generator(2);
  std::vector<PlainNumber<Scalar>> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    auto const row = generator() % problem.rows;
    auto const column = generator() % problem.columns;
    using Wide = typename PlainNumber<Scalar>::Wide;
    Scalar sum = 0;
    Wide exact = 0;
    for (std::size_t k = 0; k < problem.depth; ++k) {
      auto const a = problem.a[row * problem.depth + k];
      auto const b = problem.b[k * problem.columns + column];
      sum = std::fma(a, b, sum);
      exact += static_cast<Wide>(a) * static_cast<Wide>(b);
    }
    numbers.push_back({row * problem.columns + column, sum, exact});
  }
  return numbers;
}

/// Times one rung; returns false if it has other bits than it must.
template <class Scalar>
bool measure(Rung<Scalar> const& rung, std::vector<PlainNumber<Scalar>> const& expected, Options const& options) {
  rung.run();
  auto const found = rung.result();
  double largest = 0.0;
  double largest_error = 0.0;
  double sum_of_errors = 0.0;
  for (auto const& [place, value, exact] : expected) {
    largest = std::max(largest, std::abs(static_cast<double>(found[place]) - static_cast<double>(value)));
    auto const error = static_cast<double>(std::abs(static_cast<decltype(exact)>(found[place]) - exact));
    largest_error = std::max(largest_error, error);
    sum_of_errors += error;
  }
  if (rung.name != "blas" && largest != 0.0) {
    fmt::print(stderr, "{} has other bits than plain loops, by {}\n", rung.name, largest);
    return false;
  }
  std::vector<double> seconds;
  std::vector<double> processor_seconds; // of all threads: tells more on a machine that others use, too
  for (std::size_t i = 0; i < options.repeat; ++i) {
    auto const begin = std::clock();
    Stopwatch const time;
    rung.run();
    seconds.push_back(time.seconds());
    processor_seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::ranges::sort(seconds);
  std::ranges::sort(processor_seconds);
  double const fma =
      static_cast<double>(options.rows) * static_cast<double>(options.columns) * static_cast<double>(options.depth);
  nlohmann::ordered_json const record = {{"rung", rung.name},
                                         {"backend", rung.name == "blas" ? options.blas : options.backend},
                                         {"device", device_name(parse_backend(options.backend))},
                                         {"precision", options.precision},
                                         {"rows", options.rows},
                                         {"columns", options.columns},
                                         {"depth", options.depth},
                                         {"median_seconds", seconds[seconds.size() / 2]},
                                         {"least_seconds", seconds.front()},
                                         {"largest_seconds", seconds.back()},
                                         {"median_processor_seconds", processor_seconds[processor_seconds.size() / 2]},
                                         {"gfma_per_second", 1e-9 * fma / seconds[seconds.size() / 2]},
                                         {"largest_difference", largest},
                                         {"mean_error", sum_of_errors / static_cast<double>(expected.size())},
                                         {"largest_error", largest_error},
                                         {"commit", provenance.git_commit}};
  fmt::print("{}\n", record.dump());
  return true;
}

template <class Scalar>
int study(Options const& options) {
  auto const problem = random_problem<Scalar>(options);
  auto rungs = simple_rungs(problem, parse_backend(options.backend));
  auto const expected = plain_numbers(problem);
  rungs.push_back(own_product(problem, options));
  if (!options.blas.empty()) rungs.push_back(blas_product(problem, options.blas));
  bool is_right = true;
  for (auto const& rung : rungs)
    if (options.only.empty() || options.only.find(rung.name) != std::string::npos)
      is_right = measure(rung, expected, options) && is_right;
  return is_right ? 0 : 1;
}

int run(int num_arguments, char** arguments) {
  Options options;
  CLI::App command("The ladder from a naive product to that of varve multiply");
  command.add_option("--backend", options.backend, compiled_backend_names())->capture_default_str();
  command.add_option("--precision", options.precision, "float or double")->capture_default_str();
  command.add_option("--rows", options.rows, "rows of C")->capture_default_str();
  command.add_option("--columns", options.columns, "columns of C")->capture_default_str();
  command.add_option("--depth", options.depth, "products of a sum")->capture_default_str();
  command.add_option("--tile", options.tile, "tile of the product (default: as varve multiply chooses)");
  command.add_option("--device-memory-limit", options.device_memory_limit, "for the product, in GiB")
      ->capture_default_str();
  command.add_option("--only", options.only, "rungs, with commas: naive, scratch, registers, product, blas");
  command.add_option("--blas", options.blas, "shared library with cblas_sgemm, such as libopenblas.so.0");
  command.add_option("--repeat", options.repeat, "timed runs")->capture_default_str();
  CLI11_PARSE(command, num_arguments, arguments);
  return options.precision == "double" ? study<double>(options) : study<float>(options);
}

} // namespace
} // namespace varve::product_study

int main(int num_arguments, char** arguments) {
  try {
    varve::Runtime const runtime(num_arguments, arguments);
    return varve::product_study::run(num_arguments, arguments);
  } catch (varve::Error const& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.kind());
  }
}

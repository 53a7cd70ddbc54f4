/// Times the ladder from a naive product to that of varve multiply, beside a BLAS. Nothing is timed before its bits
/// equal those of plain loops (a BLAS has bits of its own; its largest difference is printed). One JSON record a line,
/// with the mean and the largest error of 1000 numbers against sums in long double (float: in double). With
/// --kernel-alone it times the product's kernel on packed matrices beside cuBLAS and prints a table. Exit code 1 if a
/// rung or the kernel has other bits.
#include "kernel_table.hpp"
#include "ladder.hpp"
#include "random_number.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "products/product_engine.hpp"
#include "products/strided_matrix.hpp"

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
  std::string cublas;
  std::string only;
  std::size_t rows = 1024;
  std::size_t columns = 1024;
  std::size_t depth = 1024;
  std::uint64_t tile = 0;
  double device_memory_limit = 1.0;
  std::size_t repeat = 5;
  bool kernel_alone = false;
  std::vector<std::string> sizes;
};

template <class Scalar>
Problem<Scalar> random_problem(Options const& options) {
  Problem<Scalar> problem{options.rows, options.columns, options.depth,
                          HostNumbers<Scalar>(options.rows * options.depth),
                          HostNumbers<Scalar>(options.depth * options.columns)};
  constexpr std::size_t at_a_time = std::size_t{1} << 20U;
  std::uint64_t seed = 0;
  for (auto* const numbers : {&problem.a, &problem.b}) {
    ++seed;
    for_each_on_host_threads((numbers->size + at_a_time - 1) / at_a_time, [&](std::size_t part) {
      auto const last = std::min((part + 1) * at_a_time, numbers->size);
      for (auto place = part * at_a_time; place < last; ++place)
        numbers->values[place] = random_number<Scalar>(seed, place);
    });
  }
  return problem;
}

/// A matrix in memory, row by row.
template <class Element, class Scalar>
StridedMatrix<Element> by_rows(HostNumbers<Scalar> const& numbers, std::size_t num_columns) {
  return {numbers.values.get(), numbers.size / num_columns, num_columns, static_cast<std::int64_t>(num_columns), 1};
}

template <class Scalar>
ReadBlock<Scalar> reader(HostNumbers<Scalar> const& numbers, std::size_t num_columns) {
  auto const matrix = by_rows<Scalar const>(numbers, num_columns);
  return [=](MatrixBlock const& block, Scalar* to) { read_block(matrix, "a random matrix", block, to); };
}

/// C in host memory, and the numbers at some places.
template <class Scalar>
std::function<std::vector<Scalar>(std::vector<std::size_t> const&)>
numbers_of(std::shared_ptr<HostNumbers<Scalar>> const& c) {
  return [c](std::vector<std::size_t> const& places) {
    std::vector<Scalar> values;
    for (auto const place : places) values.push_back(c->values[place]);
    return values;
  };
}

/// The product of varve multiply: tiles in host memory are read, brought to the device, packed, multiplied and
/// finished.
template <class Scalar>
Rung<Scalar> own_product(Problem<Scalar> const& problem, Options const& options) {
  auto const backend = parse_backend(options.backend);
  auto const limit = static_cast<std::size_t>(options.device_memory_limit * 0x1p30);
  ProductShape const shape{problem.rows, problem.columns, problem.depth};
  auto const tiles =
      tiles_of(shape, options.tile > 0 ? options.tile : default_product_tile<Scalar>(shape, backend, limit));
  auto const c = std::make_shared<HostNumbers<Scalar>>(problem.rows * problem.columns);
  ProductInputs<Scalar> const inputs{reader(problem.a, problem.depth), reader(problem.b, problem.columns)};
  auto const run = [=] {
    auto const engine = std::make_unique<ProductEngine<Scalar>>(backend, tiles, limit, inputs);
    auto const order = order_of_tasks(tiles, engine->memory().order);
    auto const matrix = by_rows<Scalar>(*c, static_cast<std::size_t>(shape.columns));
    std::size_t place = 0;
    std::vector<Scalar> values;
    Stopwatch const time;
    engine->run([&] { return place < order.size() ? std::optional(order[place++]) : std::nullopt; },
                [&](std::uint64_t, TileSums<Scalar> const& sums) {
                  values.resize(static_cast<std::size_t>(sums.block.size()));
                  finish_tile<Scalar>(sums, {}, nullptr, values.data());
                  write_block(matrix, sums.block, values.data());
                });
    auto const traffic = engine->traffic();
    fmt::print(stderr,
               "{:.3f} s: reading {:.3f} s, waiting {:.3f} s, finishing {:.3f} s; {:.2f} GB brought; tiles of {}\n",
               time.seconds(), traffic.read_seconds, traffic.wait_seconds, traffic.take_seconds,
               1e-9 * traffic.loaded_bytes, tiles.tile);
  };
  return {"product", run, numbers_of(c)};
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
  auto const c = std::make_shared<HostNumbers<Scalar>>(problem.rows * problem.columns);
  auto const run = [gemm, c, &problem] {
    constexpr int by_rows = 101;
    constexpr int as_it_is = 111;
    auto const rows = static_cast<int>(problem.rows);
    auto const columns = static_cast<int>(problem.columns);
    auto const depth = static_cast<int>(problem.depth);
    gemm(by_rows, as_it_is, as_it_is, rows, columns, depth, Scalar(1), problem.a.values.get(), depth,
         problem.b.values.get(), columns, Scalar(0), c->values.get(), columns);
  };
  return {"blas", run, numbers_of(c)};
}

template <class Scalar>
std::vector<Rung<Scalar>> simple_rungs(Problem<Scalar> const& problem, Options const& options) {
  auto const wanted = parse_backend(options.backend);
  std::vector<Rung<Scalar>> rungs;
  auto const visit = [&]<Backend... Compiled>() {
    ((Compiled == wanted ? void(rungs = ladder_on<Compiled, Scalar>(problem, options.cublas)) : void()), ...);
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
  std::vector<PlainNumber<Scalar>> numbers(count);
  for (auto& number : numbers) number.place = generator() % (problem.rows * problem.columns);
  for_each_on_host_threads(count, [&](std::size_t which) {
    auto& number = numbers[which];
    auto const* const row = problem.a.values.get() + number.place / problem.columns * problem.depth;
    auto const* const column = problem.b.values.get() + number.place % problem.columns;
    using Wide = typename PlainNumber<Scalar>::Wide;
    for (std::size_t k = 0; k < problem.depth; ++k) {
      number.value = std::fma(row[k], column[k * problem.columns], number.value);
      number.exact += static_cast<Wide>(row[k]) * static_cast<Wide>(column[k * problem.columns]);
    }
  });
  return numbers;
}

/// How far numbers of C are from plain loops, and from sums in the wider type.
struct Distances {
  double largest = 0.0;
  double largest_error = 0.0;
  double mean_error = 0.0;
};

template <class Scalar>
Distances distances_of(Rung<Scalar> const& rung, std::vector<PlainNumber<Scalar>> const& expected) {
  std::vector<std::size_t> places;
  for (auto const& number : expected) places.push_back(number.place);
  auto const found = rung.numbers(places);
  Distances distances;
  for (std::size_t number = 0; number < expected.size(); ++number) {
    auto const& [place, value, exact] = expected[number];
    auto const distance = std::abs(static_cast<double>(found[number]) - static_cast<double>(value));
    auto const error = static_cast<double>(std::abs(static_cast<decltype(exact)>(found[number]) - exact));
    distances.largest = std::max(distances.largest, distance);
    distances.largest_error = std::max(distances.largest_error, error);
    distances.mean_error += error / static_cast<double>(expected.size());
  }
  return distances;
}

/// Times one rung; returns false if it has other bits than it must.
template <class Scalar>
bool measure(Rung<Scalar> const& rung, std::vector<PlainNumber<Scalar>> const& expected, Options const& options) {
  rung.run();
  auto const distances = distances_of(rung, expected);
  bool const has_own_bits = rung.name == "blas" || rung.name == "cublas";
  if (!has_own_bits && distances.largest != 0.0) {
    fmt::print(stderr, "{} has other bits than plain loops, by {}\n", rung.name, distances.largest);
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
                                         {"backend", rung.name == "blas"     ? options.blas
                                                     : rung.name == "cublas" ? options.cublas
                                                                             : options.backend},
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
                                         {"part_rows", rung.part().rows},
                                         {"part_columns", rung.part().columns},
                                         {"largest_difference", distances.largest},
                                         {"mean_error", distances.mean_error},
                                         {"largest_error", distances.largest_error},
                                         {"commit", provenance.git_commit}};
  fmt::print("{}\n", record.dump());
  return true;
}

template <class Scalar>
int study(Options const& options) {
  auto const problem = random_problem<Scalar>(options);
  std::vector<std::string> only = CLI::detail::split(options.only, ',');
  auto rungs = simple_rungs(problem, options);
  auto const expected = plain_numbers(problem);
  rungs.push_back(own_product(problem, options));
  if (!options.blas.empty()) rungs.push_back(blas_product(problem, options.blas));
  bool is_right = true;
  for (auto const& rung : rungs)
    if (options.only.empty() || std::ranges::find(only, rung.name) != only.end())
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
  command.add_option("--only", options.only,
                     "rungs, with commas: naive, scratch, registers, kernel, product, blas, cublas");
  command.add_option("--blas", options.blas, "shared library with cblas_sgemm, such as libopenblas.so.0");
  command.add_option("--cublas", options.cublas,
                     "shared library of cuBLAS, such as libcublas.so.13, for --backend cuda");
  command.add_flag("--kernel-alone", options.kernel_alone,
                   "time the product's kernel alone, on packed matrices in device memory, beside --cublas: a table");
  command
      .add_option("--sizes", options.sizes,
                  "ROWSxCOLUMNSxK,...: for --kernel-alone (default: those of perf/results/products.md)")
      ->delimiter(',');
  command.add_option("--repeat", options.repeat, "timed runs")->capture_default_str();
  CLI11_PARSE(command, num_arguments, arguments);
  if (options.kernel_alone)
    return print_kernel_table(parse_backend(options.backend), options.sizes, options.cublas, options.repeat);
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

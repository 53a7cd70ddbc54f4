#include <varve/varve.hpp>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>

// The life of Kokkos and MPI in a program of its own: nothing runs before Runtime, and nothing after it.
namespace {

int num_failures = 0;

void expect(bool is_right, std::string const& what) {
  if (is_right) return;
  std::cerr << "wrong: " << what << '\n';
  ++num_failures;
}

/// Expects a ResourceError with these words.
void expect_error(std::function<void()> const& work, std::string const& words) {
  try {
    work();
    expect(false, "no error, expected: " + words);
  } catch (varve::ResourceError const& error) {
    expect(std::string(error.what()).find(words) != std::string::npos, error.what());
  }
}

varve::Network network() {
  return varve::Network({{{1, 2, {0, 2}, {0, 1}, {0.5, 0.5}}, {0.0}, varve::Activation::relu()}});
}

varve::Samples samples() { return varve::Samples(varve::CsrMatrix{1, 2, {0, 2}, {0, 1}, {1.0, 2.0}}); }

} // namespace

int main() {
  expect_error([] { varve::PreparedNetwork prepared(network()); }, "Kokkos does not run: make a varve::Runtime");
  expect_error([] { varve::train(network(), samples(), {{0}, {}}); }, "Kokkos does not run");
  {
    varve::Runtime const runtime({.num_threads = 1, .device = {}, .uses_mpi = true});
    char const* const size = std::getenv("OMPI_COMM_WORLD_SIZE"); // Open MPI says it to the processes that it starts
    char const* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (size != nullptr) expect(runtime.num_ranks() == std::stoi(size), "the number of ranks");
    if (rank != nullptr) expect(runtime.rank() == std::stoi(rank), "the rank");
    varve::PreparedNetwork prepared(network());
    expect(prepared.infer(samples()).activations.value(0) == 1.5, "the activation");
  }
  expect_error([] { varve::Runtime const again; }, "Kokkos has ended in this process");
  expect_error([] { varve::PreparedNetwork prepared(network()); }, "Kokkos does not run");
  return num_failures == 0 ? 0 : 1;
}

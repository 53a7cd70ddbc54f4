#include "fuzz/container_mutants.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// What libFuzzer calls instead of its own mutations, in fuzzers of containers.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::string const bytes(reinterpret_cast<char const*>(data), size);
  auto const mutant = varve::fuzz::ContainerMutator(seed).mutant_of(bytes);
  auto const taken = std::min(mutant.size(), most);
  std::memcpy(data, mutant.data(), taken);
  return taken;
}

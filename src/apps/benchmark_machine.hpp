#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>

namespace varve {

/// Everything about this machine and build that times depend on: processor, memory, limits of control groups,
/// load, kernel, GPU and driver, compiler and flags, Kokkos, MPI, settings in the environment, commit. What the machine
/// does not tell is null. `root` is the folder that contains proc and sys.
nlohmann::ordered_json describe_machine(std::filesystem::path const& root = "/");

/// The processors (a number, 1.5 for one and a half) and bytes of memory that the control groups of this process allow;
/// null where they set no limit.
nlohmann::ordered_json describe_group_limits(std::filesystem::path const& root = "/");

} // namespace varve

#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

/// The files of a journal: rank 0 writes FILE, rank r writes FILE.r.
namespace varve {

std::filesystem::path journal_of_rank(std::filesystem::path const& path, int rank);

/// The files of ranks beyond this job's that this rank reads: every num_ranks-th one.
std::vector<std::filesystem::path> journals_left(std::filesystem::path const& path, int rank, int num_ranks);

/// Throws InputError, naming the first difference, unless the head of a journal describes this run: it holds all that
/// `run` holds.
void require_same_run(nlohmann::ordered_json const& head, nlohmann::ordered_json const& run,
                      std::filesystem::path const& file);

} // namespace varve

#include "training/checkpoint.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "io/input_files.hpp"
#include "io/output_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

Checkpoint read_one(fs::path const& path) {
  NetworkFile const file(path);
  Checkpoint checkpoint{load(file), file.training_record()};
  if (auto const* const best = file.best()) checkpoint.best = std::make_shared<Network const>(load(*best));
  release_input(path); // the next checkpoint replaces it
  return checkpoint;
}

bool have_same_size(SparseMatrix const& one, SparseMatrix const& other) {
  return one.num_rows == other.num_rows && one.num_columns == other.num_columns &&
         one.num_entries() == other.num_entries();
}

/// Gives the checkpoint FILE a second name, FILE.previous, so that FILE is there until the next one replaces it. On
/// file systems without second names it is renamed, or, if FILE is a link to another file system, copied.
void keep_as_previous(fs::path const& path) {
  auto const previous = previous_generation(path);
  auto const file = target_of(path);
  std::error_code failure;
  fs::remove(previous, failure);
  fs::create_hard_link(file, previous, failure);
  if (failure) fs::rename(file, previous, failure);
  if (failure && file != path) fs::copy_file(file, previous, failure);
  if (!failure) return;
  fail<ResourceError>("{} cannot be kept as {}: {}", path.string(), previous.string(), failure.message());
}

} // namespace

Checkpoint checkpoint_of(Trainer const& trainer, std::string recipe, Network network, OptimizerState state) {
  return {
      std::move(network),
      TrainingRecord{std::move(recipe), to_json(trainer.progress()), std::move(state), to_numbers(trainer.epochs())},
      trainer.is_best() ? nullptr : trainer.best()};
}

void resume(Trainer& trainer, Training& engine, Checkpoint checkpoint, std::string const& place) {
  engine.restore(checkpoint.record.optimizer);
  trainer.resume(progress_from(checkpoint.record.progress, place + ": progress"),
                 epochs_from(checkpoint.record.history, place + ": history"), std::move(checkpoint.best));
}

fs::path previous_generation(fs::path const& path) { return fs::path(path) += ".previous"; }

void write_checkpoint(fs::path const& path, Checkpoint const& checkpoint) {
  NetworkFileWriter writer(path, checkpoint.network, checkpoint.record, checkpoint.best.get());
  require_unchanged_inputs();
  if (fs::is_regular_file(path)) keep_as_previous(path);
  writer.commit();
}

std::optional<Checkpoint> read_checkpoint(fs::path const& path,
                                          std::function<void(std::string const&)> const& complain) {
  auto const previous = previous_generation(path);
  bool const has_previous = fs::exists(previous);
  if (!fs::exists(path)) return has_previous ? std::optional(read_one(previous)) : std::nullopt;
  try {
    return read_one(path);
  } catch (InputError const& error) {
    if (!has_previous) throw;
    release_input(path);
    complain(fmt::format("{}; training continues from {}", error.what(), previous.string()));
  }
  return read_one(previous);
}

void require_same_shape(Checkpoint const& checkpoint, Network const& network, std::string const& place,
                        bool has_changes) {
  auto const& layers = network.layers();
  auto const& found = checkpoint.network.layers();
  if (found.size() != layers.size()) {
    fail<InputError>("{} is a checkpoint of another network: it has {} layers, expected {} as in {}", place,
                     found.size(), layers.size(), network.name());
  }
  for (std::size_t number = 0; number < layers.size(); ++number) {
    auto const& one = found[number].weights;
    auto const& other = layers[number].weights;
    bool const fits =
        have_same_size(one, other) &&
        (has_changes || (one.row_pointers == other.row_pointers && one.column_indices == other.column_indices));
    if (fits && found[number].activation == layers[number].activation) continue;
    fail<InputError>("{} is a checkpoint of another network: its layer {} has {} or another activation than that of {}",
                     place, number, has_changes ? "another number of edges or neurons" : "other edges", network.name());
  }
}

fs::path lock_of_checkpoint(fs::path const& path) { return fs::path(path) += ".lock"; }

CheckpointLock::CheckpointLock(fs::path const& path, double patience) : name_(lock_of_checkpoint(path)) {
  Stopwatch const waited;
  for (;;) {
    descriptor_ = open(name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail_to_write(name_, errno);
    if (is_taken_by_this()) return;
    close(std::exchange(descriptor_, -1));
    if (waited.seconds() > patience)
      fail<InputError>("{} is in use by another run, which holds {}", path.string(), name_.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

CheckpointLock::~CheckpointLock() {
  if (descriptor_ < 0) return;
  unlink(name_.c_str()); // before others can lock it, who would then hold a file without a name
  close(descriptor_);
}

/// True if this object holds the lock of the file that has the name now. (The run before may have removed the file
/// after it was opened here.)
bool CheckpointLock::is_taken_by_this() const {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) return false;
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor_, &opened) == 0 && stat(name_.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

} // namespace varve

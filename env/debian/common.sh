# shellcheck shell=bash
# Shared by the scripts of this folder; source it from the top level of the checkout.

say() { printf -- '--- %s\n' "$*" >&2; }

# The commit at which all tests ran on a GPU.
commit_of_gpu_page() { sed -nE 's/^\| commit \| ([0-9a-f]+).*/\1/p' tests/GPU.md; }

# Packages of the given lists that are not installed yet are installed (with sudo unless root).
install_packages() {
  local wanted missing=() package
  wanted=$(sed 's/#.*//' "$@")
  for package in $wanted; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then return; fi
  say "Installing ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Compilers at a time: one a core, but each may take 2 GiB of memory.
num_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 2097152) }' /proc/meminfo)
  if ((memory < 1)); then memory=1; fi
  echo $((cores < memory ? cores : memory))
}

# run_tests PRESET [ctest options]: one more at a time than there are cores, since many wait for processes that they start. Ranks of
# one machine need no network: Open MPI starts in half the time if it looks for none.
run_tests() {
  OMPI_MCA_pml=ob1 OMPI_MCA_btl=vader,self ctest --preset "$1" --parallel "$(($(num_jobs) + 1))" "${@:2}"
}

# keep_generator FOLDER: the generator that this build folder was configured with is used again. pip takes Ninja as soon as it
# finds one, and CMake refuses it in a folder, or in a download below it, that was configured for make.
keep_generator() {
  local cache generator
  for cache in "$1"/CMakeCache.txt "$1"/_deps/*-subbuild/CMakeCache.txt; do
    [[ -e $cache ]] || continue
    generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$cache")
    if [[ $generator ]]; then
      export CMAKE_GENERATOR=$generator
      return
    fi
  done
}

# For builds that are to be ready soon: headers of libraries are compiled once, and files without kernels eight at a time. What
# computes nothing (reading command lines, writing reports, tests without kernels) is not optimised, which halves its compile time and
# changes no time of a run. The library without its kernels is optimised less, which takes a third of its compile time, and so are
# tests with kernels of their own: other tests run those of the library.
quick_build=(-DVARVE_UNITY_BUILD=ON -DVARVE_PRECOMPILED_HEADERS=ON -DVARVE_HOST_OPTIMIZATION=-O1 -DVARVE_COMMAND_OPTIMIZATION=-O0 -DVARVE_KERNEL_TEST_OPTIMIZATION=-O1)

# A cache of objects serves every checkout of the project: paths below it do not count, and precompiled headers do not hinder.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

# configure PRESET [cmake options]: with the pinned Kokkos sources, by Ninja if it is installed and the folder has no makefiles; with
# mold, and with ccache where Kokkos allows it, if these are installed.
configure() {
  local preset=$1 sources
  shift
  if command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
  keep_generator "build/$preset"
  sources=$(env/debian/kokkos)
  local options=(-DFETCHCONTENT_SOURCE_DIR_KOKKOS="$sources/kokkos" -DFETCHCONTENT_SOURCE_DIR_KOKKOSKERNELS="$sources/kokkos-kernels")
  if [[ $preset != cuda-* ]] && command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if [[ $preset != cuda-* ]] && command -v mold >/dev/null; then options+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold); fi
  say "Configuring preset $preset in build/$preset"
  cmake --preset "$preset" --log-level=WARNING "${options[@]}" "$@" >&2
}

# Licensed like Varve: Apache-2.0.
from spack.package import *


class Varve(CMakePackage, CudaPackage, ROCmPackage):
    """Very deep sparse neural networks, exactly: thousands of layers, any sparsity pattern, from one Kokkos source."""

    # No release has been published: `spack develop` or `spack dev-build` builds a checkout.
    version("develop")

    license("Apache-2.0")

    variant("openmp", default=True, description="Build the OpenMP backend")
    variant("mpi", default=True, description="Distribute samples and training over ranks")
    variant("xz", default=True, description="Read and write .xz")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("kokkos@4.5.01:5 +serial")
    depends_on("kokkos +openmp", when="+openmp")
    depends_on("cli11", type="build")
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("xz", when="+xz")
    depends_on("mpi", when="+mpi")
    for arch in ("70", "80", "90"):
        depends_on(f"kokkos +cuda cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
    depends_on("kokkos@4.7.01:", when="+cuda ^cuda@13:")
    depends_on("kokkos +rocm amdgpu_target=gfx90a", when="+rocm amdgpu_target=gfx90a")

    conflicts("+cuda", when="cuda_arch=none", msg="Kokkos compiles for one GPU: choose cuda_arch=70, 80 or 90")
    conflicts("+rocm", when="amdgpu_target=none", msg="Kokkos compiles for one GPU: choose amdgpu_target=gfx90a")
    conflicts("+cuda", when="+rocm", msg="Kokkos has one GPU backend")
    conflicts("%gcc@:11")

    def cmake_args(self):
        args = [
            self.define("VARVE_BUILD_TESTS", self.run_tests),
            self.define_from_variant("VARVE_ENABLE_MPI", "mpi"),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_LibLZMA", self.spec.satisfies("~xz")),
        ]
        if self.spec.satisfies("+rocm"):
            args.append(self.define("CMAKE_CXX_COMPILER", self.spec["hip"].hipcc))
        elif self.spec.satisfies("+cuda ^kokkos +wrapper"):
            args.append(self.define("CMAKE_CXX_COMPILER", self["kokkos-nvcc-wrapper"].kokkos_cxx))
        return args

# Stands for an installed Kokkos: of version INSTALLED_VERSION, with the backends INSTALLED_DEVICES.
set(Kokkos_DEVICES ${INSTALLED_DEVICES})

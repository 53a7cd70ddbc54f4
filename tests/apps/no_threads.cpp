#include <pthread.h>

#include <cerrno>

/// Takes the place of the C library's function in a program that loads this first: no thread can be started.
extern "C" int pthread_create(pthread_t* /*thread*/, pthread_attr_t const* /*attributes*/, void* (* /*work*/)(void*),
                              void* /*argument*/) noexcept {
  return EAGAIN;
}

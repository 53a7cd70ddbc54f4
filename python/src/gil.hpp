#pragma once

#include <nanobind/nanobind.h>

#include <cxxabi.h>
#include <unistd.h>

/// The interpreter's lock. Nothing else in this folder takes it or gives it up.
namespace varve::python {

/// Takes the interpreter's lock by this function of Python. When the interpreter ends, Python (before 3.14) lets a
/// daemon thread that asks for the lock end by pthread_exit, which would unwind frames of C++ that let nothing through
/// and so abort the process. Such a thread stays here until the process is gone, as in Python 3.14.
template <class Take>
auto take_gil(Take const& take) {
  try {
    return take();
  } catch (abi::__forced_unwind const&) {
    for (;;) pause(); // leaving this block would end the process
  }
}

/// Gives the interpreter's lock up during its lifetime.
class WithoutGil {
public:
  WithoutGil() = default;
  ~WithoutGil() {
    take_gil([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(WithoutGil const&) = delete;
  WithoutGil& operator=(WithoutGil const&) = delete;

private:
  PyThreadState* state_ = PyEval_SaveThread();
};

/// Holds the interpreter's lock during its lifetime, on any thread.
class WithGil {
public:
  WithGil() = default;
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(WithGil const&) = delete;
  WithGil& operator=(WithGil const&) = delete;

private:
  PyGILState_STATE state_ = take_gil([] { return PyGILState_Ensure(); });
};

} // namespace varve::python

# Not one floating-point or vector register: the compiler refuses whatever would need one.
include(${CMAKE_CURRENT_LIST_DIR}/aarch64.cmake)
set(CMAKE_CXX_FLAGS_INIT -mgeneral-regs-only)
set(EVERBIT_SCALAR_ONLY ON)

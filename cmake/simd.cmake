# Files named x_simd.c are compiled once per instruction set, with contraction on; engine/cpu/simd.h
# says how they pick. Gives the objects in FAST_SIMD_OBJECTS.
set(FAST_SIMD_OBJECTS "")
file(GLOB simd_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/engine/cpu/*_simd.c)
set(isas base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND isas avx2 avx512)
  list(APPEND FAST_DEFINITIONS FAST_HAVE_X86_SIMD)
endif()
# Kernels are optimised in every build type: without it they are not kernels, and a plan measured by one
# build would mislead the others.
set(isa_flags_base "")
set(isa_flags_avx2 -mavx2 -mfma)
set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mprefer-vector-width=512)
if(simd_sources AND FAST_CPU_ENGINE)
  foreach(isa IN LISTS isas)
    add_library(fast_simd_${isa} OBJECT ${simd_sources})
    target_include_directories(fast_simd_${isa} PRIVATE include src)
    target_compile_options(fast_simd_${isa} PRIVATE ${isa_flags_${isa}} -ffp-contract=fast -Wno-psabi -O3)
    target_compile_definitions(fast_simd_${isa} PRIVATE FAST_ISA=${isa})
    list(APPEND FAST_SIMD_OBJECTS $<TARGET_OBJECTS:fast_simd_${isa}>)
  endforeach()
endif()

# Files named x_simd.c are compiled once per instruction set, with contraction on; engine/cpu/simd.h
# says how they pick. Gives the objects in FAST_SIMD_OBJECTS.
set(FAST_SIMD_OBJECTS "")
file(GLOB simd_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/engine/cpu/*_simd.c)
set(isas base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND isas avx2 avx512)
  list(APPEND FAST_DEFINITIONS FAST_HAVE_X86_SIMD)
endif()
# Kernels are optimised in every build type: without that they are not kernels, and a plan measured by
# one build would mislead the others. Sanitizers would take minutes to compile so.
set(simd_flags -ffp-contract=fast -Wno-psabi)
if(NOT FAST_SANITIZE)
  list(APPEND simd_flags -O3)
endif()
set(isa_flags_base "")
set(isa_flags_avx2 -mavx2 -mfma)
set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mprefer-vector-width=512)
if(simd_sources)
  foreach(isa IN LISTS isas)
    add_library(fast_simd_${isa} OBJECT ${simd_sources})
    target_include_directories(fast_simd_${isa} PRIVATE include src)
    target_compile_options(fast_simd_${isa} PRIVATE ${isa_flags_${isa}} ${simd_flags})
    target_compile_definitions(fast_simd_${isa} PRIVATE FAST_ISA=${isa})
    list(APPEND FAST_SIMD_OBJECTS $<TARGET_OBJECTS:fast_simd_${isa}>)
  endforeach()
endif()

# Where Debian's cross compiler is, kernels are compiled for NEON too: tests/house/lowering.py looks at
# the instructions.
find_program(FAST_ARM_COMPILER aarch64-linux-gnu-gcc)
if(simd_sources AND FAST_ARM_COMPILER AND FAST_TESTS AND NOT FAST_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(objects "")
  foreach(source IN LISTS simd_sources)
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_BINARY_DIR}/CMakeFiles/fast_simd_neon.dir/${name}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${FAST_ARM_COMPILER} -std=c17 -D_GNU_SOURCE -DFAST_ISA=base
              -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -fPIC -fno-math-errno ${simd_flags}
              -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d)
    list(APPEND objects ${object})
  endforeach()
  add_custom_target(fast_simd_neon ALL DEPENDS ${objects})
endif()
